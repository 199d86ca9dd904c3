// What tests of `hipflash pack`, and of programs that use packs, have in common.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "command_testing.h"
#include "hipflash/attention.h"
#include "plan/dense_problem.h"

namespace hipflash::cli {

class PackCommand : public CommandFolder {
 protected:
  // A home of its own: packs that the user installed would serve too.
  std::string settings(const std::string& environment) const {
    return "HOME='" + folder_.string() +
           "' XDG_DATA_HOME= HIPFLASH_TUNING=off HIPFLASH_CACHE_DIR='" HIPFLASH_BINARY_DIR
           "/test-cache/packs' HIPFLASH_PREBUILT= HIPFLASH_DEVICE=cpu " +
           environment;
  }
  Result run(const std::string& line, const std::string& environment = {}) const {
    return run_in_folder(settings(environment), line + " </dev/null");
  }
  Result good(const std::string& line, const std::string& environment = {}) const {
    Result result = run(line, environment);
    EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.errors;
    return result;
  }
};

class Env {
 public:
  Env(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    if (value) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;
  ~Env() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

inline Problem small_problem(std::int64_t head_dim = 16) {
  return plan::dense_problem({DType::f32, 1, 4, 4, 64, 64, head_dim, false});
}

class PackInContext : public PackCommand {
 protected:
  // Of this machine, with the kernel of small_problem().
  void make_pack(const std::string& more = {}) const {
    good("pack create -o app.hfpack --dtype f32 --head-dim 16 " + more);
  }
  ContextOptions deployed() const {
    ContextOptions options;
    options.use_disk_cache = false;
    options.prebuilt = {(folder_ / "app.hfpack").string()};
    return options;
  }
  static std::vector<float> solve(const Plan& plan) {
    const Problem& p = plan.problem();
    const auto size = static_cast<std::size_t>(p.seq_q * p.heads_q * p.head_dim);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> q(size), k(size), v(size), out(size, NAN);
    for (auto* data : {&q, &k, &v}) {
      for (float& x : *data) x = normal(random);
    }
    TensorPointers tensors;
    tensors.q = q.data();
    tensors.k = k.data();
    tensors.v = v.data();
    tensors.out = out.data();
    plan.run(tensors);
    return out;
  }
  static void expect_close(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5f) << i;
  }
  Env cxx_{"HIPFLASH_CXX", "/no/such/compiler"};
  Env isa_{"HIPFLASH_CPU_ISA", nullptr};
  Env verify_{"HIPFLASH_VERIFY", "1"};
};

class WithCompiler : public Env {
 public:
  WithCompiler() : Env("HIPFLASH_CXX", nullptr) {}
};

}  // namespace hipflash::cli
