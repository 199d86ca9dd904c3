#include "hipflash/device.h"

#include "api/context_impl.h"
#include "core/fail.h"
#include "core/settings.h"

namespace hipflash {

namespace api {

void require_device(DeviceId id) {
  if (id.platform != Platform::cpu) {
    fail(ErrorCode::NotSupported, "device = {}: the {} platform is not built yet", to_string(id),
         to_string(id.platform));
  }
  if (id.ordinal != 0) {
    fail(ErrorCode::NoDevice, "device = cpu:{}: there is one CPU device, cpu", id.ordinal);
  }
}

}  // namespace api

DeviceId default_device() {
  const std::string named = setting("HIPFLASH_DEVICE");
  return named.empty() ? DeviceId{} : parse_device(named);
}

std::vector<DeviceInfo> devices() {
  return {Context(DeviceId{}).device()};
}

}  // namespace hipflash
