// Generates token by token over a paged key/value cache, as an inference server does, and checks
// every step against recomputing the whole sequence.
//
// The "model" is one attention layer: queries, keys and values of a token are rows of random
// tables, and the next token is the one whose row of a fourth table fits the output best. Three
// sequences with prompts of different lengths go on together. One plan serves all steps: what
// changes from step to step (lengths, pages) is data that the kernels read.
#include <hipflash/attention.h>
#include <hipflash/kv_cache.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

namespace {

using hipflash::DType;
using hipflash::Tensor;

constexpr std::int64_t kVocabulary = 50, kHeads = 4, kHeadsKv = 2, kDim = 32;
constexpr std::int64_t kPageSize = 4, kPages = 64, kColumns = 16;  // at most 64 positions
constexpr std::int64_t kSteps = 24;

using Floats = std::vector<float>;

Floats random_table(std::int64_t width, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats table(static_cast<std::size_t>(kVocabulary * width));
  for (float& x : table) x = normal(random);
  return table;
}

struct Model {
  Floats q = random_table(kHeads * kDim, 1), k = random_table(kHeadsKv * kDim, 2),
         v = random_table(kHeadsKv * kDim, 3), next = random_table(kHeads * kDim, 4);

  // Rows of a table for a list of tokens, one after another.
  static Floats rows(const Floats& table, const std::vector<int>& tokens) {
    const std::size_t width = table.size() / static_cast<std::size_t>(kVocabulary);
    Floats all;
    for (const int token : tokens) {
      const auto row =
          table.begin() + static_cast<std::ptrdiff_t>(token * static_cast<long>(width));
      all.insert(all.end(), row, row + static_cast<std::ptrdiff_t>(width));
    }
    return all;
  }

  int choose(const float* out) const {
    int best = 0;
    float best_score = -INFINITY;
    for (int token = 0; token < kVocabulary; ++token) {
      float score = 0;
      for (std::int64_t d = 0; d < kHeads * kDim; ++d) {
        score += out[d] * next[static_cast<std::size_t>(token * kHeads * kDim + d)];
      }
      if (score > best_score) {
        best = token;
        best_score = score;
      }
    }
    return best;
  }
};

// Rotary tables: (positions, dim / 2).
struct RotaryTables {
  Floats cos, sin;
  RotaryTables() {
    for (std::int64_t p = 0; p < kColumns * kPageSize; ++p) {
      for (std::int64_t i = 0; i < kDim / 2; ++i) {
        const double angle =
            static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(i) / kDim);
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }
  // Turns row r of (positions, heads, dim) by position r.
  void rotate(Floats& rows, std::int64_t heads) const {
    for (std::size_t at = 0; at < rows.size(); at += kDim) {
      const std::size_t position = at / static_cast<std::size_t>(heads * kDim);
      for (std::size_t i = 0; i < kDim / 2; ++i) {
        const float c = cos[position * (kDim / 2) + i], s = sin[position * (kDim / 2) + i];
        float& x = rows[at + i];
        float& y = rows[at + i + kDim / 2];
        const float old = x;
        x = x * c - y * s;
        y = old * s + y * c;
      }
    }
  }
};

// Keys and values in pages, and who has which.
struct PagedCache {
  Floats k = Floats(kPages * kPageSize * kHeadsKv * kDim), v = k;
  std::vector<std::int32_t> table, lengths, new_lengths;
  std::int32_t free_page = 0;

  explicit PagedCache(std::size_t sequences)
      : table(sequences * kColumns, -1), lengths(sequences, 0), new_lengths(sequences, 0) {}

  Tensor pool(Floats& data) {
    return Tensor::bshd(data.data(), DType::f32, kPages, kPageSize, kHeadsKv, kDim);
  }
  // Gives a sequence the pages for `count` more positions.
  void grow(std::size_t sequence, std::int64_t count) {
    const std::int64_t used = lengths[sequence], needed = used + count;
    for (std::int64_t column = (used + kPageSize - 1) / kPageSize; column * kPageSize < needed;
         ++column) {
      table[sequence * kColumns + static_cast<std::size_t>(column)] = free_page++;
    }
  }
  hipflash::PagedKv pages() const {
    return {table.data(), static_cast<std::int64_t>(lengths.size()), kColumns, 0};
  }
};

// One step of all sequences: sequence b has new_tokens[b] new tokens, packed one after another.
class Decoder {
 public:
  Decoder(hipflash::Context& ctx, const Model& model, std::size_t sequences)
      : ctx_(ctx), model_(model), cache_(sequences) {}

