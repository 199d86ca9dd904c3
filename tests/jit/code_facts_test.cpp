// Registers, memory and spills that code objects state, against what other readers say of them.
#include "jit/code_facts.h"

#include <gmock/gmock.h>

#include <fstream>
#include <random>

#include "jit/register_file.h"
#include "support.h"

namespace hipflash::jit::test {
namespace {

std::vector<std::byte> fixture(const std::string& name) {
  std::ifstream file(HIPFLASH_SOURCE_DIR "/tests/fuzz/code_facts.corpus/" + name, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

const KernelResources& kernel(const CodeFacts& facts, const std::string& name) {
  for (const KernelResources& found : facts.kernels) {
    if (found.name == name) return found;
  }
  throw Error(ErrorCode::Internal, "no kernel " + name);
}

// The numbers of `llvm-readelf --notes`.
TEST(CodeFacts, OfAmdCodeObjects) {
  struct Expected {
    const char* arch;
    int lanes, vgprs, sgprs, scratch, spilled, waves;  // of the kernel "spills"
  };
  for (const Expected& e :
       {Expected{"gfx906", 64, 64, 12, 396, 98, 4}, Expected{"gfx90a", 64, 128, 12, 140, 34, 4},
        Expected{"gfx1030", 32, 64, 12, 396, 98, 16}}) {
    SCOPED_TRACE(e.arch);
    const auto code = fixture(e.arch);
    const CodeFacts facts = read_code_facts(code);
    EXPECT_EQ(facts.format, CodeFormat::hsaco);
    EXPECT_EQ(facts.arch, e.arch);
    EXPECT_EQ(facts.bytes, code.size());
    ASSERT_EQ(facts.kernels.size(), 3u);

    const KernelResources& spills = kernel(facts, "spills");
    EXPECT_EQ(spills.vector_registers, e.vgprs);
    // Stated where they share the file of the vector registers.
    EXPECT_EQ(spills.accumulation_registers.has_value(), std::string(e.arch) == "gfx90a");
    EXPECT_EQ(spills.scalar_registers, e.sgprs);
    EXPECT_EQ(spills.scratch_bytes, e.scratch);
    EXPECT_EQ(spills.spilled_vector, e.spilled);
    EXPECT_EQ(spills.spilled_scalar, 0);
    EXPECT_EQ(spills.wave_lanes, e.lanes);
    EXPECT_EQ(spills.max_threads, 1024);
    EXPECT_EQ(spills.waves_per_simd, e.waves);
    EXPECT_EQ(spills.local_accesses, std::nullopt);
    EXPECT_TRUE(spills.spills());

    const KernelResources& indexes = kernel(facts, "indexes");
    EXPECT_EQ(indexes.scratch_bytes, 144);
    EXPECT_EQ(indexes.spilled_vector, 0);
    EXPECT_TRUE(indexes.spills());

    const KernelResources& shares = kernel(facts, "shares");
    EXPECT_EQ(shares.shared_bytes, 96 * 4);
    EXPECT_EQ(shares.max_threads, 128);
    EXPECT_FALSE(shares.spills());
    EXPECT_GT(shares.text_bytes, 100);
    EXPECT_LT(shares.text_bytes, spills.text_bytes);
    EXPECT_LE(spills.text_bytes + indexes.text_bytes + shares.text_bytes, facts.text_bytes);
  }
}

// The numbers of `cuobjdump -res-usage` and of the local accesses in its disassembly.
TEST(CodeFacts, OfCubins) {
  const auto code = fixture("sm_80");
  const CodeFacts facts = read_code_facts(code);
  EXPECT_EQ(facts.format, CodeFormat::cubin);
  EXPECT_EQ(facts.arch, "sm_80");
  ASSERT_EQ(facts.kernels.size(), 3u);

  const KernelResources& spills = kernel(facts, "spills");
  EXPECT_EQ(spills.vector_registers, 64);
  EXPECT_EQ(spills.scratch_bytes, 408);
  EXPECT_EQ(spills.local_accesses, 202);
  EXPECT_EQ(spills.max_threads, 1024);
  EXPECT_EQ(spills.wave_lanes, 32);
  EXPECT_EQ(spills.waves_per_simd, 8);
  EXPECT_EQ(spills.scalar_registers, std::nullopt);
  EXPECT_TRUE(spills.spills());
  EXPECT_EQ(kernel(facts, "indexes").vector_registers, 30);
  EXPECT_EQ(kernel(facts, "indexes").scratch_bytes, 128);
  const KernelResources& shares = kernel(facts, "shares");
  EXPECT_EQ(shares.shared_bytes, 96 * 4);
  EXPECT_EQ(shares.scratch_bytes, 0);
  EXPECT_EQ(shares.local_accesses, 0);
  EXPECT_FALSE(shares.spills());
  EXPECT_EQ(shares.waves_per_simd, 16);

  EXPECT_EQ(read_code_facts(code, "sm_86").arch, "sm_86");
  EXPECT_EQ(kernel(read_code_facts(code, "sm_86"), "shares").waves_per_simd, 12);
}

TEST(CodeFacts, OfSharedObjects) {
  const Env helper("HIPFLASH_COMPILE_HELPER", helper_path());
  CompileJob job;
  job.source = small_source(small_spec());
  job.arch = "cpu-test";
  job.options = small_spec().options;
  job.label = "a small kernel";
  const auto code = make_compiler(CompilerKind::host, CompileMode::in_process)->compile(job);
  const CodeFacts facts = read_code_facts(code, "cpu-test");
  EXPECT_EQ(facts.format, CodeFormat::shared_object);
  EXPECT_EQ(facts.arch, "cpu-test");
  EXPECT_GT(kernel(facts, "number").text_bytes, 0);
  EXPECT_GE(facts.text_bytes, kernel(facts, "number").text_bytes);
  EXPECT_EQ(kernel(facts, "number").vector_registers, std::nullopt);
}

TEST(CodeFacts, WhatIsNoCodeObjectSaysWhy) {
  const auto reason = [](const std::vector<std::byte>& bytes) {
    return std::string(error_of([&] { read_code_facts(bytes); }).what());
  };
  EXPECT_THAT(reason({}), testing::HasSubstr("shorter than"));
  EXPECT_THAT(reason(std::vector<std::byte>(5000)), testing::HasSubstr("not an ELF file"));
  auto code = fixture("gfx90a");
  code[4] = std::byte{1};
  EXPECT_THAT(reason(code), testing::HasSubstr("64-bit"));
  code = fixture("gfx90a");
  code.resize(code.size() - 100);
  EXPECT_THAT(reason(code), testing::HasSubstr("outside of it"));
}

// Every truncation, and thousands of random changes: facts or InvalidArgument, and ASan is content.
TEST(CodeFacts, DamagedCodeObjectsDoNoHarm) {
  const auto read = [](const std::vector<std::byte>& bytes) {
    try {
      read_code_facts(bytes);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::InvalidArgument) << error.what();
    }
  };
  std::mt19937 random(7);
  for (const char* name : {"gfx90a", "sm_80"}) {
    const auto code = fixture(name);
    for (std::size_t size = 0; size < code.size(); size += 37) {
      read({code.begin(), code.begin() + static_cast<std::ptrdiff_t>(size)});
    }
    for (int i = 0; i < 3000; ++i) {
      auto damaged = code;
      for (int k = 0; k < 4; ++k) damaged[random() % damaged.size()] = std::byte(random() & 0xff);
      read(damaged);
    }
  }
}

// A metadata note of nested arrays must not be followed until the stack ends.
TEST(CodeFacts, DeeplyNestedMetadataIsRefused) {
  auto code = fixture("gfx90a");
  const std::string owner("AMDGPU\0", 7);
  const auto* const begin = reinterpret_cast<const std::byte*>(owner.data());
  const auto at = std::search(code.begin(), code.end(), begin, begin + owner.size());
  ASSERT_NE(at, code.end());
  std::fill_n(at + 8, 800, std::byte{0x91});  // arrays of one array
  const Error error = error_of([&] { read_code_facts(code); });
  EXPECT_THAT(error.what(), testing::HasSubstr("no readable AMDGPU metadata"));
}

TEST(RegisterFile, LeavesRoomForWaves) {
  // 240 registers leave six waves on the large file of RDNA3, 256 only five.
  EXPECT_EQ(waves_per_simd("gfx1100", 32, 240, 50), 6);
  EXPECT_EQ(waves_per_simd("gfx1100", 32, 256, 50), 5);
  EXPECT_EQ(waves_per_simd("gfx1100", 64, 120, 50), 6);
  EXPECT_EQ(waves_per_simd("gfx1102", 32, 240, 50), 4);
  EXPECT_EQ(waves_per_simd("gfx1201", 32, 167, 50), 9);
  EXPECT_EQ(waves_per_simd("gfx1201", 32, 24, 50), 16);
  EXPECT_EQ(waves_per_simd("gfx1030", 32, 128, 50), 8);
  EXPECT_EQ(waves_per_simd("gfx1010", 32, 48, 50), 20);
  // Vector and accumulation registers share 512 on CDNA2 and later.
  EXPECT_EQ(waves_per_simd("gfx942:sramecc+:xnack-", 64, 256, 50), 2);
  EXPECT_EQ(waves_per_simd("gfx942", 64, 257, 50), 1);
  EXPECT_EQ(waves_per_simd("gfx90a", 64, 128, 50), 4);
  EXPECT_EQ(waves_per_simd("gfx908", 64, 128, 50), 2);
  EXPECT_EQ(waves_per_simd("gfx906", 64, 24, 102), 7);  // scalar registers decide
  EXPECT_EQ(waves_per_simd("sm_90a", 32, 168, 0), 3);
  EXPECT_EQ(waves_per_simd("sm_80", 32, 255, 0), 2);
  EXPECT_EQ(waves_per_simd("sm_75", 32, 32, 0), 8);
  EXPECT_EQ(waves_per_simd("cpu-avx2", 1, 16, 0), std::nullopt);
}

}  // namespace
}  // namespace hipflash::jit::test
