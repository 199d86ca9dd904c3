// Generates token by token over a paged key/value cache, as an inference server does, and checks
// every step against recomputing the whole sequence.
//
//   decode_loop [DEVICE]     cpu (the default), cuda:N or hip:N
//
// The "model" is one attention layer: queries, keys and values of a token are rows of random
// tables, and the next token is the one whose row of a fourth table fits the output best. Three
// sequences with prompts of different lengths go on together. What changes from step to step
// (lengths, pages) is data that the kernels read, so one plan serves all steps, and on a GPU a step
// is captured into a graph once and replayed from then on.
#include <hipflash/attention.h>
#include <hipflash/kv_cache.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "runtime.h"

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

constexpr std::size_t kPool = kPages * kPageSize * kHeadsKv * kDim;  // elements of K, of V
constexpr std::int64_t kMostRows = 64;                               // of a step

// Keys and values in pages, and who has which. Lengths are where append_kv() reads those before a
// step and writes those after it, in turn.
struct PagedCache {
  Array<float> k, v;
  std::vector<std::int32_t> table;  // on the host: who plans pages is the program
  Array<std::int32_t> device_table;
  std::array<Array<std::int32_t>, 2> lengths;
  std::vector<std::int64_t> used;
  std::int32_t free_page = 0;

  PagedCache(Runtime& runtime, std::size_t sequences)
      : k(runtime, std::vector<float>(kPool)),
        v(runtime, std::vector<float>(kPool)),
        table(sequences * kColumns, -1),
        device_table(runtime, table),
        lengths{{{runtime, std::vector<std::int32_t>(sequences)},
                 {runtime, std::vector<std::int32_t>(sequences)}}},
        used(sequences) {}

  static Tensor pool(const Array<float>& data) {
    return Tensor::bshd(data.data(), DType::f32, kPages, kPageSize, kHeadsKv, kDim);
  }
  // Gives a sequence the pages for `count` more positions.
  void grow(std::size_t sequence, std::int64_t count) {
    const std::int64_t needed = used[sequence] + count;
    for (std::int64_t column = (used[sequence] + kPageSize - 1) / kPageSize;
         column * kPageSize < needed; ++column) {
      table[sequence * kColumns + static_cast<std::size_t>(column)] = free_page++;
    }
    used[sequence] = needed;
  }
  hipflash::PagedKv pages() const {
    return {device_table.data(), static_cast<std::int64_t>(used.size()), kColumns, 0};
  }
};

// One step of all sequences: sequence b has new_tokens[b] new tokens, packed one after another.
class Decoder {
 public:
  Decoder(hipflash::Context& ctx, Runtime& runtime, const Model& model, std::size_t sequences)
      : ctx_(ctx),
        runtime_(runtime),
        model_(model),
        cos_(runtime, rotary_.cos),
        sin_(runtime, rotary_.sin),
        cache_(runtime, sequences),
        offsets_(runtime, sequences + 1),
        q_(runtime, kMostRows * kHeads * kDim),
        k_(runtime, kMostRows * kHeadsKv * kDim),
        v_(runtime, kMostRows * kHeadsKv * kDim),
        out_(runtime, kMostRows * kHeads * kDim) {}

  // Appends the tokens to the cache and returns the outputs, (token, heads, dim).
  Floats step(const std::vector<std::vector<int>>& new_tokens) {
    std::vector<int> tokens;
    std::vector<std::int32_t> offsets{0};
    for (std::size_t b = 0; b < new_tokens.size(); ++b) {
      tokens.insert(tokens.end(), new_tokens[b].begin(), new_tokens[b].end());
      offsets.push_back(static_cast<std::int32_t>(tokens.size()));
      cache_.grow(b, static_cast<std::int64_t>(new_tokens[b].size()));
    }
    offsets_.put(offsets);
    cache_.device_table.put(cache_.table);
    q_.put(Model::rows(model_.q, tokens));
    k_.put(Model::rows(model_.k, tokens));
    v_.put(Model::rows(model_.v, tokens));

    const bool one_each = tokens.size() == new_tokens.size();
    if (one_each && runtime_.has_graphs()) {
      void*& graph = graphs_[turn_];
      // The kernels must be there before: a capture is no time to compile, and what it records runs
      // only when the graph does.
      if (!graph) {
        prepare(tokens.size());
        graph = runtime_.capture([&] { launch(tokens.size()); });
      }
      runtime_.run(graph);
      ++replays_;
    } else {
      launch(tokens.size());
    }
    turn_ = 1 - turn_;
    return out_.get(tokens.size() * kHeads * kDim);
  }

