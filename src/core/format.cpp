#include "core/format.h"

#ifdef HIPFLASH_FMT_ONCE
HIPFLASH_FMT_ONCE()
#endif
