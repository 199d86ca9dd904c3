// Attention problems on random data for the tests of the CDNA kernel text, with a float64
// reference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/attention_args.h"

namespace cdna_test {

enum class Layout { bhsd, bshd, gaps, odd };  // gaps: aligned rows with NaN between; odd: unaligned

struct Case {
  std::string name;
  int batch = 1, heads_q = 2, heads_kv = 1, seq_q = 70, seq_k = 133;
  Layout layout = Layout::bhsd;
  bool causal = false, top_left = false;
  int left = -1, right = -1;  // window; -1: unbounded
  float scale_factor = 1.0f;  // of 1/sqrt(head_dim)
  float size = 1.0f;          // of Q
  float softcap = 0.0f;
  bool alibi = false, bias = false, bias_16bit = false, mask = false;
  bool unseen_nan = false;  // NaN in K and V where no query looks
  bool key_nan = false;     // NaN in a seen K
  int splits = 1;
};

// Small shapes with every tail, mask and feature. `name` is unique.
std::vector<Case> cases();

// What a kernel must be built for to serve a case; a kernel that can do more will do.
struct Needs {
  bool window_left, window_right, softcap, alibi, bias, mask, split_keys, aligned;
};
Needs needs(const Case& c);

// Host memory of one problem, the arguments that describe it, and what must come out.
class Problem {
 public:
  Problem(const Case& c, hipflash::ElementType element, int head_dim, int value_dim);
  Problem(const Problem&) = delete;

  const hipflash::AttentionArgs& args() const { return args_; }
  // Every buffer of the problem: where it is, how long, and the argument that points to it.
  struct Memory {
    void* data;
    std::size_t bytes;
    const void** argument;  // inside of `args`
  };
  std::vector<Memory> memory(hipflash::AttentionArgs& args);

  // Empty if output and LSE are right, else the worst fault in words. The rule: an error up to
  // twice that of plain arithmetic in the element type plus twice the rounding of the result itself
  // (three times with a softcap); NaN and infinities where the reference has them; nothing written
  // between rows.
  std::string fault();
  double largest_error() const { return largest_error_; }
  double largest_lse_error() const { return largest_lse_error_; }

 private:
  struct Result {
    std::vector<double> out, lse;
  };
  double get(const std::vector<char>& data, std::int64_t at) const;
  void set(std::vector<char>& data, std::int64_t at, double value) const;
  double rounded(double value) const;
  hipflash::RowStrides make_tensor(std::vector<char>& data, int heads, int seq, int dim,
                                   unsigned seed, double size);
  double bias_at(std::int64_t at) const;
  Result reference(bool low) const;

  Case case_;
  hipflash::ElementType element_;
  hipflash::AttentionArgs args_ = {};
  std::int64_t first_ = 0;  // element that the tensors start at: an odd layout has an odd base
  std::vector<char> q_, k_, v_, out_, bias_;
  std::vector<unsigned char> mask_;
  std::vector<float> lse_, slopes_, partial_out_, partial_lse_;
  double largest_error_ = 0, largest_lse_error_ = 0;
};

}  // namespace cdna_test
