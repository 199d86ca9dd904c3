// Compilers that work, fail, crash, hang, print nothing, fill memory, lie or are missing.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>

#include "jit/helper_process.h"
#include "jit/helper_protocol.h"
#include "jit/hiprtc_compiler.h"
#include "jit/nvrtc_compiler.h"
#include "support.h"

namespace hipflash::jit::test {
namespace {

using testing::HasSubstr;

CompileJob small_job() {
  CompileJob job;
  job.source = small_source(small_spec());
  job.arch = "cpu-test";
  job.options = small_spec().options;
  job.label = "a small kernel";
  job.limits.seconds = 30;
  return job;
}

// Each case runs the compiler in this process and through the helper.
class HostCompiler : public testing::TestWithParam<CompileMode> {
 protected:
  std::vector<std::byte> compile(const CompileJob& job) {
    return make_compiler(CompilerKind::host, GetParam())->compile(job);
  }
  Error failure(const CompileJob& job) {
    return error_of([&] { compile(job); });
  }

  TestFolder folder_;
  Env helper_{"HIPFLASH_COMPILE_HELPER", helper_path()};
};

TEST_P(HostCompiler, MakesASharedObject) {
  const Env temporary("TMPDIR", folder_.path());
  const auto object = compile(small_job());
  ASSERT_GT(object.size(), 1000u);
  EXPECT_EQ(object[1], std::byte{'E'});
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_P(HostCompiler, ErrorsCarryTheCompilersWords) {
  CompileJob job = small_job();
  job.source = "#line 7 \"kernel_sources/some/file.h\"\nthis is no program;\n";
  const Error error = failure(job);
  EXPECT_EQ(error.code(), ErrorCode::CompileFailed);
  EXPECT_THAT(error.what(), HasSubstr("a small kernel"));
  EXPECT_THAT(error.log(), HasSubstr("kernel_sources/some/file.h:7"));
}

TEST_P(HostCompiler, ThatIsSilent) {
  const Env cxx("HIPFLASH_CXX", write_script(folder_ / "silent c++", "exit 3\n"));
  const Error error = failure(small_job());
  EXPECT_THAT(error.what(), HasSubstr("ended with exit status 3"));
  EXPECT_THAT(error.log(), HasSubstr("printed nothing"));
}

TEST_P(HostCompiler, ThatCrashes) {
  const Env cxx("HIPFLASH_CXX", write_script(folder_ / "c++", "echo dying >&2; kill -SEGV $$\n"));
  const Error error = failure(small_job());
  EXPECT_THAT(error.what(), HasSubstr("killed by signal 11"));
  EXPECT_THAT(error.log(), HasSubstr("dying"));
}

TEST_P(HostCompiler, ThatHangsWhenAskedWhatItIs) {
  const Env cxx("HIPFLASH_CXX", write_script(folder_ / "c++", "exec sleep 600\n"));
  const Env timeout("HIPFLASH_COMPILE_TIMEOUT", "0.5");
  const auto start = std::chrono::steady_clock::now();
  const Error error = error_of([&] { make_compiler(CompilerKind::host, GetParam())->identify(); });
  EXPECT_THAT(error.what(), HasSubstr("still running after 0.5 s"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST_P(HostCompiler, ThatHangs) {
  const std::string pid_file = folder_ / "pid";
  const Env cxx("HIPFLASH_CXX",
                write_script(folder_ / "c++", "sleep 600 & echo $! > '" + pid_file + "'; wait\n"));
  CompileJob job = small_job();
  job.limits.seconds = 0.7;
  const auto start = std::chrono::steady_clock::now();
  const Error error = failure(job);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_THAT(error.what(), HasSubstr("still running after 0.7 s"));
  // The grandchild went with the group.
  pid_t grandchild = 0;
  std::ifstream(pid_file) >> grandchild;
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(ends_soon(grandchild));
}

TEST_P(HostCompiler, ThatFillsMemory) {
  const Env cxx("HIPFLASH_CXX", write_script(folder_ / "c++", "exec c++ \"$@\"\n"));
  CompileJob job = small_job();
  job.limits.memory_bytes = std::uint64_t{24} << 20;
  const Error error = failure(job);  // of a program that compiles without the limit
  EXPECT_EQ(error.code(), ErrorCode::CompileFailed);
  EXPECT_FALSE(error.log().empty());
  EXPECT_THAT(error.what(), HasSubstr("HIPFLASH_COMPILE_MEMORY allows 24 MiB"));
}

TEST_P(HostCompiler, ThatWritesGarbage) {
  const Env cxx("HIPFLASH_CXX",
                write_script(folder_ / "c++", "for out; do :; done; echo garbage > \"$out\"\n"));
  EXPECT_THAT(failure(small_job()).what(), HasSubstr("not a shared object"));
}

TEST_P(HostCompiler, ThatWritesNothing) {
  const Env cxx("HIPFLASH_CXX", write_script(folder_ / "c++", "exit 0\n"));
  EXPECT_THAT(failure(small_job()).what(), HasSubstr("wrote no output"));
}

TEST_P(HostCompiler, ThatIsMissing) {
  const Env cxx("HIPFLASH_CXX", folder_ / "no such file");
  const Error error = failure(small_job());
  EXPECT_EQ(error.code(), ErrorCode::CompileFailed);
  EXPECT_THAT(error.what(), HasSubstr("HIPFLASH_CXX"));
}

INSTANTIATE_TEST_SUITE_P(Modes, HostCompiler,
                         testing::Values(CompileMode::in_process, CompileMode::process),
                         [](const auto& parameter) {
                           return parameter.param == CompileMode::process ? "process" : "inline";
                         });

TEST(Helper, ThatIsNamedAndMissing) {
  const Env helper("HIPFLASH_COMPILE_HELPER", "/no/such/hipflash-compile");
  const Error error = error_of([] { find_compile_helper(); });
  EXPECT_EQ(error.code(), ErrorCode::CompileFailed);
  EXPECT_THAT(error.what(), HasSubstr("HIPFLASH_COMPILE_HELPER"));
}

TEST(Helper, ThatAnswersNonsense) {
  TestFolder folder;
  const auto run = [&](const std::string& body) {
    return error_of([&] { compile_in_helper(write_script(folder / "helper", body), small_job()); });
  };
  EXPECT_THAT(run("cat > /dev/null; echo hello\n").what(), HasSubstr("cannot be read"));
  EXPECT_THAT(run("exit 0\n").what(), HasSubstr("without a result"));
  EXPECT_THAT(run("kill -ABRT $$\n").what(), HasSubstr("signal 6"));
}

TEST(Helper, MessagesSurviveTheTripAndTruncation) {
  CompileJob job = small_job();
  job.compiler = CompilerKind::nvrtc;
  job.tool = "/some/path";
  const std::string message = encode(job);
  const CompileJob back = decode_job(message);
  EXPECT_EQ(back.source, job.source);
  EXPECT_EQ(back.options, job.options);
  EXPECT_EQ(back.compiler, job.compiler);
  EXPECT_EQ(back.limits.memory_bytes, job.limits.memory_bytes);
  for (std::size_t size = 0; size < message.size(); ++size) {
    EXPECT_THROW(decode_job(std::string_view(message).substr(0, size)), Error);
  }
  EXPECT_THROW(decode_job(message + "x"), Error);
}

// With the helper that the environment names, if it does: another hipRTC may need one of its own
// (tools/hiprtc).
class GpuCompiler : public testing::TestWithParam<CompileMode> {
 protected:
  static std::string helper() {
    const char* const given = ::getenv("HIPFLASH_COMPILE_HELPER");
    return given ? given : helper_path();
  }
  CompileJob job(CompilerKind kind, const std::string& arch) {
    CompileJob made = small_job();
    made.compiler = kind;
    made.arch = arch;
    made.options = {kind == CompilerKind::hiprtc ? "-O3" : "--use_fast_math"};
    made.source = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n";
    return made;
  }
  Env helper_{"HIPFLASH_COMPILE_HELPER", helper()};
};

#define SKIP_WITHOUT(kind)                                             \
  const auto compiler = make_compiler(CompilerKind::kind, GetParam()); \
  try {                                                                \
    compiler->identify();                                              \
  } catch (const Error& missing) {                                     \
    GTEST_SKIP() << missing.what();                                    \
  }

TEST_P(GpuCompiler, HiprtcCompiles) {
  SKIP_WITHOUT(hiprtc);
  EXPECT_THAT(compiler->identify().identity, HasSubstr("comgr"));
  const auto object = compiler->compile(job(CompilerKind::hiprtc, "gfx90a"));
  ASSERT_GT(object.size(), 500u);
  EXPECT_EQ(object[1], std::byte{'E'});
}

TEST_P(GpuCompiler, HiprtcRefusesAnUnknownArchitecture) {
  SKIP_WITHOUT(hiprtc);
  const Error error = error_of([&] { compiler->compile(job(CompilerKind::hiprtc, "gfx9999")); });
  EXPECT_EQ(error.code(), ErrorCode::CompileFailed);
  EXPECT_THAT(error.what(), HasSubstr("\"gfx9999\" is not known"));
  EXPECT_THAT(error.what(), HasSubstr("gfx90a"));
}

TEST_P(GpuCompiler, HiprtcErrorsCarryTheLog) {
  SKIP_WITHOUT(hiprtc);
  CompileJob bad = job(CompilerKind::hiprtc, "gfx90a");
  bad.source = "this is no program;\n";
  const Error error = error_of([&] { compiler->compile(bad); });
  EXPECT_EQ(error.code(), ErrorCode::CompileFailed);
  EXPECT_FALSE(error.log().empty());
}

TEST_P(GpuCompiler, NvrtcCompiles) {
  SKIP_WITHOUT(nvrtc);
  const auto object = compiler->compile(job(CompilerKind::nvrtc, "sm_90"));
  ASSERT_GT(object.size(), 500u);
  EXPECT_EQ(object[1], std::byte{'E'});
  const Error error = error_of([&] { compiler->compile(job(CompilerKind::nvrtc, "sm_12345")); });
  EXPECT_THAT(error.what(), HasSubstr("\"sm_12345\" is not known"));
}

INSTANTIATE_TEST_SUITE_P(Modes, GpuCompiler,
                         testing::Values(CompileMode::in_process, CompileMode::process),
                         [](const auto& parameter) {
                           return parameter.param == CompileMode::process ? "process" : "inline";
                         });

}  // namespace
}  // namespace hipflash::jit::test
