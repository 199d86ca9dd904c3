// A random problem that a CPU kernel of some config must solve, in memory that ends at protected
// pages.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "bench/cpu_kernels/kernel_build.h"
#include "verify/convert.h"

namespace hipflash::bench {

using Random = std::mt19937;
int pick(Random& random, int low, int high);
bool chance(Random& random, double p);

inline std::size_t size_of(ElementType type) {
  return type == ElementType::f32 ? 4 : 2;
}
inline float load_as(ElementType type, const void* data, long long i) {
  return verify::load(static_cast<DType>(type), data, i);
}
inline void store_as(ElementType type, void* data, long long i, float x) {
  verify::store(static_cast<DType>(type), data, i, double(x));
}

// Memory whose last byte lies before an inaccessible page; all of its bytes are 0xff.
class Guarded {
 public:
  Guarded() = default;
  explicit Guarded(std::size_t bytes);
  ~Guarded();
  Guarded(Guarded&& other) noexcept;
  Guarded& operator=(Guarded&& other) noexcept;

  char* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t mapped_ = 0, bytes_ = 0;
  char *base_ = nullptr, *data_ = nullptr;
};

class RandomProblem {
 public:
  RandomProblem(const KernelConfig& config, const CpuTile& tile, Random& random);

  const AttentionArgs& args() const { return args_; }
  const Guarded& out() const { return out_; }

  // Runs the kernel, work items in the order that finds most faults.
  void run(const Kernel& kernel);

  // Whether query i of a head sees key j, and what the bias adds to their score.
  bool sees(int b, int h, int i, int j) const;
  double bias_at(int b, int h, int i, int j) const;

 private:
  void choose_sizes();
  void choose_modifiers();
  void choose_cells();
  void hide_unseen();
  Guarded tensor(RowStrides strides, int seq, int heads, int dim) const;
  void fill(const Guarded& data, ElementType type);

  const KernelConfig& config_;
  Random& random_;
  std::normal_distribution<float> normal_;
  AttentionArgs args_ = {};
  CpuWork work_ = {};
  Guarded q_, k_, v_, out_, lse_, bias_, mask_, partial_out_, partial_lse_, scratch_;
  std::vector<float> slopes_;
};

}  // namespace hipflash::bench
