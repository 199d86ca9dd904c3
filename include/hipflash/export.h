/**
 * \file
 * Symbol visibility. Everything outside the public headers is hidden in the shared library.
 */
#pragma once

#if defined(HIPFLASH_STATIC)
#define HIPFLASH_EXPORT
#else
#define HIPFLASH_EXPORT __attribute__((visibility("default")))
#endif
