// Random tensors for benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>

#include "hipflash/tensor.h"
#include "verify/convert.h"

namespace hipflash::bench {

// A dense (batch, heads, seq, dim) tensor of normal numbers, its rows aligned to 64 bytes where the
// dimension allows.
class RandomTensor {
 public:
  RandomTensor(DType dtype, std::int64_t batch, std::int64_t heads, std::int64_t seq,
               std::int64_t dim, unsigned seed) {
    const auto count = static_cast<std::size_t>(batch * heads * seq * dim);
    memory_.reset(std::aligned_alloc(64, (count * size_of(dtype) + 63) / 64 * 64));
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    // A block of 4096 numbers repeats: drawing is slow, and no kernel's speed depends on it.
    float block[4096];
    for (float& x : block) x = normal(random);
    for (std::size_t i = 0; i < count; ++i) {
      verify::store(dtype, memory_.get(), static_cast<std::int64_t>(i),
                    static_cast<double>(block[(i * 7 + i / 4096) % 4096]));
    }
    view_ = Tensor::bhsd(memory_.get(), dtype, batch, heads, seq, dim);
  }

  const Tensor& view() const { return view_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  Tensor view_;
};

}  // namespace hipflash::bench
