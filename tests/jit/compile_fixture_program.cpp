// Compiles a GPU source for one architecture and writes the code object. The code objects in
// tests/fuzz/code_facts.corpus/ were made with it:
//
//   cd build/dev/tests && for arch in gfx906 gfx90a gfx1030 sm_80; do
//     ./compile_fixture_program $arch ../../../tests/jit/fixtures/resources.hip
//       ../../../tests/fuzz/code_facts.corpus/$arch; done
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "hipflash/error.h"
#include "jit/compiler.h"

int main(int argc, char** argv) {
  using namespace hipflash;
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s ARCH SOURCE OUTPUT\n", argv[0]);
    return 2;
  }
  std::ifstream source(argv[2]);
  jit::CompileJob job;
  job.arch = argv[1];
  job.compiler =
      job.arch.rfind("sm_", 0) == 0 ? jit::CompilerKind::nvrtc : jit::CompilerKind::hiprtc;
  job.source.assign(std::istreambuf_iterator<char>(source), {});
  job.options = {"-std=c++17"};
  job.label = argv[2];
  try {
    const auto code = jit::make_inline_compiler(job.compiler)->compile(job);
    std::ofstream(argv[3], std::ios::binary)
        .write(reinterpret_cast<const char*>(code.data()),
               static_cast<std::streamsize>(code.size()));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n%s\n", error.what(), error.log().c_str());
    return 1;
  }
  return 0;
}
