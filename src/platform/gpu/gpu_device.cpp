#include "platform/gpu/gpu_device.h"

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "core/fail.h"
#include "platform/cuda/tensor_map.h"
#include "platform/gpu/gpu_module.h"
#include "platform/gpu/recorded.h"

namespace hipflash::platform {
// A ring of zeroed words. A kernel leaves its word zero, so a word is free again when its launch is
// done; the ring is far longer than the number of launches that a device runs at once.
class GpuDevice::Counters {
 public:
  Counters(GpuDriver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  ~Counters() {
    if (words_) driver_.release(ordinal_, words_);
  }

  int* next() {
    std::call_once(made_, [this] {
      void* const words = driver_.allocate(ordinal_, kWords * kApart * sizeof(int));
      driver_.zero(ordinal_, words, kWords * kApart * sizeof(int));
      driver_.synchronize(ordinal_);
      words_ = static_cast<int*>(words);
    });
    return words_ + turn_.fetch_add(1, std::memory_order_relaxed) % kWords * kApart;
  }

 private:
  static constexpr std::size_t kWords = 1024, kApart = 32;  // one cache line each

  GpuDriver& driver_;
  int ordinal_;
  std::once_flag made_;
  int* words_ = nullptr;
  std::atomic<std::size_t> turn_{0};
};

namespace {

// What a call reads and writes, by the names of attention.h; null: nothing. Without keys nothing is
// read of what belongs to them.
std::array<NamedPointer, 15> pointers_of(const AttentionArgs& args) {
  const bool keys = args.seq_k > 0;
  return {{{"q", args.q},
           {"k", keys ? args.k : nullptr},
           {"v", keys ? args.v : nullptr},
           {"out", args.out},
           {"lse", args.lse},
           {"bias", keys ? args.bias : nullptr},
           {"mask", keys ? args.mask : nullptr},
           {"alibi.slopes", args.alibi},
           {"sinks", args.sinks},
           {"varlen.cu_seqlens_q", args.cu_seqlens_q},
           {"varlen.cu_seqlens_k", args.cu_seqlens_k},
           {"cache.lengths", args.kv_lengths},
           {"cache.batch_index", args.kv_batch_index},
           {"cache.left_padding", args.kv_left_padding},
           {"paged.block_table", args.block_table}}};
}

class GpuRunner final : public Runner {
 public:
  GpuRunner(GpuDriver& driver, DeviceFacts facts, std::shared_ptr<GpuModule> module,
            std::shared_ptr<GpuDevice::Counters> counters, std::shared_ptr<FaultWord> faults,
            const GpuLaunch& launch)
      : driver_(driver),
        facts_(std::move(facts)),
        module_(std::move(module)),
        counters_(std::move(counters)),
        faults_(std::move(faults)),
        launch_(launch),
        forward_(module_->entry("attention_forward", launch.forward.shared_bytes)),
        merge_(launch.merge.blocks ? module_->entry("attention_merge", 0) : nullptr) {}

  void run(AttentionArgs&& args, Stream stream) const override {
    check_owners(driver_, facts_, pointers_of(args));
    args.fault = faults_->word();
    LaunchShape shape = launch_.forward;
    const bool recorded = driver_.capturing(stream);
    if (recorded) keep_for_graphs(module_, faults_);
    if (launch_.pieces > 0) {
      // A graph may be replayed while the ring hands its words to others: there each piece gets a
      // block of its own.
      if (recorded) {
        shape.blocks = launch_.pieces;
      } else {
        args.counter = counters_->next();
      }
    }
    void* partials = nullptr;
    if (launch_.partial_bytes > 0) {
      partials = driver_.allocate_on(facts_.ordinal, launch_.partial_bytes, stream);
      place_partials(args, static_cast<float*>(partials));
    }
    std::array<TensorMap, 3> maps;
    std::array<void*, 4> parameters = {&args};
    if (launch_.tensor_maps) {
      const Sm90Tile& tile = *launch_.tensor_maps;
      const bool bf16 = launch_.bf16;
      maps = {encode(sm90_map_q(tile, args), bf16), encode(sm90_map_k(tile, args), bf16),
              encode(sm90_map_v(tile, args), bf16)};
      for (std::size_t i = 0; i < maps.size(); ++i) parameters[i + 1] = &maps[i];
    }
    module_->launch(forward_, shape, parameters.data(), stream);
    if (merge_) module_->launch(merge_, launch_.merge, parameters.data(), stream);
    if (partials) driver_.release_on(facts_.ordinal, partials, stream);
  }

 private:
  GpuDriver& driver_;
  DeviceFacts facts_;
  std::shared_ptr<GpuModule> module_;
  std::shared_ptr<GpuDevice::Counters> counters_;
  std::shared_ptr<FaultWord> faults_;
  GpuLaunch launch_;
  void* forward_;
  void* merge_;
};

}  // namespace

GpuDevice::GpuDevice(Kind kind, int ordinal)
    : driver_(gpu_driver(kind)),
      facts_(driver_.facts(ordinal)),
      counters_(std::make_shared<Counters>(driver_, ordinal)) {}

GpuDevice::~GpuDevice() = default;

std::shared_ptr<FaultWord> GpuDevice::faults() {
  std::call_once(faults_made_,
                 [this] { faults_ = std::make_shared<FaultWord>(driver_, facts_.ordinal); });
  return faults_;
}

int* GpuDevice::fault_word() {
  return faults()->word();
}

int GpuDevice::take_fault() {
  return faults()->take();
}

std::shared_ptr<Module> GpuDevice::load(const jit::CodeObject& code) {
  if (auto kept = find_recorded(driver_, facts_.ordinal, code.key)) return kept;
  return std::make_shared<GpuModule>(driver_, facts_.ordinal, code);
}

std::unique_ptr<Runner> GpuDevice::prepare(std::shared_ptr<Module> module, const Launch& launch) {
  return std::make_unique<GpuRunner>(driver_, facts_, std::static_pointer_cast<GpuModule>(module),
                                     counters_, faults(), std::get<GpuLaunch>(launch));
}

std::unique_ptr<Operation> GpuDevice::prepare_operation(std::shared_ptr<Module> module,
                                                        const OperationLaunch& launch) {
  return prepare_gpu_operation(driver_, facts_, std::static_pointer_cast<GpuModule>(module),
                               faults(), launch);
}

}  // namespace hipflash::platform
