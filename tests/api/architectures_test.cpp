// Names of architectures that the compiler would end the process for.
#include "api/on_stub.h"
#include "jit/compiler.h"

namespace hipflash::jit {
namespace {

CompileJob job_for(const std::string& arch) {
  CompileJob job;
  job.compiler = CompilerKind::hiprtc;
  job.source = "extern \"C\" __global__ void kernel() {}";
  job.arch = arch;
  job.label = "a kernel";
  return job;
}

TEST(Architectures, FeaturesThatHipRtcDoesNotKnowAreRefusedBeforeItIsAsked) {
  const auto compiler = make_inline_compiler(CompilerKind::hiprtc);
  for (const char* good :
       {"gfx90a", "gfx90a:xnack-", "gfx90a:sramecc+", "gfx942:sramecc+:xnack-", "gfx942:xnack+"}) {
    EXPECT_FALSE(compiler->compile(job_for(good)).empty()) << good;
  }
  for (const char* wrong : {"gfx90a:", "gfx90a:bogus+", "gfx90a:xnack", "gfx90a:xnack-:sramecc+",
                            "gfx90a:xnack+:xnack-", "gfx90a:sramecc+xnack-",
                            "gfx90a:sramecc+:xnack-:", "gfx90a:xnack*", "gfx9999"}) {
    try {
      compiler->compile(job_for(wrong));
      ADD_FAILURE() << wrong << " was compiled";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::CompileFailed);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("\"" + std::string(wrong) + "\""));
    }
  }
}

}  // namespace
}  // namespace hipflash::jit
