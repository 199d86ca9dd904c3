/// \file
/// What a compiler made of a kernel: registers, shared memory, scratch, spills.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hipflash/context.h"
#include "hipflash/export.h"

namespace hipflash {

/// What one kernel of a code object takes. Values that its kind of code object does not state are
/// empty.
struct KernelResources {
  std::string name;  ///< "attention_forward"
  /// Vector registers of a lane: VGPRs with the accumulation registers that lie in the same file
  /// (gfx90a and later), or the registers of a CUDA thread.
  std::optional<int> vector_registers;
  std::optional<int> accumulation_registers;  ///< AMD: the AGPRs among them.
  std::optional<int> scalar_registers;        ///< AMD: SGPRs of a wave.
  std::optional<int> spilled_vector;          ///< AMD: vector registers that were spilled.
  std::optional<int> spilled_scalar;          ///< AMD: scalar registers that were spilled.
  /// NVIDIA: loads and stores of a thread's local memory in the code, spills among them.
  std::optional<int> local_accesses;
  std::optional<std::int64_t> shared_bytes;   ///< Of a block, known when compiled (LDS on AMD).
  std::optional<std::int64_t> scratch_bytes;  ///< Of a lane: scratch on AMD, stack on NVIDIA.
  std::optional<int> wave_lanes;              ///< Lanes of a wave (warp).
  std::optional<int> max_threads;             ///< Of a block.
  /// Waves of one SIMD (warps of one scheduler) that registers leave room for, by the rules of the
  /// architecture's register file.
  std::optional<int> waves_per_simd;
  std::int64_t text_bytes = 0;  ///< Machine code.

  /// True if lanes keep values in memory for want of registers, or for any other reason.
  bool spills() const noexcept {
    return scratch_bytes.value_or(0) > 0 || spilled_vector.value_or(0) > 0;
  }
};

/// Kinds of code objects.
enum class CodeFormat : int { hsaco = 0, cubin = 1, shared_object = 2 };

/// "hsaco", "cubin" or "shared object".
HIPFLASH_EXPORT const char* to_string(CodeFormat format) noexcept;

/// What a code object says about itself.
struct CodeFacts {
  CodeFormat format = CodeFormat::shared_object;
  std::string arch;             ///< "gfx942:sramecc+", "sm_90"; empty for shared objects.
  std::size_t bytes = 0;        ///< Of the whole object.
  std::int64_t text_bytes = 0;  ///< Of all its machine code.
  std::vector<KernelResources> kernels;
};

/// Reads a code object: AMD's (hsaco), NVIDIA's (cubin), or a shared object of a CPU.
/// `arch` overrides the architecture in the object, which may be less exact ("sm_90" for "sm_90a").
/// \throws Error InvalidArgument when these bytes are none, saying why. No bytes crash it.
HIPFLASH_EXPORT CodeFacts read_code_facts(const void* data, std::size_t bytes,
                                          const std::string& arch = {});

/// A code object with what it was made from.
struct Inspection {
  std::string file;       ///< Where it was found.
  bool is_entry = false;  ///< False: a bare code object, and all up to `code` is empty.
  std::string key;        ///< Hex.
  std::string family;     ///< Kernel family.
  std::string arch;
  std::string label;                 ///< For people: dtype, head dimension, features.
  std::string compiler;              ///< Version and identity of the compiler.
  std::string source_hash;           ///< Hex; of the whole source text.
  std::string facts;                 ///< The generated constants of the kernel, C++ text.
  std::vector<std::string> options;  ///< Of the compiler.
  int abi = 0;                       ///< ABI number of the launcher.
  CodeFacts code;
};

/// Looks at a cache entry or a bare code object. `file_or_key` is a path, or a key (eight or more
/// of its first digits) that is looked for in the user cache and in prebuilt folders.
/// `inspect("0a1b2c3d").code.kernels[0].vector_registers`
/// \throws Error InvalidArgument when nothing or more than one entry is meant, or the file is
///         neither an entry nor a code object.
HIPFLASH_EXPORT Inspection inspect(const std::string& file_or_key,
                                   const ContextOptions& options = {});

}  // namespace hipflash