  // The output of the last token, from the whole sequence at once and without any cache.
  Floats recompute(const std::vector<int>& tokens) {
    const auto rows = static_cast<std::int64_t>(tokens.size());
    Floats q = Model::rows(model_.q, tokens), k = Model::rows(model_.k, tokens);
    rotary_.rotate(q, kHeads);
    rotary_.rotate(k, kHeadsKv);
    const Array<float> q_all(runtime_, q), k_all(runtime_, k),
        v_all(runtime_, Model::rows(model_.v, tokens)), out(runtime_, q.size());
    hipflash::AttentionOptions attention;
    attention.causal = true;
    hipflash::attention_forward(ctx_, Tensor::bshd(q_all.data(), DType::f32, 1, rows, kHeads, kDim),
                                Tensor::bshd(k_all.data(), DType::f32, 1, rows, kHeadsKv, kDim),
                                Tensor::bshd(v_all.data(), DType::f32, 1, rows, kHeadsKv, kDim),
                                Tensor::bshd(out.data(), DType::f32, 1, rows, kHeads, kDim),
                                attention, runtime_.stream());
    const Floats all = out.get(q.size());
    return Floats(all.end() - kHeads * kDim, all.end());
  }

  int replays() const { return replays_; }

 private:
  Tensor view(const Array<float>& data, std::size_t rows, std::int64_t heads) const {
    return Tensor::bshd(data.data(), DType::f32, 1, static_cast<std::int64_t>(rows), heads, kDim);
  }
  hipflash::AppendOptions append_options(std::size_t rows) const {
    hipflash::AppendOptions append;
    append.cu_seqlens = offsets_.data();
    append.batch = static_cast<std::int64_t>(cache_.used.size());
    append.cache.lengths = cache_.lengths[turn_].data();
    append.paged = cache_.pages();
    append.rotary = {cos_.data(), sin_.data(), DType::f32, kDim, kColumns * kPageSize};
    append.q = append.q_out = view(q_, rows, kHeads);  // in place
    append.new_lengths = cache_.lengths[1 - turn_].data();
    return append;
  }
  hipflash::AttentionOptions attention_options() const {
    hipflash::AttentionOptions attention;
    attention.causal = true;
    attention.varlen.batch = static_cast<std::int64_t>(cache_.used.size());
    attention.varlen.cu_seqlens_q = offsets_.data();
    attention.cache.lengths = cache_.lengths[1 - turn_].data();
    attention.paged = cache_.pages();
    return attention;
  }

  // Puts a step's two launches on the stream.
  void launch(std::size_t rows) {
    hipflash::append_kv(ctx_, view(k_, rows, kHeadsKv), view(v_, rows, kHeadsKv),
                        PagedCache::pool(cache_.k), PagedCache::pool(cache_.v),
                        append_options(rows), runtime_.stream());
    hipflash::attention_forward(ctx_, view(q_, rows, kHeads), PagedCache::pool(cache_.k),
                                PagedCache::pool(cache_.v), view(out_, rows, kHeads),
                                attention_options(), runtime_.stream());
  }
  // Makes the plan of a step, without running it. What append_kv() needs, the prompts' step left.
  void prepare(std::size_t rows) {
    ctx_.plan(hipflash::make_problem(view(q_, rows, kHeads), PagedCache::pool(cache_.k),
                                     PagedCache::pool(cache_.v), view(out_, rows, kHeads),
                                     attention_options()));
  }

  hipflash::Context& ctx_;
  Runtime& runtime_;
  const Model& model_;
  const RotaryTables rotary_;
  const Array<float> cos_, sin_;
  PagedCache cache_;
  Array<std::int32_t> offsets_;
  Array<float> q_, k_, v_, out_;
  std::array<void*, 2> graphs_ = {};  // of steps that read one or the other lengths
  std::size_t turn_ = 0;
  int replays_ = 0;
};

// Prints the sequences and how far they were from recomputing everything; false if that is far.
bool generate(hipflash::DeviceId device) {
  const Model model;
  hipflash::Context ctx(device);
  Runtime runtime(device);
  std::vector<std::vector<int>> sequences{{3, 1, 4, 1, 5}, {9}, {2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2}};
  Decoder decoder(ctx, runtime, model, sequences.size());

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
  std::printf("%s: %d of %d steps were replays of captured graphs\n", ctx.device().name.c_str(),
              decoder.replays(), static_cast<int>(kSteps));
  std::printf("largest difference from recomputing everything: %.2g\n", static_cast<double>(worst));
  const bool faultless = ctx.take_fault().empty();
  if (!faultless) std::printf("a length or a table was wrong\n");
  return right && faultless;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return generate(hipflash::parse_device(count > 1 ? arguments[1] : "cpu")) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "decode_loop: %s\n", error.what());
    return 1;
  }
}
