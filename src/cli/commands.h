// The commands. Each returns the exit code and throws Error or FileError on failure.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "api/planning.h"
#include "cli/options.h"
#include "hipflash/context.h"

namespace hipflash::cli {

int run_attention(const RunOptions& options);
int show_info(const InfoOptions& options);
int explain(const ExplainOptions& options);
int compile_kernels(const CompileOptions& options);
int manage_cache(const CacheOptions& options);
int bench(const BenchOptions& options);
int manage_packs(const PackOptions& options);
int tune_device(const TuneCliOptions& options);
int inspect_code(const InspectOptions& options);

// What they share.

using Json = nlohmann::ordered_json;

// The device that was asked for, or the default one.
DeviceId device_or_default(const std::string& name);

ContextOptions context_options(int threads);

// One object and a newline on stdout. Throws FileError if stdout does not take it.
void print_json(const Json& json);
void print(const std::string& text);

// The kernel that stands for all with these features, of one type and head dimension.
api::KernelRequest kernel_request(const CompileOptions& options, DType dtype,
                                  std::int64_t head_dim);
// What to make for an architecture when no types are named.
std::vector<DType> dtypes_of(const CompileOptions& options, const std::string& arch);
std::vector<std::int64_t> head_dims_of(const CompileOptions& options);

// A line on the terminal about what takes long, replaced by the next one; nothing if stderr is not
// a terminal. The line is cleared on destruction.
class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  void show(const std::string& line);

 private:
  bool terminal_;
  bool shown_ = false;
};

// Floating-point operations that the definition needs: 2 per product, over the keys that each query
// sees by position (causal and window); an elementwise mask saves nothing.
double attention_flops(const Problem& problem);

}  // namespace hipflash::cli
