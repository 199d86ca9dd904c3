/// \file
/// Compiling ahead: for other machines, and for machines without a compiler.
#pragma once

#include <string>
#include <vector>

#include "hipflash/cache.h"
#include "hipflash/context.h"
#include "hipflash/problem.h"

namespace hipflash {

/// A kernel made by compile_ahead().
struct CompiledKernel {
  std::string key;  ///< Hex.
  std::string family;
  std::string arch;
  std::string label;           ///< For people: dtype, head dimension, features, tile.
  Tier tier = Tier::compiled;  ///< disk: it was there already.
  double compile_ms = 0;
};

/// Compiles the kernel of a Problem for `arch`, which need not be this machine's, into the user
/// cache (ContextOptions::cache_dir). Architectures: those of `hipflash info`, such as "cpu-avx2".
/// \throws Error InvalidArgument for an unknown architecture; NotSupported; CompileFailed.
HIPFLASH_EXPORT CompiledKernel compile_ahead(const Problem& problem, const std::string& arch,
                                             const ContextOptions& options = {});

/// Compiles the general kernels of CPU architectures into a folder that HIPFLASH_PREBUILT may name:
/// one kernel per dtype, which serves any shape, head dimension and mask on machines without a
/// compiler. The build of hipflash makes its own set this way. Returns the keys.
/// `write_general_kernels("app/kernels", {"cpu-avx2", "cpu-avx512"});`
/// \throws Error InvalidArgument for an unknown architecture; CompileFailed; CacheUnusable.
HIPFLASH_EXPORT std::vector<std::string> write_general_kernels(
    const std::string& folder, const std::vector<std::string>& archs);

/// The CPU architectures that this machine's compiler can make kernels for, slowest first.
HIPFLASH_EXPORT std::vector<std::string> cpu_architectures();

}  // namespace hipflash
