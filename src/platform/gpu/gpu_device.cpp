#include "platform/gpu/gpu_device.h"

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "core/fail.h"
#include "platform/cuda/tensor_map.h"

namespace hipflash::platform {
namespace {

class GpuModule final : public Module {
 public:
  GpuModule(GpuDriver& driver, int ordinal, std::span<const std::byte> code)
      : driver_(driver), ordinal_(ordinal), module_(driver.load_module(ordinal, code)) {}
  ~GpuModule() override { driver_.unload_module(ordinal_, module_); }

  void* entry(const char* name, unsigned shared_bytes) const {
    void* const function = driver_.function(module_, name);
    if (shared_bytes > 48u * 1024u) driver_.allow_shared(function, shared_bytes);
    return function;
  }

 private:
  GpuDriver& driver_;
  int ordinal_;
  void* module_;
};

}  // namespace

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

class GpuRunner final : public Runner {
 public:
  GpuRunner(GpuDriver& driver, DeviceFacts facts, std::shared_ptr<const GpuModule> module,
            std::shared_ptr<GpuDevice::Counters> counters, const GpuLaunch& launch)
      : driver_(driver),
        facts_(std::move(facts)),
        module_(std::move(module)),
        counters_(std::move(counters)),
        launch_(launch),
        forward_(module_->entry("attention_forward", launch.forward.shared_bytes)),
        merge_(launch.merge.blocks ? module_->entry("attention_merge", 0) : nullptr) {}

  void run(AttentionArgs args, Stream stream) const override {
    check_owner("q", args.q);
    check_owner("out", args.out);
    if (args.seq_k > 0) {
      check_owner("k", args.k);
      check_owner("v", args.v);
    }
    LaunchShape shape = launch_.forward;
    if (launch_.pieces > 0) {
      // A graph may be replayed while the ring hands its words to others: there each piece gets a
      // block of its own.
      if (driver_.capturing(stream)) {
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
    driver_.launch(facts_.ordinal, forward_, shape, parameters.data(), stream);
    if (merge_) driver_.launch(facts_.ordinal, merge_, launch_.merge, parameters.data(), stream);
    if (partials) driver_.release_on(facts_.ordinal, partials, stream);
  }

 private:
  // Memory of the host or of another device would be read through the wrong address space or end
  // the process's work on this device.
  void check_owner(const char* name, const void* pointer) const {
    const int owner = driver_.device_of(pointer);
    if (owner == facts_.ordinal || (owner < 0 && facts_.reads_host_memory)) return;
    const std::string where = owner < 0
                                  ? "not memory of a device"
                                  : fmt::format("memory of {}:{}", to_string(facts_.kind), owner);
    fail(ErrorCode::InvalidArgument, "{} = {} is {}, but the plan is for {}:{}", name,
         fmt::ptr(pointer), where, to_string(facts_.kind), facts_.ordinal);
  }

  GpuDriver& driver_;
  DeviceFacts facts_;
  std::shared_ptr<const GpuModule> module_;
  std::shared_ptr<GpuDevice::Counters> counters_;
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

std::shared_ptr<Module> GpuDevice::load(const jit::CodeObject& code) {
  return std::make_shared<GpuModule>(driver_, facts_.ordinal, code.bytes);
}

std::unique_ptr<Runner> GpuDevice::prepare(std::shared_ptr<Module> module, const Launch& launch) {
  return std::make_unique<GpuRunner>(driver_, facts_,
                                     std::static_pointer_cast<const GpuModule>(module), counters_,
                                     std::get<GpuLaunch>(launch));
}

}  // namespace hipflash::platform
