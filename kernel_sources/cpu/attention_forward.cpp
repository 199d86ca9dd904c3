// Attention on a CPU: softmax(scale * Q K^T + mask) V, exact, in one pass over the keys.
//
// An item takes chunks of rows (queries of the heads that share a key/value head). For each block
// of keys, K and V are packed once; then every block of queries of the chunk forms its scores,
// turns them into probabilities relative to the running maximum, and adds their product with V to
// its output, which stays in the second-level cache. Blocks that no query sees are skipped; only
// blocks at the edge of the mask are masked.
#include "cpu/chunk.h"
#include "cpu/few_rows.h"
#include "cpu/microkernels.h"
#include "cpu/pack.h"
#include "cpu/softmax.h"

namespace hipflash {

// Keys are handled in whole steps of the softmax. A register block that is wider has a narrow form
// for the edges of the mask.
constexpr int kColumnStep = 2 * kLanes;
constexpr int kEdgeVectors = kMicroColumns > kColumnStep ? 2 : Spec::micro_vectors;
static_assert(kMicroColumns <= 2 * kColumnStep, "a register block is at most two steps wide");

struct Buffers {
  Unit* queries;
  float* output;
  Unit* keys;
  Unit* values;
  float* scores;
  RowStates state;
  int output_stride;
};

HF_DEVICE Buffers buffers_in(void* scratch, const AttentionArgs& args, int rows_per_item) {
  const CpuScratch layout = cpu_scratch(kTile, head_dim(args), value_head_dim(args), rows_per_item);
  char* base = static_cast<char*>(scratch);
  const auto at = [&](long long offset) { return reinterpret_cast<float*>(base + offset); };
  return {reinterpret_cast<Unit*>(at(layout.queries)),
          at(layout.output),
          reinterpret_cast<Unit*>(at(layout.keys)),
          reinterpret_cast<Unit*>(at(layout.values)),
          at(layout.scores),
          {at(layout.row_max), at(layout.row_sum), at(layout.rescale)},
          layout.value_columns};
}

// The columns of a key block that a register block of rows works on.
struct Span {
  int from, to;  // whole column steps around what some row sees; empty when from >= to
  int end;       // beyond the last column that some row sees
  bool edge;     // some row does not see all of from .. to
};

HF_DEVICE Span span_of(const AttentionArgs& args, const Chunk& chunk, int row, int first_key,
                       int keys) {
  const int first_query = query_of(chunk, row);
  const int last_query = query_of(chunk, min_int(row + Spec::micro_rows, chunk.rows) - 1);
  const KeyRange some = keys_seen_by_any(args, first_query, last_query);
  const int first = max_int(some.first - first_key, 0);
  const int end = min_int(some.end - first_key, keys);
  if (first >= end) return {0, 0, 0, false};
  const int from = first / kColumnStep * kColumnStep, to = round_up(end, kColumnStep);
  const KeyRange every = keys_seen_by_all(args, first_query, last_query);
  const bool edge = every.first > first_key + from || every.end < first_key + to || keys < to;
  return {from, to, end, edge};
}

// Raw products of a register block of rows become probabilities. Not inlined: three copies would
// only cost compile time.
static __attribute__((noinline)) void softmax_block(const AttentionArgs& args, const Chunk& chunk,
                                                    RowStates state, int first_row, int rows,
                                                    const Span& span, int first_key, int keys,
                                                    float factor, float* scores) {
  if (kScoreModified || Spec::mask || span.edge) {
    for (int row = 0; row < rows; ++row) {
      float* row_scores = scores + row * Spec::tile_keys;
      const int query = query_of(chunk, first_row + row), head = head_of(chunk, first_row + row);
      if constexpr (kScoreModified) {
        modify_row(args, chunk, head, query, first_key, span.from, span.to, keys, row_scores);
      }
      if constexpr (Spec::mask) {
        if (args.mask) {
          apply_bool_mask(args, chunk, head, query, first_key, span.from, min_int(span.to, keys),
                          row_scores);
        }
      }
      if (span.edge) {
        const KeyRange seen = visible_keys(args, query);
        hide_outside(row_scores, max_int(seen.first - first_key, 0),
                     min_int(seen.end - first_key, keys), span.from, span.to);
      }
    }
  }
  softmax_rows(scores, rows, span.from, span.to, factor,
               {state.max + first_row, state.sum + first_row, state.rescale + first_row});
}

// The product with V of one block of queries, for the value columns from `column` on: whole
// register blocks of Vectors vectors, then a narrower one for what is left.
template <int Vectors>
HF_DEVICE void attend_values(const AttentionArgs& args, const Buffers& buffers, int first_row,
                             int blocks, const Span* spans, int column = 0) {
  constexpr int kPanel = kTile.tile_keys / kUnitElements * kMicroColumns;
  constexpr int kColumns = Vectors * kLanes;
  const int dim = value_head_dim(args);
  for (; dim - column > kColumns - kLanes; column += kColumns) {
    const Unit* panel = buffers.values + column / kMicroColumns * kPanel + column % kMicroColumns;
    for (int block = 0; block < blocks; ++block) {
      const Span& span = spans[block];
      if (span.from >= span.to) continue;
      const int row = block * Spec::micro_rows;
      const int first_unit = span.from / kUnitElements;
      multiply_probabilities_values<Vectors>(
          reinterpret_cast<const Unit*>(buffers.scores + row * Spec::tile_keys) + first_unit,
          panel + first_unit * kMicroColumns, units_of(span.end) - first_unit,
          buffers.state.rescale + first_row + row,
          buffers.output + static_cast<long long>(first_row + row) * buffers.output_stride + column,
          buffers.output_stride);
    }
  }
  if constexpr (Vectors > 1) {
    if (column < dim) attend_values<Vectors - 1>(args, buffers, first_row, blocks, spans, column);
  }
}

// One block of queries against one packed block of keys.
HF_DEVICE void attend_block(const AttentionArgs& args, const Chunk& chunk, const Buffers& buffers,
                            int first_row, int first_key, int keys, float factor) {
  constexpr int kBlocks = Spec::tile_queries / Spec::micro_rows;
  const int rows = min_int(Spec::tile_queries, chunk.rows - first_row);
  const int blocks = (rows + Spec::micro_rows - 1) / Spec::micro_rows;
  Span spans[kBlocks];
  int from = Spec::tile_keys, to = 0;
  for (int block = 0; block < blocks; ++block) {
    const Span& span = spans[block] =
        span_of(args, chunk, first_row + block * Spec::micro_rows, first_key, keys);
    if (span.from < span.to) {
      from = min_int(from, span.from);
      to = max_int(to, span.to);
    }
  }

  const int units = units_of(head_dim(args));
  const Unit* queries = buffers.queries + static_cast<long long>(first_row) * units;
  for (int column = from / kMicroColumns * kMicroColumns; column < to; column += kMicroColumns) {
    const Unit* panel = buffers.keys + static_cast<long long>(column) * units;
    for (int block = 0; block < blocks; ++block) {
      const int first = max_int(spans[block].from, column);
      const int end = min_int(spans[block].to, column + kMicroColumns);
      if (first >= end) continue;
      const int row = block * Spec::micro_rows;
      const Unit* rows = queries + static_cast<long long>(row) * units;
      float* scores = buffers.scores + row * Spec::tile_keys + first;
      if (end - first >= kMicroColumns) {
        multiply_queries_keys<Spec::micro_vectors>(rows, panel, units, scores);
      } else {
        multiply_queries_keys<kEdgeVectors>(rows, panel + first - column, units, scores);
      }
    }
  }

  for (int block = 0; block < blocks; ++block) {
    if (spans[block].from >= spans[block].to) continue;
    const int row = block * Spec::micro_rows;
    softmax_block(args, chunk, buffers.state, first_row + row,
                  min_int(Spec::micro_rows, rows - row), spans[block], first_key, keys, factor,
                  buffers.scores + row * Spec::tile_keys);
  }

  attend_values<Spec::micro_vectors>(args, buffers, first_row, blocks, spans);
}

// All rows of a chunk of at most Rows <= kFewRows rows against one block of keys in place.
template <int Rows>
HF_DEVICE void attend_few_rows(const AttentionArgs& args, const Chunk& chunk,
                               const Buffers& buffers, int first_key, int keys, float factor) {
  few_rows_scores<Rows>(args, chunk, reinterpret_cast<const float*>(buffers.queries), first_key,
                        keys, buffers.scores);
  const int to = round_up(keys, kColumnStep);
  const KeyRange every =
      keys_seen_by_all(args, query_of(chunk, 0), query_of(chunk, chunk.rows - 1));
  const bool edge = every.first > first_key || every.end < first_key + to || keys < to;
  softmax_block(args, chunk, buffers.state, 0, chunk.rows, {0, to, keys, edge}, first_key, keys,
                factor, buffers.scores);
  for (int row = chunk.rows; row < Rows; ++row) {  // rows that do not exist see nothing
    for (int i = 0; i < to; i += kLanes) {
      store(buffers.scores + row * Spec::tile_keys + i, broadcast(0.0f));
    }
  }
  few_rows_output<Rows>(args, chunk, buffers.scores, first_key, keys, buffers.state.rescale,
                        buffers.output, buffers.output_stride);
}

// A finished row: output / sum and the logarithm of the sum of exponentials.
HF_DEVICE void write_row(const AttentionArgs& args, const Chunk& chunk, int row,
                         const float* output, float max, float sum) {
  const int query = query_of(chunk, row), head = head_of(chunk, row), dim = value_head_dim(args);
  const Vec inverse = broadcast(sum == 0.0f ? 0.0f : 1.0f / sum);
  const float lse = sum == 0.0f ? -kInfinity : max * kLn2 + natural_log(sum);
  const auto write = [&](auto* destination) {
    int column = 0;
    for (; column + kLanes <= dim; column += kLanes) {
      store(destination + column, load(output + column) * inverse);
    }
    if (column < dim) {
      store_first(destination + column, load(output + column) * inverse, dim - column);
    }
  };
  if (Spec::split_keys && args.splits > 1) {
    const long long index =
        ((static_cast<long long>(chunk.split) * args.batch + chunk.batch) * args.heads_q + head) *
            args.seq_q +
        query;
    write(args.partial_out + index * dim);
    args.partial_lse[index] = lse;
    return;
  }
  write(const_cast<Element*>(row_of(args.out, args.out_stride, chunk.batch, query, head)));
  if constexpr (Spec::lse) {
    if (args.lse) {
      args.lse[chunk.batch * args.lse_stride.batch + query * args.lse_stride.seq +
               head * args.lse_stride.head] = lse;
    }
  }
}

// What this chunk's rows see of this split of the keys.
HF_DEVICE KeyRange keys_of_split(const AttentionArgs& args, const Chunk& chunk) {
  const KeyRange seen = keys_seen_by_any(args, query_of(chunk, 0), query_of(chunk, chunk.rows - 1));
  if (!Spec::split_keys || args.splits <= 1 || seen.first >= seen.end) return seen;
  const long long blocks =
      (static_cast<long long>(seen.end) - seen.first + Spec::tile_keys - 1) / Spec::tile_keys;
  const auto boundary = [&](int split) {
    const long long key = seen.first + blocks * split / args.splits * Spec::tile_keys;
    return static_cast<int>(key < seen.end ? key : seen.end);
  };
  return {boundary(chunk.split), boundary(chunk.split + 1)};
}

HF_DEVICE void attend_chunk(const AttentionArgs& args, Chunk chunk, const Buffers& buffers) {
  chunk.keys = keys_of_split(args, chunk);
  const int padded_rows =
      chunk.rows == 1 ? 1 : round_up(max_int(chunk.rows, kFewRows), Spec::micro_rows);
  for (int row = 0; row < padded_rows; ++row) {
    buffers.state.max[row] = -kInfinity;
    buffers.state.sum[row] = 0.0f;
    buffers.state.rescale[row] = 0.0f;
    float* output = buffers.output + static_cast<long long>(row) * buffers.output_stride;
    for (int column = 0; column < buffers.output_stride; column += kLanes) {
      store(output + column, broadcast(0.0f));
    }
  }

  // Raw scores need a positive factor for their maximum to be the exponents' maximum: a negative
  // scale changes the sign of the queries, and a zero one becomes too small to matter.
  const float scale = exponent_scale(args);
  const float sign = scale < 0.0f ? -1.0f : 1.0f;
  float factor = scale * sign;
  if (factor < 1e-30f) factor = 1e-30f;

  if (chunk.rows <= kFewRows) {
    convert_queries(args, chunk, sign, reinterpret_cast<float*>(buffers.queries));
    for (int key = chunk.keys.first; key < chunk.keys.end; key += Spec::tile_keys) {
      const int keys = min_int(Spec::tile_keys, chunk.keys.end - key);
      if (chunk.rows == 1) {
        attend_few_rows<1>(args, chunk, buffers, key, keys, factor);
      } else {
        attend_few_rows<kFewRows>(args, chunk, buffers, key, keys, factor);
      }
    }
  } else if (chunk.keys.first < chunk.keys.end) {
    pack_queries(args, chunk, sign, buffers.queries);
    for (int key = chunk.keys.first; key < chunk.keys.end; key += Spec::tile_keys) {
      const int keys = min_int(Spec::tile_keys, chunk.keys.end - key);
      pack_keys(args, chunk, key, keys, round_up(keys, kColumnStep), buffers.keys);
      pack_values(args, chunk, key, keys, buffers.values);
      const int next_keys = min_int(Spec::tile_keys, chunk.keys.end - key - keys);
      for (int row = 0; row < chunk.rows; row += Spec::tile_queries) {
        prefetch_keys(args, chunk, key + keys, next_keys, row, chunk.rows);
        attend_block(args, chunk, buffers, row, key, keys, factor);
      }
    }
  }

  for (int row = 0; row < chunk.rows; ++row) {
    write_row(args, chunk, row,
              buffers.output + static_cast<long long>(row) * buffers.output_stride,
              buffers.state.max[row], buffers.state.sum[row]);
  }
}

}  // namespace hipflash

