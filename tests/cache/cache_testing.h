// What the cache tests share: folders that vanish, sample entries, child processes, log lines.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>

#include "cache/entry_file.h"
#include "cache/io.h"
#include "cache/store.h"
#include "core/format.h"

namespace hipflash::cache::testing {

namespace fs = std::filesystem;

class TempFolder {
 public:
  explicit TempFolder(const std::string& tag = "hipflash-cache-test") {
    std::string name = (fs::temp_directory_path() / (tag + "-XXXXXX")).string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

// Puts the system's calls back at the end of a test.
struct InjectedCalls {
  explicit InjectedCalls(const io::Calls& table) { io::replace_for_testing(&table); }
  InjectedCalls(const InjectedCalls&) = delete;
  InjectedCalls& operator=(const InjectedCalls&) = delete;
  ~InjectedCalls() { io::replace_for_testing(nullptr); }
};

inline EntryInfo sample_info(const std::string& family = "cpu/attention_forward") {
  EntryInfo info;
  info.inputs.family = family;
  info.inputs.source_hash = hash_hex("source of " + family);
  info.inputs.prologue = "struct Spec {\n  static constexpr int head_dim = 128;\n};\n";
  info.inputs.options = {"-O3", "-mavx2"};
  info.inputs.arch = "x86-64+avx2+fma";
  info.inputs.compiler = "g++ 12.2.0";
  info.inputs.abi = 1;
  info.label = "f32 d128 causal, 64x256";
  return info;
}

// Bytes that depend on the seed and compress a little.
inline Bytes sample_code(unsigned seed, std::size_t size) {
  std::mt19937 random(seed);
  Bytes code(size);
  std::generate(code.begin(), code.end(), [&] { return static_cast<std::uint8_t>(random() % 97); });
  return code;
}

inline Bytes read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

inline void write_file(const fs::path& path, ByteView bytes) {
  fs::remove_all(path);
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
}

inline fs::path entry_path(const fs::path& folder, std::string_view key) {
  return folder / (std::string(key) + std::string(kEntrySuffix));
}

inline void set_age(const fs::path& path, std::chrono::seconds age) {
  struct timespec times[2] = {};
  times[0].tv_sec = times[1].tv_sec = std::time(nullptr) - age.count();
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

// Runs `body` in a child process and returns its wait status; the child exits with body's result.
inline pid_t start_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}
inline int wait_for(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}
inline int run_child(const std::function<int()>& body) {
  return wait_for(start_child(body));
}
inline bool exited_with(int status, int code) {
  return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

inline constexpr uid_t kNobody = 65534;

// Runs `body` as an ordinary user: in this process, or in a child that gives root away.
inline bool as_ordinary_user(const fs::path& folder, const std::function<bool()>& body) {
  if (geteuid() != 0) return body();
  for (const auto& at : fs::recursive_directory_iterator(folder)) {
    if (lchown(at.path().c_str(), kNobody, kNobody) != 0) return false;
  }
  if (chown(folder.c_str(), kNobody, kNobody) != 0) return false;
  const int status = run_child([&] {
    if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) return 2;
    return body() ? 0 : 1;
  });
  return exited_with(status, 0);
}

// Log lines of the library that `body` causes.
inline int log_lines(const std::function<void()>& body, std::string* text = nullptr) {
  ::testing::internal::CaptureStderr();
  body();
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (text != nullptr) *text = said;
  int lines = 0;
  for (std::size_t at = said.find("[hipflash]"); at != std::string::npos;
       at = said.find("[hipflash]", at + 1)) {
    ++lines;
  }
  return lines;
}

}  // namespace hipflash::cache::testing
