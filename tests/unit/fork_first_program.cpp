// A process that forks before it has made any call of the library, and again after calls from
// several threads: attention is right in every child and in the parent. With any argument it only
// computes, once.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

#include "hipflash/attention.h"

namespace {

// One key: the output is its value, whatever the query.
bool attention_is_right(hipflash::Context& context) {
  std::vector<float> q(64, 0.5f), k(64, 0.25f), v(64), out(64, NAN);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  const auto view = [](std::vector<float>& data) {
    return hipflash::Tensor::bshd(data.data(), hipflash::DType::f32, 1, 1, 1, 64);
  };
  hipflash::attention_forward(context, view(q), view(k), view(v), view(out));
  return out == v;
}

bool attention_is_right() {
  hipflash::Context context(hipflash::DeviceId{});
  return attention_is_right(context);
}

template <class Body>
bool in_child(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = false;
    try {
      right = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

int main(int count, char**) {
  if (count > 1) return attention_is_right() ? 0 : 6;
  if (!in_child([] { return attention_is_right(); })) return 1;
  hipflash::Context context(hipflash::DeviceId{});
  std::vector<std::thread> threads;
  std::vector<int> right(8);
  for (std::size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] { right[t] = attention_is_right(context); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int one : right) {
    if (!one) return 2;
  }
  if (!in_child([&] { return attention_is_right(context); })) return 3;
  if (!in_child([] { return attention_is_right(); })) return 4;
  return attention_is_right(context) ? 0 : 5;
}