// Item numbers count pairs fastest, then splits, then chunks from the last: with a causal mask the
// last chunk sees the most keys.
extern "C" __attribute__((visibility("default"))) void attention_forward(
    const hipflash::AttentionArgs* args, const hipflash::CpuWork* work, long long item,
    void* scratch) {
  using namespace hipflash;
  const long long pairs = static_cast<long long>(args->batch) * args->heads_kv;
  const long long groups = (pairs + work->pairs_per_item - 1) / work->pairs_per_item;
  const int splits = Spec::split_keys && args->splits > 1 ? args->splits : 1;
  const long long first_pair = item % groups * work->pairs_per_item;
  const long long end_pair =
      first_pair + work->pairs_per_item < pairs ? first_pair + work->pairs_per_item : pairs;
  const int split = static_cast<int>(item / groups % splits);
  const long long index = work->chunks - 1 - item / groups / splits;

  Chunk chunk = {};
  chunk.group = args->heads_q / args->heads_kv;
  chunk.first_row = index * work->rows_per_item;
  const long long rows = static_cast<long long>(args->seq_q) * chunk.group - chunk.first_row;
  chunk.rows = static_cast<int>(rows < work->rows_per_item ? rows : work->rows_per_item);
  chunk.split = split;
  const Buffers buffers = buffers_in(scratch, *args, work->rows_per_item);
  for (long long pair = first_pair; pair < end_pair; ++pair) {
    chunk.batch = static_cast<int>(pair / args->heads_kv);
    chunk.head_kv = static_cast<int>(pair % args->heads_kv);
    attend_chunk(*args, chunk, buffers);
  }
}

