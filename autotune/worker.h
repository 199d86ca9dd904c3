// The process that measures, as its parent sees it: hipflash-measure, one request and one answer at
// a time, each a line of JSON on a socket. A crash or a hang of a config ends that process and
// becomes a WorkerDied with the reason; the next request starts another one.
#pragma once

#include <sys/types.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "autotune/measure.h"

namespace hipflash::autotune {

// hipflash-measure: HIPFLASH_MEASURE_HELPER, else where hipflash-compile would be. Throws
// Error(NotSupported) if it is nowhere.
std::string find_measure_helper();

struct WorkerDied {
  std::string reason;  // "crashed: killed by signal 11 (Segmentation fault)", "hangs: ..."
};

class Worker {
 public:
  Worker(std::string helper, DeviceId device, const ContextOptions& options);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // As Measurer's, with a time limit in seconds. Throw Error for what the worker reports,
  // WorkerDied for its end; then load() must come first again.
  void load(const Problem& problem, double limit);
  Trial try_tile(const plan::TileNumbers& tile, double limit);
  double time_ms(int id, int repeat, double limit);

 private:
  nlohmann::ordered_json ask(const nlohmann::ordered_json& request, double limit);
  void start();
  void end() noexcept;
  [[noreturn]] void died(const std::string& how);

  const std::string helper_;
  const DeviceId device_;
  const ContextOptions options_;
  pid_t process_ = -1;
  int socket_ = -1, errors_ = -1;
  std::string received_;
};

// The worker's side: serves requests on descriptor 0 until it is closed. Returns the exit code.
int serve_measuring();

}  // namespace hipflash::autotune
