// One call over sequences of different lengths, on random data, run and held against float64.
#pragma once

#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "numerics/attention_case.h"
#include "numerics/target.h"

namespace hipflash::testing {

// Where keys and values are.
enum class KeyForm {
  dense,   // (batch, keys): all sequences have as many
  packed,  // one after another, by cu_seqlens_k
  cache,   // slots of a cache, by lengths
  paged,   // pages, by a block table and lengths
};

struct RaggedCase {
  DType dtype = DType::f16;
  std::int64_t heads_q = 2, heads_kv = 1, dim = 64;
  std::int64_t value_dim = 0;            // 0: as dim
  std::vector<std::int64_t> queries{1};  // of each sequence
  std::vector<std::int64_t> keys{1};     // of each sequence
  bool packed_q = true;                  // else dense: all sequences have as many queries
  KeyForm form = KeyForm::packed;
  std::int64_t page_size = 16;
  std::int64_t capacity = 0;     // positions of a slot; 0: as many as are needed
  std::int64_t spare_slots = 0;  // slots (rows of the table) beyond the batch
  bool batch_index = false, left_padding = false;
  bool offsets_are_64bit = false;
  bool hints = true;             // varlen.max_seq_q and max_seq_k are given
  std::int64_t gap = 0;          // packed rows before the first and after the last sequence
  Layout layout = Layout::bshd;  // of all tensors but pages
  bool causal = false;
  MaskAlignment alignment = MaskAlignment::bottom_right;
  Window window;
  float softcap = 0.0f;
  bool alibi = false, bias = false, mask = false, sinks = false, lse = true;
  bool batch_invariant = false;
  float unused = std::numeric_limits<float>::quiet_NaN();  // fills K and V where no key is
  std::uint64_t seed = 1;

  std::int64_t batch() const { return static_cast<std::int64_t>(queries.size()); }
};

std::ostream& operator<<(std::ostream& out, const RaggedCase& c);

// Tensors, arrays and options of a case. The numbers of a sequence depend on the seed and its own
// number alone, so that the same sequence in another form of call has the same numbers.
class RaggedData {
 public:
  explicit RaggedData(const RaggedCase& c);
  RaggedData(const RaggedData&) = delete;

  OwnedTensor q, k, v, out;
  std::vector<float> lse, slopes, bias, sinks;
  std::vector<std::uint8_t> mask;
  std::vector<std::int32_t> cu_q, cu_k, lengths, slots, padding, table;
  std::vector<std::int64_t> cu_q_64, cu_k_64;
  AttentionOptions options;

  Problem problem() const;
  TensorPointers pointers() const;
  std::vector<Block> blocks();

  // Fills the outputs: NaN in rows of sequences, a number elsewhere.
  void poison();
  // Poisons the outputs and runs.
  void run(Target& target);
  // By the acceptance rule.
  verify::Verdict verdict(std::int64_t most_queries = 0) const;
  // The output and LSE of a sequence, as bits, (query, head, dim) and (query, head).
  std::vector<float> out_of(std::int64_t sequence) const;
  std::vector<float> lse_of(std::int64_t sequence) const;
  // Rows of packed queries that belong to no sequence, and everything between rows, are as before.
  bool untouched() const;

 private:
  // Row (batch, position) of a query in q, out and lse; of a key in k and v.
  std::pair<std::int64_t, std::int64_t> query_row(std::int64_t sequence, std::int64_t i) const;
  std::pair<std::int64_t, std::int64_t> key_row(std::int64_t sequence, std::int64_t j) const;
  std::int64_t lse_index(std::int64_t sequence, std::int64_t i, std::int64_t h) const;
  void fill_arrays();
  void fill_cells();

  RaggedCase case_;
};

// Runs a case and expects it right, with nothing written that is not a sequence's.
void expect_right(const RaggedCase& c, const std::string& target_name);

}  // namespace hipflash::testing
