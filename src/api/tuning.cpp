#include "hipflash/tuning.h"

#include "core/fail.h"

namespace hipflash {

void tune(Context&, const TuneOptions&) {
  fail(ErrorCode::NotSupported,
       "tuning: this feature is not built yet; plans use built-in defaults");
}

}  // namespace hipflash
