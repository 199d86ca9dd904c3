#include "platform/gpu/driver.h"

#include <memory>
#include <mutex>
#include <optional>

#include "core/fail.h"
#include "platform/cuda/cuda_driver.h"
#include "platform/hip/hip_driver.h"

namespace hipflash::platform {
namespace {

// Never destroyed: plans of static lifetime may still launch while the process exits.
struct Opened {
  std::once_flag once;
  GpuDriver* driver = nullptr;
  std::optional<Error> trouble;
};

}  // namespace

const char* to_string(Kind kind) noexcept {
  switch (kind) {
    case Kind::cpu:
      return "cpu";
    case Kind::hip:
      return "hip";
    case Kind::cuda:
      return "cuda";
  }
  return "unknown";
}

GpuDriver& gpu_driver(Kind kind) {
  static auto* const hip = new Opened;
  static auto* const cuda = new Opened;
  Opened& opened = kind == Kind::hip ? *hip : *cuda;
  std::call_once(opened.once, [&] {
    try {
      opened.driver = (kind == Kind::hip ? make_hip_driver() : make_cuda_driver()).release();
    } catch (const Error& error) {
      opened.trouble = error;
    }
  });
  if (!opened.driver) throw Error(*opened.trouble);
  return *opened.driver;
}

}  // namespace hipflash::platform