  // Appends the tokens to the cache and returns the outputs, (token, heads, dim).
  Floats step(const std::vector<std::vector<int>>& new_tokens) {
    std::vector<int> tokens;
    std::vector<std::int32_t> offsets{0};
    for (std::size_t b = 0; b < new_tokens.size(); ++b) {
      tokens.insert(tokens.end(), new_tokens[b].begin(), new_tokens[b].end());
      offsets.push_back(static_cast<std::int32_t>(tokens.size()));
      cache_.grow(b, static_cast<std::int64_t>(new_tokens[b].size()));
    }
    const auto rows = static_cast<std::int64_t>(tokens.size());
    const auto batch = static_cast<std::int64_t>(new_tokens.size());
    Floats q = Model::rows(model_.q, tokens), k = Model::rows(model_.k, tokens),
           v = Model::rows(model_.v, tokens), out(q.size());
    const Tensor q_view = Tensor::bshd(q.data(), DType::f32, 1, rows, kHeads, kDim);

    hipflash::AppendOptions append;
    append.cu_seqlens = offsets.data();
    append.batch = batch;
    append.cache.lengths = cache_.lengths.data();
    append.paged = cache_.pages();
    append.rotary = {rotary_.cos.data(), rotary_.sin.data(), DType::f32, kDim,
                     kColumns * kPageSize};
    append.q = append.q_out = q_view;  // in place
    append.new_lengths = cache_.new_lengths.data();
    hipflash::append_kv(ctx_, Tensor::bshd(k.data(), DType::f32, 1, rows, kHeadsKv, kDim),
                        Tensor::bshd(v.data(), DType::f32, 1, rows, kHeadsKv, kDim),
                        cache_.pool(cache_.k), cache_.pool(cache_.v), append);
    std::swap(cache_.lengths, cache_.new_lengths);

    hipflash::AttentionOptions attention;
    attention.causal = true;
    attention.varlen.batch = batch;
    attention.varlen.cu_seqlens_q = offsets.data();
    attention.cache.lengths = cache_.lengths.data();
    attention.paged = cache_.pages();
    hipflash::attention_forward(ctx_, q_view, cache_.pool(cache_.k), cache_.pool(cache_.v),
                                Tensor::bshd(out.data(), DType::f32, 1, rows, kHeads, kDim),
                                attention);
    return out;
  }

  // The output of the last token, from the whole sequence at once and without any cache.
  Floats recompute(const std::vector<int>& tokens) {
    const auto rows = static_cast<std::int64_t>(tokens.size());
    Floats q = Model::rows(model_.q, tokens), k = Model::rows(model_.k, tokens),
           v = Model::rows(model_.v, tokens), out(q.size());
    rotary_.rotate(q, kHeads);
    rotary_.rotate(k, kHeadsKv);
    hipflash::AttentionOptions attention;
    attention.causal = true;
    hipflash::attention_forward(ctx_, Tensor::bshd(q.data(), DType::f32, 1, rows, kHeads, kDim),
                                Tensor::bshd(k.data(), DType::f32, 1, rows, kHeadsKv, kDim),
                                Tensor::bshd(v.data(), DType::f32, 1, rows, kHeadsKv, kDim),
                                Tensor::bshd(out.data(), DType::f32, 1, rows, kHeads, kDim),
                                attention);
    return Floats(out.end() - kHeads * kDim, out.end());
  }

 private:
  hipflash::Context& ctx_;
  const Model& model_;
  const RotaryTables rotary_;
  PagedCache cache_;
};

}  // namespace

int main() {
  const Model model;
  hipflash::Context ctx(hipflash::parse_device("cpu"));
  std::vector<std::vector<int>> sequences{{3, 1, 4, 1, 5}, {9}, {2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2}};
  Decoder decoder(ctx, model, sequences.size());

  std::vector<std::vector<int>> new_tokens = sequences;  // the prompts, then one token each
  float worst = 0;
  bool right = true;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Floats out = decoder.step(new_tokens);
    std::size_t row = 0;
    for (std::size_t b = 0; b < sequences.size(); ++b) {
      row += new_tokens[b].size();
      const float* const last = out.data() + (row - 1) * kHeads * kDim;
      const Floats expected = decoder.recompute(sequences[b]);
      for (std::size_t d = 0; d < expected.size(); ++d) {
        const float difference = std::abs(last[d] - expected[d]);
        worst = std::max(worst, difference);
        right = right && difference <= 1e-5f;  // NaN is not
      }
      const int token = model.choose(last);
      new_tokens[b] = {token};
      sequences[b].push_back(token);
    }
  }
  for (const std::vector<int>& tokens : sequences) {
    for (const int token : tokens) std::printf("%d ", token);
    std::printf("\n");
  }
  std::printf("largest difference from recomputing everything: %.2g\n", static_cast<double>(worst));
  return right ? 0 : 1;
}
