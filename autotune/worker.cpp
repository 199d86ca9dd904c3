#include "autotune/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/problem_json.h"
#include "autotune/tile_json.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/settings.h"
#include "jit/installation.h"
#include "jit/process.h"

namespace hipflash::autotune {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* kHelper = "hipflash-measure";
constexpr double kStartLimit = 60.0;  // seconds: a runtime's first call on a busy machine

bool send_all(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

std::string find_measure_helper() {
  if (std::string named = setting("HIPFLASH_MEASURE_HELPER"); !named.empty()) {
    if (!jit::is_executable(named)) {
      fail(ErrorCode::NotSupported,
           "HIPFLASH_MEASURE_HELPER=\"{}\" is not a program that can be run", named);
    }
    return named;
  }
  for (const std::filesystem::path& folder : {jit::library_folder(), jit::program_folder()}) {
    if (folder.empty()) continue;
    for (const char* below :
         {".", "../libexec/hipflash", "../bin", "../../libexec/hipflash", "../../bin"}) {
      std::string path = (folder / below / kHelper).lexically_normal().string();
      if (jit::is_executable(path)) return path;
    }
  }
  fail(ErrorCode::NotSupported,
       "tuning: {} is not installed beside the library; HIPFLASH_MEASURE_HELPER may name it",
       kHelper);
}

Worker::Worker(std::string helper, DeviceId device, const ContextOptions& options)
    : helper_(std::move(helper)), device_(device), options_(options) {}

Worker::~Worker() {
  end();
}

void Worker::start() {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    fail(ErrorCode::Internal, "tuning: no socket pair: {}", std::strerror(errno));
  }
  socket_ = pair[0];
  errors_ = ::memfd_create("hipflash-measure", MFD_CLOEXEC);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, pair[1], 0);
  ::posix_spawn_file_actions_adddup2(&actions, errors_ >= 0 ? errors_ : 2, 1);
  if (errors_ >= 0) ::posix_spawn_file_actions_adddup2(&actions, errors_, 2);
  // A group of its own: an interrupt typed at the terminal is for the parent, which ends in order.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  char* const arguments[] = {const_cast<char*>(helper_.c_str()), nullptr};
  const int error =
      ::posix_spawn(&process_, helper_.c_str(), &actions, &attributes, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::close(pair[1]);
  if (error != 0) {
    process_ = -1;
    end();
    fail(ErrorCode::Internal, "tuning: {} cannot be started: {}", helper_, std::strerror(error));
  }
  ask({{"do", "open"},
       {"device", to_string(device_)},
       {"threads", options_.threads},
       {"cpu_isa", options_.cpu_isa},
       {"cache_dir", options_.cache_dir},
       {"use_disk_cache", options_.use_disk_cache}},
      kStartLimit);
}

void Worker::end() noexcept {
  if (socket_ >= 0) ::close(socket_);
  if (process_ > 0) {
    ::kill(-process_, SIGKILL);
    ::kill(process_, SIGKILL);
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (errors_ >= 0) ::close(errors_);
  socket_ = errors_ = -1;
  process_ = -1;
  received_.clear();
}

void Worker::died(const std::string& how) {
  std::string words;
  if (errors_ >= 0) {
    std::array<char, 400> tail;
    const off_t size = ::lseek(errors_, 0, SEEK_END);
    const off_t from = std::max<off_t>(0, size - static_cast<off_t>(tail.size()));
    const ssize_t got = ::pread(errors_, tail.data(), tail.size(), from);
    if (got > 0) words.assign(tail.data(), static_cast<std::size_t>(got));
    while (!words.empty() && words.back() == '\n') words.pop_back();
  }
  end();
  throw WorkerDied{words.empty() ? how : how + ": " + words};
}

Json Worker::ask(const Json& request, double limit) {
  if (process_ < 0) start();
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(limit));
  bool open = send_all(socket_, json_line(request) + "\n");
  std::size_t line = std::string::npos;
  while (open && (line = received_.find('\n')) == std::string::npos) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) died(fmt::format("hangs: still running after {:.0f} s", limit));
    pollfd polled = {socket_, POLLIN, 0};
    if (::poll(&polled, 1, static_cast<int>(std::min<long long>(left, 1000))) <= 0) continue;
    std::array<char, 4096> block;
    const ssize_t got = ::recv(socket_, block.data(), block.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      open = false;
    } else {
      received_.append(block.data(), static_cast<std::size_t>(got));
    }
  }
  if (!open) {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    died(WIFSIGNALED(status)
             ? fmt::format("crashes: killed by signal {} ({})", WTERMSIG(status),
                           ::strsignal(WTERMSIG(status)))
             : fmt::format("crashes: ended with exit status {}", WEXITSTATUS(status)));
  }
  Json answer = Json::parse(received_.substr(0, line), nullptr, false);
  received_.erase(0, line + 1);
  if (answer.is_discarded() || !answer.is_object()) died("crashes: its answer cannot be read");
  if (const auto error = answer.find("error"); error != answer.end()) {
    throw Error(ErrorCode::LaunchFailed, error->get<std::string>());
  }
  return answer;
}

