// The first call: with an empty cache (cold compile), and in a process that finds the kernel on
// disk (warm load). Each iteration makes a new Context; the warm load is that of the same process
// with everything in memory forgotten, so it lacks only the start of the process itself.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

#include "bench/tensors.h"
#include "hipflash/attention.h"

namespace hipflash::bench {
namespace {

struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "hipflash-bench-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

void first_call(const std::string& cache_dir) {
  static const RandomTensor q(DType::f32, 1, 2, 16, 64, 1), k(DType::f32, 1, 2, 16, 64, 2),
      v(DType::f32, 1, 2, 16, 64, 3), out(DType::f32, 1, 2, 16, 64, 4);
  ContextOptions options;
  options.cache_dir = cache_dir;
  Context ctx(DeviceId{}, options);
  attention_forward(ctx, q.view(), k.view(), v.view(), out.view());
}

void cold_compile(benchmark::State& state) {
  for (auto iteration : state) {
    (void)iteration;
    state.PauseTiming();
    const Folder folder;
    state.ResumeTiming();
    first_call(folder.path);
  }
}
BENCHMARK(cold_compile)->Unit(benchmark::kMillisecond)->UseRealTime()->MinTime(3.0);

void warm_load(benchmark::State& state) {
  const Folder folder;
  first_call(folder.path);
  for (auto iteration : state) {
    (void)iteration;
    first_call(folder.path);
  }
}
BENCHMARK(warm_load)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace hipflash::bench

BENCHMARK_MAIN();
