// One attention problem on random data, run by the library and held against float64.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "hipflash/attention.h"
#include "numerics/target.h"
#include "verify/reference.h"

namespace hipflash::testing {

enum class Layout { bshd, bhsd, packed_qkv, padded_rows, aligned_gaps };

// Which bias or mask a case has, and which of its dimensions are broadcast by stride 0.
enum class Cells { none, full, shared_heads, one_row };

struct AttentionCase {
  DType dtype = DType::f32;
  std::int64_t batch = 1, heads_q = 2, heads_kv = 2, seq_q = 64, seq_k = 64, dim = 64;
  std::int64_t value_dim = 0;  // 0: as dim
  Layout layout = Layout::bshd;
  bool causal = false;
  MaskAlignment alignment = MaskAlignment::bottom_right;
  Window window;
  float softcap = 0.0f;
  std::optional<float> scale;
  float query_factor = 1.0f;  // multiplies the random Q
  bool alibi = false, alibi_per_batch = false;
  Cells bias = Cells::none;
  bool bias_in_dtype = false;
  Cells mask = Cells::none;
  bool lse = true;
  std::uint64_t seed = 1;
};

std::ostream& operator<<(std::ostream& out, const AttentionCase& c);

// A tensor with memory of its own. Everything outside the view (gaps between rows, guards at both
// ends) is NaN; untouched_outside() tells whether it still is.
class OwnedTensor {
 public:
  OwnedTensor(DType dtype, std::int64_t batch, std::int64_t seq, std::int64_t heads,
              std::int64_t dim, Layout layout);

  const Tensor& view() const { return view_; }
  std::int64_t index(std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) const;
  float get(std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d) const;
  void set(std::int64_t b, std::int64_t s, std::int64_t h, std::int64_t d, float value);
  void fill_normal(std::uint64_t seed, float factor = 1.0f);
  void fill(float value);
  std::vector<std::uint8_t> bytes() const;  // of the view, in (b, s, h, d) order
  bool untouched_outside() const;
  // All of the memory, guards included, and where the view starts in it.
  std::vector<std::uint8_t>& memory() { return memory_; }
  std::size_t offset() const { return first_; }
  // Behind the last byte of the view.
  std::size_t end() const;

 private:
  Tensor view_;
  std::vector<std::uint8_t> memory_;
  std::vector<bool> inside_;  // by element
  std::size_t first_ = 0;     // byte offset of the view's first element
};

// Tensors and options of a case, ready to run.
class AttentionData {
 public:
  explicit AttentionData(const AttentionCase& c);
  AttentionData(const AttentionData&) = delete;

  OwnedTensor q, k, v, out;
  std::vector<float> lse, slopes, bias_f32;
  std::vector<std::uint16_t> bias_16;
  std::vector<std::uint8_t> mask;
  AttentionOptions options;

  Problem problem() const;
  TensorPointers pointers() const;
  std::vector<Block> blocks();
  // Poisons the outputs with NaN.
  void poison();
  // Poisons the outputs and runs.
  void run(Context& ctx);
  void run(Target& target);
  // By the acceptance rule; explains what is wrong. So many queries are looked at, or all.
  verify::Verdict verdict(std::int64_t sampled_queries = 0, std::uint64_t sample_seed = 1) const;
};

// Contexts of this process, one per instruction set that the machine has (or the one given).
std::vector<std::string> available_isas();
Context& context_for(const std::string& isa, int threads = 2);

// Runs a case and expects it right, with nothing written outside the output. `family` is the kernel
// family that is to serve it; empty: any.
void expect_right(const AttentionCase& c, const std::string& target_name,
                  const std::string& family = {});

}  // namespace hipflash::testing
