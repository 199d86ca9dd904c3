// Plans for architectures that need not be at hand: what compiling ahead and packs make kernels
// for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hipflash/problem.h"
#include "plan/kernel_plan.h"
#include "plan/tile_choice.h"
#include "platform/cpu/isa.h"

namespace hipflash::api {

// A kernel in the words of `hipflash compile` and `hipflash pack create`.
struct KernelRequest {
  DType dtype = DType::f16;
  std::int64_t head_dim = 0, value_head_dim = 0;  // value_head_dim 0: head_dim
  std::int64_t seq = 2048;                        // what tile configs are chosen for
  bool causal = false, top_left = false;
  Window window;
  float softcap = 0.0f;
  std::optional<float> scale;
  bool alibi = false, bias = false, mask = false, lse = false;
  bool strict_f32 = false;
};

// The problem that stands for all with these facts: beyond the difference of
// few queries and many, what a kernel is compiled for does not depend on sequences and heads.
Problem forward_problem(const KernelRequest& request);

// forward_problem(), and single queries over that many keys, alone and in small and large
// groups that share a key/value head: what a model that generates text runs.
std::vector<Problem> usual_problems(const KernelRequest& request);

bool is_gpu(const std::string& arch);

// The instruction sets of this platform, slowest first.
std::span<const CpuIsa> cpu_isas();

// The architecture that kernels for this machine's CPU are made for.
std::string this_cpu();

// Throws Error(InvalidArgument) for anything else than a CPU architecture of this platform.
CpuIsa isa_of(const std::string& arch);

// The kernels that may serve a problem on an architecture: one for a device of so many compute
// units (CPU: threads), or, where 0, those for devices of any size: that which splits the keys on
// large devices and that which does not, and on GPUs those between. With `tuned`, those that it
// chooses besides the built-in default.
std::vector<jit::Spec> specs_for(const Problem& problem, const std::string& arch, int compute_units,
                                 const plan::TileSource* tuned = nullptr);

// The general kernels of a GPU architecture that may serve problems like this one: for keys that
// lie as they are and for keys in pages.
std::vector<jit::Spec> general_gpu_specs(const Problem& problem, const std::string& arch);

// The command that makes a pack with the kernel `spec` of this problem, ready for a shell.
std::string pack_command(const Problem& problem, const jit::Spec& spec, int compute_units);

}  // namespace hipflash::api
