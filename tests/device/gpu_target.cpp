#include <cstdlib>

#include "numerics/target.h"
#include "platform/gpu/driver.h"

namespace hipflash::testing {
namespace {

DeviceId test_device() {
  const char* const named = std::getenv("HIPFLASH_TEST_DEVICE");
  return named ? parse_device(named) : default_device();
}

// Device copies of the blocks of one call.
class DeviceBlocks {
 public:
  DeviceBlocks(platform::GpuDriver& driver, int ordinal, const std::vector<Block>& blocks)
      : driver_(driver), ordinal_(ordinal) {
    for (const Block& block : blocks) {
      if (block.bytes == 0) continue;
      copies_.push_back({block, driver_.allocate(ordinal_, block.bytes)});
      driver_.copy_to_device(ordinal_, copies_.back().device, block.data, block.bytes);
    }
  }
  DeviceBlocks(const DeviceBlocks&) = delete;
  ~DeviceBlocks() {
    for (const Copy& copy : copies_) driver_.release(ordinal_, copy.device);
  }

  // The device twin of a host pointer; null of one in no block.
  template <class T>
  void translate(T*& pointer) const {
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    for (const Copy& copy : copies_) {
      const auto first = reinterpret_cast<std::uintptr_t>(copy.block.data);
      if (at >= first && at < first + copy.block.bytes) {
        pointer =
            reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(copy.device) + (at - first));
        return;
      }
    }
    pointer = nullptr;
  }

  void download() {
    driver_.synchronize(ordinal_);
    for (const Copy& copy : copies_) {
      if (!copy.block.written) continue;
      driver_.copy_from_device(ordinal_, copy.block.data, copy.device, copy.block.bytes);
    }
  }

 private:
  struct Copy {
    Block block;
    void* device;
  };
  platform::GpuDriver& driver_;
  const int ordinal_;
  std::vector<Copy> copies_;
};

class GpuTarget final : public Target {
 public:
  Context& context() override { return context_; }
  bool is_cpu() const override { return false; }
  void run(const Plan& plan, const TensorPointers& host,
           const std::vector<Block>& blocks) override {
    DeviceBlocks copies(driver(), test_device().ordinal, blocks);
    TensorPointers t = host;
    copies.translate(t.q);
    copies.translate(t.k);
    copies.translate(t.v);
    copies.translate(t.out);
    copies.translate(t.lse);
    copies.translate(t.bias);
    copies.translate(t.mask);
    copies.translate(t.alibi);
    copies.translate(t.sinks);
    copies.translate(t.cu_seqlens_q);
    copies.translate(t.cu_seqlens_k);
    copies.translate(t.kv_lengths);
    copies.translate(t.kv_batch_index);
    copies.translate(t.kv_left_padding);
    copies.translate(t.block_table);
    plan.run(t);
    copies.download();
  }

  void run(const std::vector<Block>& blocks,
           const std::function<void(const Translate&)>& call) override {
    DeviceBlocks copies(driver(), test_device().ordinal, blocks);
    call([&](const void* host) {
      void* device = const_cast<void*>(host);
      copies.translate(device);
      return device;
    });
    copies.download();
  }

 private:
  static platform::GpuDriver& driver() {
    return platform::gpu_driver(test_device().platform == Platform::hip ? platform::Kind::hip
                                                                        : platform::Kind::cuda);
  }

  Context context_{test_device()};
};

}  // namespace

std::vector<std::string> target_names() {
  const DeviceId device = test_device();
  if (device.platform == Platform::cpu) return {};
  std::string name = to_string(device);
  name[name.find(':')] = '_';
  return {name};
}

Target& target(const std::string&) {
  static GpuTarget instance;
  return instance;
}

}  // namespace hipflash::testing