// Joins the partial results of the splits, kMergeRows rows of (batch, head, query) per item.
extern "C" __attribute__((visibility("default"))) void attention_merge(
    const hipflash::AttentionArgs* args, const hipflash::CpuWork*, long long item, void*) {
  using namespace hipflash;
  if constexpr (Spec::split_keys) {
    const long long all_rows = static_cast<long long>(args->batch) * args->heads_q * args->seq_q;
    const long long end = (item + 1) * kMergeRows < all_rows ? (item + 1) * kMergeRows : all_rows;
    const int dim = value_head_dim(*args);
    for (long long row = item * kMergeRows; row < end; ++row) {
      const long long query = row % args->seq_q, head = row / args->seq_q % args->heads_q;
      const long long batch = row / args->seq_q / args->heads_q;
      float max = -kInfinity;
      for (int split = 0; split < args->splits; ++split) {
        const float lse = args->partial_lse[split * all_rows + row];
        max = lse > max || lse != lse ? lse : max;
      }
      const float base = max == -kInfinity ? 0.0f : max;
      const auto weight = [&](int split) {
        return exp2(broadcast((args->partial_lse[split * all_rows + row] - base) * kLog2e))[0];
      };
      float sum = 0.0f;
      for (int split = 0; split < args->splits; ++split) sum += weight(split);
      const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;

      Element* out = const_cast<Element*>(row_of(args->out, args->out_stride, batch, query, head));
      for (int column = 0; column < dim; column += kLanes) {
        const int columns = min_int(kLanes, dim - column);
        Vec total = broadcast(0.0f);
        for (int split = 0; split < args->splits; ++split) {
          const float* partial = args->partial_out + (split * all_rows + row) * dim + column;
          const Vec part = columns == kLanes ? load(partial) : load_first(partial, columns);
          total = fma(part, broadcast(weight(split) * inverse), total);
        }
        if (columns == kLanes) {
          store(out + column, total);
        } else {
          store_first(out + column, total, columns);
        }
      }
      if constexpr (Spec::lse) {
        if (args->lse) {
          args->lse[batch * args->lse_stride.batch + query * args->lse_stride.seq +
                    head * args->lse_stride.head] =
              sum == 0.0f ? -kInfinity : base + natural_log(sum);
        }
      }
    }
  }
}