void Worker::load(const Problem& problem, double limit) {
  ask({{"do", "load"}, {"problem", api::problem_to_json(problem)}}, limit);
}

Trial Worker::try_tile(const plan::TileNumbers& tile, double limit) {
  const Json answer = ask({{"do", "try"}, {"tile", tile_json(tile)}}, limit);
  return {answer.value("id", -1), answer.value("fault", std::string()), answer.value("ms", 0.0)};
}

double Worker::time_ms(int id, int repeat, double limit) {
  return ask({{"do", "time"}, {"id", id}, {"repeat", repeat}}, limit).value("ms", 0.0);
}

namespace {

Json serve(const Json& request, std::unique_ptr<Measurer>& measurer) {
  const std::string what = request.at("do").get<std::string>();
  if (what == "open") {
    ContextOptions options;
    request.at("threads").get_to(options.threads);
    request.at("cpu_isa").get_to(options.cpu_isa);
    request.at("cache_dir").get_to(options.cache_dir);
    request.at("use_disk_cache").get_to(options.use_disk_cache);
    measurer =
        std::make_unique<Measurer>(parse_device(request.at("device").get<std::string>()), options);
    return {{"ok", true}};
  }
  if (!measurer) fail(ErrorCode::Internal, "\"open\" must come first");
  if (what == "load") {
    measurer->load(api::problem_from_json(request.at("problem")));
    return {{"ok", true}};
  }
  if (what == "try") {
    const plan::TileNumbers tile = tile_of(request.at("tile"));
    const Trial trial = measurer->try_tile(tile);
    return {{"id", trial.id}, {"fault", trial.fault}, {"ms", trial.ms}};
  }
  if (what == "time") {
    return {
        {"ms", measurer->time_ms(request.at("id").get<int>(), request.at("repeat").get<int>())}};
  }
  fail(ErrorCode::Internal, "unknown request \"{}\"", what);
}

}  // namespace

int serve_measuring() {
  // A config that hangs would outlive a tuner that was killed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::unique_ptr<Measurer> measurer;
  std::string received;
  for (;;) {
    std::size_t line;
    while ((line = received.find('\n')) == std::string::npos) {
      std::array<char, 4096> block;
      const ssize_t got = ::recv(STDIN_FILENO, block.data(), block.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return 0;
      received.append(block.data(), static_cast<std::size_t>(got));
    }
    Json answer;
    try {
      answer = serve(Json::parse(received.substr(0, line)), measurer);
    } catch (const std::bad_alloc&) {
      answer = {{"error", "there is not enough memory for its tensors"}};
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    received.erase(0, line + 1);
    if (!send_all(STDIN_FILENO, json_line(answer) + "\n")) return 1;
  }
}

}  // namespace hipflash::autotune
