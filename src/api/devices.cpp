#include "hipflash/device.h"

#include <unistd.h>

#include "api/context_impl.h"
#include "core/fail.h"
#include "core/settings.h"
#include "platform/cpu/cpu_device.h"
#include "platform/cpu/isa.h"
#include "platform/gpu/gpu_device.h"

namespace hipflash {
namespace {

constexpr Platform kGpuPlatforms[] = {Platform::hip, Platform::cuda};

platform::Kind kind_of(Platform platform) {
  return platform == Platform::hip ? platform::Kind::hip : platform::Kind::cuda;
}

// Whether the kernel driver of a platform is there at all. Opening a vendor's runtime takes longer
// than a whole call on the CPU, so a default is not looked for where there can be none.
bool has_driver(Platform platform) {
  const auto exists = [](const char* path) { return ::access(path, F_OK) == 0; };
  const bool wsl = exists("/dev/dxg");
  return wsl || (platform == Platform::hip ? exists("/dev/kfd") : exists("/dev/nvidiactl"));
}

// 0 where the platform is missing: a machine without a GPU is a normal day.
int device_count(Platform platform) {
  try {
    return platform::gpu_driver(kind_of(platform)).device_count();
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

namespace api {

std::unique_ptr<platform::Device> open_device(DeviceId id, const ContextOptions& options) {
  if (id.platform != Platform::cpu) {
    return std::make_unique<platform::GpuDevice>(kind_of(id.platform), id.ordinal);
  }
  if (id.ordinal != 0) {
    fail(ErrorCode::NoDevice, "device = cpu:{}: there is one CPU device, cpu", id.ordinal);
  }
  if (options.threads < 0) {
    fail(ErrorCode::InvalidArgument, "threads = {} must be 0 (one per available CPU) or more",
         options.threads);
  }
  const bool given = !options.cpu_isa.empty();
  const CpuIsa isa = given ? platform::choose_isa(options.cpu_isa, "cpu_isa")
                           : platform::choose_isa(setting("HIPFLASH_CPU_ISA"));
  return std::make_unique<platform::CpuDevice>(options.threads, isa);
}

}  // namespace api

DeviceId default_device() {
  const std::string named = setting("HIPFLASH_DEVICE");
  if (!named.empty()) {
    try {
      return parse_device(named);
    } catch (const Error& error) {
      fail(error.code(), "HIPFLASH_DEVICE: {}", error.what());
    }
  }
  for (const Platform platform : kGpuPlatforms) {
    if (has_driver(platform) && device_count(platform) > 0) return {platform, 0};
  }
  return {};
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
  for (const Platform platform : kGpuPlatforms) {
    for (int i = 0; i < device_count(platform); ++i) {
      all.push_back(Context(DeviceId{platform, i}).device());
    }
  }
  all.push_back(Context(DeviceId{}).device());
  return all;
}

}  // namespace hipflash
