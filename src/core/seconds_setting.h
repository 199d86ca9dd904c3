// Settings that are lengths of time.
#pragma once

namespace hipflash {

// A number of seconds above 0 and up to a day; `missing` when unset. InvalidArgument if malformed.
double seconds_setting(const char* name, double missing);

}  // namespace hipflash
