#include "autotune/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <random>

#include "api/context_impl.h"
#include "autotune/search_space.h"
#include "autotune/sequences.h"
#include "core/fail.h"
#include "plan/gpu_plan.h"
#include "platform/cpu/cpu_device.h"
#include "platform/device_memory.h"
#include "platform/gpu/driver.h"
#include "verify/convert.h"
#include "verify/reference.h"

namespace hipflash::autotune {
namespace {

using Bytes = std::vector<std::byte>;

// Queries of each sequence that are checked, the first and the last among them.
constexpr std::int64_t kChecked = 32;

// Normal numbers, from a table whose length is prime so that no two rows are alike.
Bytes random_tensor(DType dtype, std::int64_t elements, unsigned seed) {
  constexpr std::size_t kTable = 65521;
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Bytes table(kTable * size_of(dtype));
  for (std::size_t i = 0; i < kTable; ++i) {
    verify::store(dtype, table.data(), static_cast<std::int64_t>(i),
                  static_cast<double>(normal(generator)));
  }
  Bytes data(static_cast<std::size_t>(std::max<std::int64_t>(elements, 1)) * size_of(dtype));
  for (std::size_t at = 0; at < data.size(); at += table.size()) {
    std::memcpy(data.data() + at, table.data(), std::min(table.size(), data.size() - at));
  }
  return data;
}

}  // namespace

class Measurer::Impl {
 public:
  Impl(DeviceId id, const ContextOptions& options)
      : id_(id),
        device_(api::open_device(id, options)),
        provider_(api::provider_options(options)),
        modules_(provider_) {}

  void load(const Problem& problem) {
    runners_.clear();
    memory_.reset();
    problem_ = problem;
    if (!make_measurable(problem_)) {
      fail(ErrorCode::NotSupported, "tuning: this problem is not measured");
    }
    const Problem& p = problem_;
    const std::int64_t blocks = p.features.paged_kv ? p.ragged.pages : p.batch;  // of K and V
    q_ = random_tensor(p.dtype, p.batch * p.q.batch, 1);
    k_ = random_tensor(p.dtype, blocks * p.k.batch, 2);
    v_ = random_tensor(p.dtype, blocks * p.v.batch, 3);
    out_.assign(static_cast<std::size_t>(p.batch * p.out.batch) * size_of(p.dtype),
                std::byte{0xff});
    sequences_ = std::make_unique<SequenceTables>(p);
    lse_.assign(p.features.lse ? static_cast<std::size_t>(p.batch * p.heads_q * p.seq_q) : 0, 0);
    bias_ = random_tensor(p.bias_dtype, p.features.bias ? p.seq_q * p.seq_k : 0, 4);
    mask_.assign(p.features.mask ? static_cast<std::size_t>(p.seq_q * p.seq_k) : 0, std::byte{1});
    for (std::size_t i = 0; i < mask_.size(); i += 3) mask_[i] = std::byte{0};
    slopes_.assign(static_cast<std::size_t>(p.heads_q), 0.25f);

    host_ = {};
    host_.q = q_.data();
    host_.k = k_.data();
    host_.v = v_.data();
    host_.out = out_.data();
    if (p.features.lse) host_.lse = lse_.data();
    if (p.features.bias) host_.bias = bias_.data();
    if (p.features.mask) host_.mask = mask_.data();
    if (p.features.alibi) host_.alibi = slopes_.data();
    if (p.features.sinks) host_.sinks = slopes_.data();

    SequenceTables& tables = *sequences_;
    const auto data_of = [](auto& table) { return table.empty() ? nullptr : table.data(); };
    if (p.ragged.offsets_are_64bit) {
      host_.cu_seqlens_q = data_of(tables.long_offsets_q);
      host_.cu_seqlens_k = data_of(tables.long_offsets_k);
    } else {
      host_.cu_seqlens_q = data_of(tables.offsets_q);
      host_.cu_seqlens_k = data_of(tables.offsets_k);
    }
    host_.kv_lengths = data_of(tables.lengths);
    host_.kv_batch_index = data_of(tables.slots);
    host_.kv_left_padding = data_of(tables.padding);
    host_.block_table = data_of(tables.pages);

    memory_ = platform::make_device_memory(id_);
    const auto there = [&](const void* data, std::size_t bytes) {
      return data ? memory_->upload(const_cast<void*>(data), bytes) : nullptr;
    };
    AttentionArgs& a = tensors_ = {};
    a.q = there(host_.q, q_.size());
    a.k = there(host_.k, k_.size());
    a.v = there(host_.v, v_.size());
    a.out = there(host_.out, out_.size());
    a.lse = static_cast<float*>(there(host_.lse, lse_.size() * sizeof(float)));
    a.bias = there(host_.bias, bias_.size());
    a.mask = static_cast<const unsigned char*>(there(host_.mask, mask_.size()));
    a.alibi = static_cast<const float*>(there(host_.alibi, slopes_.size() * sizeof(float)));
    a.sinks = static_cast<const float*>(there(host_.sinks, slopes_.size() * sizeof(float)));
    const std::size_t offset_bytes =
        static_cast<std::size_t>(p.batch + 1) * (p.ragged.offsets_are_64bit ? 8 : 4);
    const auto numbers = [&](const std::int32_t* data, std::size_t count) {
      return static_cast<const int*>(there(data, count * sizeof(std::int32_t)));
    };
    a.cu_seqlens_q = there(host_.cu_seqlens_q, offset_bytes);
    a.cu_seqlens_k = there(host_.cu_seqlens_k, offset_bytes);
    a.kv_lengths = numbers(host_.kv_lengths, tables.lengths.size());
    a.kv_batch_index = numbers(host_.kv_batch_index, tables.slots.size());
    a.kv_left_padding = numbers(host_.kv_left_padding, tables.padding.size());
    a.block_table = numbers(host_.block_table, tables.pages.size());

    options_.most_queries = kChecked;
    reference_ = verify::attention_f64(p, host_, options_);
    low_ = verify::attention_low(p, host_, options_);
  }

