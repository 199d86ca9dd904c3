// The first call: with an empty cache (cold compile), in a process that finds the kernel on disk
// (warm load), and in one that has it in a pack and knows no compiler (pack load). Each iteration
// makes a new Context; the loads are those of the same process with everything in memory forgotten,
// so they lack only the start of the process itself.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

#include "bench/tensors.h"
#include "hipflash/attention.h"
#include "hipflash/pack.h"

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

struct Tensors {
  RandomTensor q{DType::f32, 1, 2, 16, 64, 1}, k{DType::f32, 1, 2, 16, 64, 2},
      v{DType::f32, 1, 2, 16, 64, 3}, out{DType::f32, 1, 2, 16, 64, 4};
};

const Tensors& tensors() {
  static const Tensors made;
  return made;
}

CacheStats first_call(const ContextOptions& options) {
  const auto& [q, k, v, out] = tensors();
  Context ctx(DeviceId{}, options);
  attention_forward(ctx, q.view(), k.view(), v.view(), out.view());
  return ctx.cache_stats();
}

CacheStats first_call(const std::string& cache_dir) {
  ContextOptions options;
  options.cache_dir = cache_dir;
  return first_call(options);
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

// The user's cache is empty, so it holds no word about the compiler either.
void pack_load(benchmark::State& state) {
  const Folder folder;
  const auto& [q, k, v, out] = tensors();
  pack::CreateOptions wanted;
  wanted.problems = {make_problem(q.view(), k.view(), v.view(), out.view())};
  const std::string path = folder.path / "bench.hfpack";
  pack::create(path, wanted);
  ContextOptions options;
  options.cache_dir = folder.path / "empty";
  options.prebuilt = {path};
  for (auto iteration : state) {
    (void)iteration;
    if (first_call(options).prebuilt_hits != 1) state.SkipWithError("the pack was not used");
  }
}
BENCHMARK(pack_load)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace hipflash::bench

BENCHMARK_MAIN();
