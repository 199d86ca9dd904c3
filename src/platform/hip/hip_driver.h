// The HIP platform's runtime.
#pragma once

#include <memory>

#include "platform/gpu/driver.h"

namespace hipflash::platform {

std::unique_ptr<GpuDriver> make_hip_driver();

}  // namespace hipflash::platform
