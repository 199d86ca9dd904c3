// A Spec: everything that decides the machine code of one kernel.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cache/key.h"
#include "hipflash/cache.h"

namespace hipflash::jit {

// Part of every key, beside the hash of the kernel text. Raised when the library calls kernels in
// another way and their text (attention_args.h is part of it) does not show that.
inline constexpr int kLauncherAbi = 2;

// Who turns source text into a code object.
enum class CompilerKind { host, hiprtc, nvrtc };

struct Spec {
  CompilerKind compiler = CompilerKind::host;
  std::string family;  // path below kernel_sources/, such as "cpu/attention_forward.cpp"
  std::string arch;    // with feature flags: "cpu-avx512", "gfx942:sramecc+:xnack-", "sm_90a"
  std::string facts;   // the members of `struct Spec` in the kernel text, one per line
  std::vector<std::string> options;  // for the compiler, without the architecture of GPU compilers
  std::string label;                 // for people: "f16 d128 causal, 64x256"; not part of the key

  friend bool operator==(const Spec&, const Spec&) = default;
};

// A code object and how it was come by.
struct CodeObject {
  std::string key;               // key_of(inputs)
  cache::KeyInputs inputs;       // what made it; compiler: "none" if it was replaced meanwhile
  std::vector<std::byte> bytes;  // hsaco, cubin or shared object
  Tier tier = Tier::compiled;
  double compile_ms = 0.0;  // spent compiling for this call, 0 when found
};

}  // namespace hipflash::jit
