// Compiles what plans choose by default, for every architecture that a compiler of this machine
// knows, and looks at what came out: no kernel may use scratch or spill up to a head dimension of
// 256.
//
// HIPFLASH_COMPILE_SET=all compiles every class of features at every kind of head dimension,
// instead of a representative part. HIPFLASH_RESULTS=FILE appends one line of JSON for each kernel,
// for tools/verification.py. Code objects are kept in HIPFLASH_CACHE_DIR.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpu_compile/default_specs.h"
#include "hipflash/error.h"
#include "jit/code_facts.h"
#include "jit/code_provider.h"
#include "jit/hiprtc_compiler.h"
#include "jit/nvrtc_compiler.h"

namespace hipflash::testing {
namespace {

constexpr int kNoSpillsUpTo = 256;

bool compile_all() {
  const char* const set = std::getenv("HIPFLASH_COMPILE_SET");
  return set && std::string(set) == "all";
}

jit::CodeProvider& provider() {
  static jit::CodeProvider instance([] {
    jit::ProviderOptions options = jit::provider_options_from_settings();
    options.prebuilt.clear();
    return options;
  }());
  return instance;
}

// Why this machine cannot compile for an architecture; empty if it can.
std::string why_not(const std::string& arch) {
  const bool nvidia = arch.rfind("sm_", 0) == 0;
  try {
    const auto known = nvidia ? jit::nvrtc_architectures() : jit::hiprtc_architectures();
    // NVRTC lists "sm_90" and takes "sm_90a" too.
    const std::string base = nvidia && arch.back() == 'a' ? arch.substr(0, arch.size() - 1) : arch;
    if (std::find(known.begin(), known.end(), base) != known.end()) return {};
    const auto kind = nvidia ? jit::CompilerKind::nvrtc : jit::CompilerKind::hiprtc;
    return provider().compiler_state(kind).description + " does not know " + arch;
  } catch (const Error& error) {
    return error.what();
  }
}

void write_result(const DefaultSpec& made, const CodeFacts& facts, const std::string& compiler) {
  const char* const path = std::getenv("HIPFLASH_RESULTS");
  if (!path) return;
  const KernelResources* kernel = nullptr;  // the entry, not what joins its splits
  for (const KernelResources& found : facts.kernels) {
    if (found.name != "attention_merge") kernel = &found;
  }
  ASSERT_NE(kernel, nullptr);
  nlohmann::ordered_json line = {{"kind", "compiled"},
                                 {"compiler", compiler},
                                 {"arch", made.spec.arch},
                                 {"dtype", made.dtype},
                                 {"head_dim", made.head_dim},
                                 {"value_head_dim", made.value_head_dim},
                                 {"features", made.features},
                                 {"registers", kernel->vector_registers.value_or(-1)},
                                 {"waves", kernel->waves_per_simd.value_or(-1)},
                                 {"scratch", kernel->scratch_bytes.value_or(-1)},
                                 {"spilled", kernel->spilled_vector.value_or(0)}};
  std::ofstream(path, std::ios::app) << line.dump() + "\n";
}

// As people know compilers: "hipRTC 5.2.21153", "NVRTC 13.0".
std::string short_name(jit::CompilerKind kind) {
  const std::string text = provider().compiler_state(kind).description;
  const std::size_t open = text.rfind('(');
  return open == std::string::npos
             ? text
             : text.substr(open + 1, text.find_first_of(",)", open) - open - 1);
}

struct Architecture {
  const char* name;
  Extent extent;
};

void PrintTo(const Architecture& arch, std::ostream* out) {
  *out << arch.name;
}

class DefaultSpecs : public ::testing::TestWithParam<Architecture> {};

// What a kernel reads in place of a page that does not exist.
bool has_a_row_of_nan(const std::vector<std::byte>& code) {
  return std::search_n(code.begin(), code.end(), 2048, std::byte{0xff}) != code.end();
}

TEST_P(DefaultSpecs, CompileWithoutSpills) {
  const Architecture arch = GetParam();
  if (const std::string reason = why_not(arch.name); !reason.empty()) GTEST_SKIP() << reason;
  const auto specs = default_specs(arch.name, compile_all() ? Extent::all : arch.extent);
  std::vector<std::shared_future<jit::CodeObject>> compiles;
  for (const DefaultSpec& made : specs) compiles.push_back(provider().get_async(made.spec));
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const DefaultSpec& made = specs[i];
    SCOPED_TRACE(made.dtype + " d" + std::to_string(made.head_dim) + "/" +
                 std::to_string(made.value_head_dim) + " " + made.features + "\n" +
                 made.spec.facts);
    try {
      const std::vector<std::byte>& code = compiles[i].get().bytes;
      const CodeFacts facts = jit::read_code_facts(code, arch.name);
      write_result(made, facts, short_name(made.spec.compiler));
      ASSERT_FALSE(facts.kernels.empty());
      if (made.features.find("paged") != std::string::npos) {
        EXPECT_TRUE(has_a_row_of_nan(code));
      }
      if (std::max(made.head_dim, made.value_head_dim) > kNoSpillsUpTo) continue;
      for (const KernelResources& kernel : facts.kernels) {
        EXPECT_FALSE(kernel.spills())
            << kernel.name << " has " << kernel.scratch_bytes.value_or(0)
            << " bytes of scratch and spills " << kernel.spilled_vector.value_or(0)
            << " registers of " << kernel.vector_registers.value_or(0);
      }
    } catch (const Error& error) {
      ADD_FAILURE() << error.what() << "\n" << error.log();
    }
  }
}

constexpr Architecture kArchitectures[] = {
    {"gfx906", Extent::representative},
    {"gfx908", Extent::few},
    {"gfx90a", Extent::representative},
    {"gfx942", Extent::representative},
    {"gfx950", Extent::representative},
    {"gfx1030", Extent::representative},
    {"gfx1100", Extent::representative},
    {"gfx1101", Extent::few},
    {"gfx1102", Extent::few},
    {"gfx1103", Extent::few},
    {"gfx1150", Extent::few},
    {"gfx1151", Extent::few},
    {"gfx1152", Extent::few},
    {"gfx1153", Extent::few},
    {"gfx1200", Extent::few},
    {"gfx1201", Extent::representative},
    {"sm_80", Extent::representative},
    {"sm_86", Extent::few},
    {"sm_89", Extent::few},
    {"sm_90", Extent::few},
    {"sm_90a", Extent::representative},
};

INSTANTIATE_TEST_SUITE_P(Of, DefaultSpecs, ::testing::ValuesIn(kArchitectures),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace hipflash::testing
