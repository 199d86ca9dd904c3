// Where the cases of a test program run: on the CPU with one instruction set, or on a GPU.
//
// Suites that take a Target are the same list for every platform. Each program defines
// target_names() and target(): the CPU's in cpu_target.cpp, a GPU's in tests/device/.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "hipflash/attention.h"

namespace hipflash::testing {

// Host memory that a call reads, or also writes.
struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;
  bool written = false;
};

template <class T>
Block block_of(std::vector<T>& data, bool written = false) {
  return {data.data(), data.size() * sizeof(T), written};
}

class Target {
 public:
  virtual ~Target() = default;
  virtual Context& context() = 0;
  virtual bool is_cpu() const = 0;
  // Runs the plan on pointers into the blocks; on return written blocks hold the results.
  virtual void run(const Plan& plan, const TensorPointers& host,
                   const std::vector<Block>& blocks) = 0;
  // Runs any call of the context: `call` gets what turns a pointer into a block to the address that
  // the device knows it by.
  using Translate = std::function<void*(const void* host)>;
  virtual void run(const std::vector<Block>& blocks,
                   const std::function<void(const Translate&)>& call) = 0;
};

// Names for ValuesIn(): letters, digits and underscores. Empty: this machine has no such device.
std::vector<std::string> target_names();
Target& target(const std::string& name);

}  // namespace hipflash::testing
