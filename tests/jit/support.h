// What the JIT tests share: a small kernel, folders, environment variables, child processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "hipflash/error.h"
#include "jit/code_provider.h"
#include "jit/host_compiler.h"

namespace hipflash::jit::test {

inline std::string helper_path() {
  return HIPFLASH_BINARY_DIR "/libexec/hipflash/hipflash-compile";
}

// A folder with a space and non-ASCII letters in its name, removed at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string name = testing::TempDir() + "/hipflash jit äß-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Sets (or, with null, unsets) an environment variable until the end of the scope.
class Env {
 public:
  Env(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    put(value);
  }
  Env(const Env&) = delete;
  ~Env() { put(before_); }

 private:
  void put(const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name_, value->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> before_;
};

inline std::string write_script(const std::string& path, const std::string& body) {
  std::ofstream(path) << "#!/bin/sh\n" << body;
  ::chmod(path.c_str(), 0700);
  return path;
}

// A compiler that counts its compiles in `count_file` (one byte each) and then does `then`.
inline std::string counting_compiler(const TestFolder& folder, const std::string& then) {
  return write_script(folder / "fake c++",
                      "case \"$1\" in --version|-dumpmachine) exec c++ \"$1\";; esac\n"
                      "printf x >> '" +
                          (folder / "count") + "'\n" + then);
}

inline std::size_t compiles_counted(const TestFolder& folder) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(folder / "count", ignored);
  return ignored ? 0 : size;
}

inline Spec small_spec(int number = 1) {
  Spec spec;
  spec.family = "test";
  spec.arch = "cpu-test";
  spec.facts = "static constexpr int number = " + std::to_string(number) + ";";
  spec.options = {"-shared", "-fPIC", "-nostdlib"};
  spec.label = "f32 number " + std::to_string(number);
  return spec;
}

inline std::string small_source(const Spec& spec) {
  return "struct Spec { " + spec.facts +
         " };\nextern \"C\" int number() { return Spec::number; }\n";
}

inline ProviderOptions small_options(const std::string& cache_dir) {
  ProviderOptions options;
  options.cache_dir = cache_dir;
  options.source = small_source;
  options.mode = CompileMode::process;
  options.limits.seconds = 30;
  return options;
}

// The error that `run` throws.
template <class Run>
Error error_of(Run&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::Internal, "nothing was thrown");
}

// Runs `body` in a child process; true if it returned true there.
template <class Body>
pid_t in_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = false;
    try {
      good = body();
    } catch (...) {
    }
    ::_exit(good ? 0 : 1);
  }
  return child;
}

inline bool ended_well(pid_t child) {
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// True once the process is gone, or a zombie that nobody has reaped yet; false after some seconds.
inline bool ends_soon(pid_t process) {
  for (int i = 0; i < 500; ++i) {
    std::ifstream status("/proc/" + std::to_string(process) + "/stat");
    std::string id, name, letter;
    if (!(status >> id >> name >> letter) || letter == "Z") return true;
    ::usleep(10000);
  }
  return false;
}

}  // namespace hipflash::jit::test