  Trial try_tile(const plan::TileNumbers& tile) {
    const OnlyTile only(tile);
    plan::KernelPlan plan = plan_here(&only);
    if (plan.tile.numbers != tile) {
      fail(ErrorCode::InvalidArgument, "the family does not take {}", plan::to_text(tile));
    }
    const jit::LoadedModule loaded = modules_.get(*device_, plan.spec);
    Config config{device_->prepare(loaded.module, plan.launch), plan.args};
    config.args.q = tensors_.q;
    config.args.k = tensors_.k;
    config.args.v = tensors_.v;
    config.args.out = tensors_.out;
    config.args.lse = tensors_.lse;
    config.args.bias = tensors_.bias;
    config.args.mask = tensors_.mask;
    config.args.alibi = tensors_.alibi;
    config.args.sinks = tensors_.sinks;
    config.args.cu_seqlens_q = tensors_.cu_seqlens_q;
    config.args.cu_seqlens_k = tensors_.cu_seqlens_k;
    config.args.kv_lengths = tensors_.kv_lengths;
    config.args.kv_batch_index = tensors_.kv_batch_index;
    config.args.kv_left_padding = tensors_.kv_left_padding;
    config.args.block_table = tensors_.block_table;

    poison();
    config.runner->run(AttentionArgs(config.args), {});
    memory_->synchronize();
    memory_->download(out_.data());
    if (host_.lse) memory_->download(lse_.data());
    Trial trial;
    const verify::Verdict verdict = verify::compare(problem_, host_, reference_, low_, options_);
    if (!verdict.ok()) {
      trial.fault = "wrong: " + verdict.text();
      return trial;
    }
    trial.id = static_cast<int>(runners_.size());
    runners_.push_back(std::move(config));
    trial.ms = time_ms(trial.id, 1);
    return trial;
  }

  double time_ms(int id, int repeat) {
    Config& config = runners_.at(static_cast<std::size_t>(id));
    struct Work {
      Config& config;
      int repeat;
    } work{config, repeat};
    const auto run = [](void* context) {
      auto& all = *static_cast<Work*>(context);
      for (int i = 0; i < all.repeat; ++i)
        all.config.runner->run(AttentionArgs(all.config.args), {});
    };
    if (id_.platform == Platform::cpu) {
      const auto start = std::chrono::steady_clock::now();
      run(&work);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      return took.count() / repeat;
    }
    const auto kind = id_.platform == Platform::hip ? platform::Kind::hip : platform::Kind::cuda;
    return platform::gpu_driver(kind).time_ms(id_.ordinal, run, &work) / repeat;
  }

 private:
  struct Config {
    std::unique_ptr<platform::Runner> runner;
    AttentionArgs args;
  };

  plan::KernelPlan plan_here(const plan::TileSource* source) const {
    if (id_.platform != Platform::cpu) return plan::plan_gpu(problem_, device_->facts(), source);
    const CpuIsa isa = static_cast<const platform::CpuDevice&>(*device_).isa();
    return plan::plan_cpu(problem_, isa, device_->facts().compute_units, plan::Kernel::specialized,
                          source);
  }

  // NaN everywhere: what a kernel does not write is seen.
  void poison() {
    std::fill(out_.begin(), out_.end(), std::byte{0xff});
    std::fill(lse_.begin(), lse_.end(), std::numeric_limits<float>::quiet_NaN());
    if (id_.platform == Platform::cpu) return;
    const auto kind = id_.platform == Platform::hip ? platform::Kind::hip : platform::Kind::cuda;
    platform::GpuDriver& driver = platform::gpu_driver(kind);
    driver.copy_to_device(id_.ordinal, tensors_.out, out_.data(), out_.size());
    if (tensors_.lse) {
      driver.copy_to_device(id_.ordinal, tensors_.lse, lse_.data(), lse_.size() * sizeof(float));
    }
  }

  const DeviceId id_;
  const std::unique_ptr<platform::Device> device_;
  jit::CodeProvider provider_;
  jit::ModuleCache modules_;
  Problem problem_;
  Bytes q_, k_, v_, out_, bias_, mask_;
  std::vector<float> lse_, slopes_;
  std::unique_ptr<SequenceTables> sequences_;
  TensorPointers host_;
  AttentionArgs tensors_ = {};
  std::unique_ptr<platform::DeviceMemory> memory_;
  verify::ReferenceOptions options_;
  verify::Reference reference_, low_;
  std::vector<Config> runners_;
};

Measurer::Measurer(DeviceId device, const ContextOptions& options)
    : impl_(std::make_unique<Impl>(device, options)) {}
Measurer::~Measurer() = default;
void Measurer::load(const Problem& problem) {
  impl_->load(problem);
}
Trial Measurer::try_tile(const plan::TileNumbers& tile) {
  return impl_->try_tile(tile);
}
double Measurer::time_ms(int id, int repeat) {
  return impl_->time_ms(id, repeat);
}

}  // namespace hipflash::autotune
