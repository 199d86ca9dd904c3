// Errors name what the caller set: the option, or the variable of the environment.
#include "api/on_stub.h"

namespace hipflash::testing {
namespace {

std::string isa_error(const std::string& option) {
  try {
    ContextOptions options;
    options.cpu_isa = option;
    Context ctx(DeviceId{}, options);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Settings, AnUnknownInstructionSetIsNamedAsItWasAskedFor) {
  EXPECT_THAT(isa_error("avx1024"), ::testing::StartsWith("cpu_isa = \"avx1024\""));
  ::setenv("HIPFLASH_CPU_ISA", "avx2048", 1);
  EXPECT_THAT(isa_error(""), ::testing::StartsWith("HIPFLASH_CPU_ISA = \"avx2048\""));
  ::unsetenv("HIPFLASH_CPU_ISA");
}

}  // namespace
}  // namespace hipflash::testing
