// Attention on a CPU: softmax(scale * Q K^T + mask) V, exact, in one pass over the keys.
//
// An item takes chunks of rows (queries of the heads that share a key/value head). For each block
// of keys, K and V are packed once; then every block of queries of the chunk forms its scores,
// turns them into probabilities and adds their product with V to its output, which stays in the
// second-level cache. Blocks that no query sees are skipped; only blocks at the edge of the mask
// are masked.
//
// Probabilities are relative to a base of their row: a maximum of the scores so far, which stays
// until a score is far above it. So usually nothing has to be rescaled, and scores become
// probabilities without leaving the registers.
#include "cpu/chunk.h"
#include "cpu/few_keys.h"
#include "cpu/few_rows.h"
#include "cpu/finish.h"
#include "cpu/microkernels.h"
#include "cpu/pack.h"
#include "cpu/row_groups.h"
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
  float* sums;  // of probabilities, when a chunk's rows are done with their keys
  int output_stride;
  float* joined;  // outputs of the parts so far, where a chunk handles all parts of its keys
  RowTotal* totals;
};

HF_DEVICE Buffers buffers_in(void* scratch, const AttentionArgs& args, int rows_per_item) {
  const CpuScratch layout = cpu_scratch(kTile, head_dim(args), value_head_dim(args), rows_per_item,
                                        Spec::split_keys && args.keys_per_split > 0);
  char* base = static_cast<char*>(scratch);
  const auto at = [&](long long offset) { return reinterpret_cast<float*>(base + offset); };
  return {reinterpret_cast<Unit*>(at(layout.queries)),
          at(layout.output),
          reinterpret_cast<Unit*>(at(layout.keys)),
          reinterpret_cast<Unit*>(at(layout.values)),
          at(layout.scores),
          {at(layout.row_max), at(layout.minus_max), at(layout.rescale), at(layout.lane_sums),
           at(layout.lane_sums_before)},
          at(layout.row_sum),
          layout.value_columns,
          at(layout.joined),
          reinterpret_cast<RowTotal*>(at(layout.totals))};
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
  softmax_rows(scores, rows, span.from, span.to, factor, state);
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
          buffers.output + static_cast<long long>(first_row + row) * buffers.output_stride + column,
          buffers.output_stride);
    }
  }
  if constexpr (Vectors > 1) {
    if (column < dim) attend_values<Vectors - 1>(args, buffers, first_row, blocks, spans, column);
  }
}

constexpr float kZeros[Spec::micro_rows] = {};

// Rows of sums, kLanes each, of a register block.
HF_DEVICE void copy_rows(const float* from, float* to) {
  HF_UNROLL for (int row = 0; row < Spec::micro_rows; ++row) {
    store(to + row * kLanes, load(from + row * kLanes));
  }
}

// How scores of a register block of rows become probabilities: in the usual way, or with care for
// rows that see their first keys, or not all of them, or larger scores than any before.
enum class Way : char { usual, with_care, again_with_care };

HF_DEVICE Way way_of(const Buffers& buffers, int first_row, const Span& span) {
  if (kScoreModified || Spec::mask || span.edge) return Way::with_care;
  if (span.from > 0 || span.to < Spec::tile_keys) return Way::with_care;
  for (int row = 0; row < Spec::micro_rows; ++row) {
    if (buffers.state.max[first_row + row] == -kInfinity) return Way::with_care;
  }
  return Way::usual;
}

// Products of a register block of rows with the keys that it sees of one panel.
HF_DEVICE void multiply_panel(const AttentionArgs& args, const Buffers& buffers, int first_row,
                              int row, const Span& span, int column, const float* start) {
  const int units = units_of(head_dim(args));
  const int first = max_int(span.from, column), end = min_int(span.to, column + kMicroColumns);
  if (first >= end) return;
  const Unit* queries = buffers.queries + static_cast<long long>(first_row + row) * units;
  const Unit* panel = buffers.keys + static_cast<long long>(column) * units + first - column;
  float* scores = buffers.scores + row * Spec::tile_keys + first;
  if (end - first >= kMicroColumns) {
    multiply_queries_keys<Spec::micro_vectors>(queries, panel, units, start, scores);
  } else {
    multiply_queries_keys<kEdgeVectors>(queries, panel, units, start, scores);
  }
}

// The rows' outputs follow their maxima.
HF_DEVICE void rescale_rows(const AttentionArgs& args, const Buffers& buffers, int first_row,
                            int row) {
  for (int i = row; i < row + Spec::micro_rows; ++i) {
    const float rescale = buffers.state.rescale[first_row + i];
    if (rescale == 1.0f) continue;
    float* output = buffers.output + static_cast<long long>(first_row + i) * buffers.output_stride;
    for (int column = 0; column < value_head_dim(args); column += kLanes) {
      store(output + column, load(output + column) * rescale);
    }
  }
}

// Of a register block of rows; sums before the block of keys are kept for a query block.
HF_DEVICE RowStates state_of(const RowStates& state, int first_row, int row) {
  const int row_of_chunk = first_row + row;
  return {state.max + row_of_chunk, state.minus_max + row_of_chunk, state.rescale + row_of_chunk,
          state.lane_sums + row_of_chunk * kLanes, state.lane_sums_before + row * kLanes};
}

// One block of queries against one packed block of keys.
HF_DEVICE void attend_block(const AttentionArgs& args, const Chunk& chunk, const Buffers& buffers,
                            int first_row, int first_key, int keys, float factor) {
  constexpr int kBlocks = Spec::tile_queries / Spec::micro_rows;
  const int rows = min_int(Spec::tile_queries, chunk.rows - first_row);
  const int blocks = (rows + Spec::micro_rows - 1) / Spec::micro_rows;
  Span spans[kBlocks];
  Way ways[kBlocks];
  for (int block = 0; block < blocks; ++block) {
    const int row = block * Spec::micro_rows;
    spans[block] = span_of(args, chunk, first_row + row, first_key, keys);
    ways[block] = way_of(buffers, first_row + row, spans[block]);
    copy_rows(buffers.state.lane_sums + (first_row + row) * kLanes,
              buffers.state.lane_sums_before + row * kLanes);
  }

  // A panel of keys goes through all rows while it is in the first-level cache.
  for (int column = 0; column < Spec::tile_keys; column += kMicroColumns) {
    for (int block = 0; block < blocks; ++block) {
      const int row = block * Spec::micro_rows;
      const float* minus_max = buffers.state.minus_max + first_row + row;
      const bool usual = ways[block] == Way::usual;
      if (ways[block] == Way::again_with_care) continue;
      multiply_panel(args, buffers, first_row, row, spans[block], column,
                     usual && kQueriesCarryFactor ? minus_max : kZeros);
      if (!usual) continue;
      float* scores = buffers.scores + row * Spec::tile_keys;
      const bool fits = exponentiate_block<Spec::micro_vectors>(
          scores + column, factor, minus_max,
          reinterpret_cast<Unit*>(scores) + column / kUnitElements,
          buffers.state.lane_sums + (first_row + row) * kLanes);
      if (!fits) ways[block] = Way::again_with_care;
    }
  }

  for (int block = 0; block < blocks; ++block) {
    const Span& span = spans[block];
    if (ways[block] == Way::usual || span.from >= span.to) continue;
    const int row = block * Spec::micro_rows;
    if (ways[block] == Way::again_with_care) {
      for (int column = 0; column < Spec::tile_keys; column += kMicroColumns) {
        multiply_panel(args, buffers, first_row, row, span, column, kZeros);
      }
    }
    softmax_block(args, chunk, state_of(buffers.state, first_row, row), first_row + row,
                  min_int(Spec::micro_rows, rows - row), span, first_key, keys, factor,
                  buffers.scores + row * Spec::tile_keys);
    rescale_rows(args, buffers, first_row, row);
  }

  attend_values<Spec::micro_vectors>(args, buffers, first_row, blocks, spans);
}

// All rows of a chunk of at most Rows <= kCpuFewRows rows against one block of keys in place.
template <int Rows>
HF_DEVICE void attend_few_rows(const AttentionArgs& args, const Chunk& chunk,
                               const Buffers& buffers, int first_key, int keys, float factor) {
  RowList k_list, v_list;
  const KeyRows k = rows_of_keys(args, args.k, args.k_stride, chunk, first_key, keys, k_list);
  const KeyRows v = rows_of_keys(args, args.v, args.v_stride, chunk, first_key, keys, v_list);
  few_rows_scores<Rows>(args, k, reinterpret_cast<const float*>(buffers.queries), keys,
                        buffers.scores);
  const int to = round_up(keys, kColumnStep);
  const KeyRange every =
      keys_seen_by_all(args, query_of(chunk, 0), query_of(chunk, chunk.rows - 1));
  const bool edge = every.first > first_key || every.end < first_key + to || keys < to;
  for (int row = 0; row < Rows; ++row) {
    float* const scores = buffers.scores + row * kFewRowsKeys;
    if (row < chunk.rows) {
      RowStates state = state_of(buffers.state, row, 0);
      state.lane_sums_before = state.lane_sums;
      softmax_block(args, chunk, state, row, 1, {0, to, keys, edge}, first_key, keys, factor,
                    scores);
    } else {  // a row that does not exist sees nothing
      for (int i = 0; i < to; i += kLanes) store(scores + i, broadcast(0.0f));
    }
  }
  few_rows_output<Rows>(args, v, buffers.scores, keys, buffers.state.rescale, buffers.output,
                        buffers.output_stride);
}

// Rows of the sequence, of one key/value head.
HF_DEVICE long long rows_of_sequence(const AttentionArgs& args, const Chunk& chunk) {
  return static_cast<long long>(args.seq_q) * chunk.group;
}

// How many parts of its keys a chunk handles one after the other. With keys_per_split, sequences of
// few rows are cut at fixed keys, whoever handles the parts: so their bits do not depend on others.
HF_DEVICE int parts_of_chunk(const AttentionArgs& args, const Chunk& chunk) {
  if constexpr (Spec::split_keys) {
    if (args.keys_per_split > 0 && args.splits <= 1 &&
        rows_of_sequence(args, chunk) <= kRowsToSplit) {
      return max_int((args.seq_k + args.keys_per_split - 1) / args.keys_per_split, 1);
    }
  }
  return 1;
}

// A part of the keys that some row of the chunk sees.
HF_DEVICE KeyRange keys_of_part(const AttentionArgs& args, const Chunk& chunk, KeyRange seen,
                                int part, int parts) {
  if (!Spec::split_keys || parts <= 1 || seen.first >= seen.end) return seen;
  if (args.keys_per_split > 0) {
    if (rows_of_sequence(args, chunk) > kRowsToSplit) return part == 0 ? seen : KeyRange{0, 0};
    const long long first = static_cast<long long>(part) * args.keys_per_split;
    const auto inside = [&](long long key) {
      return static_cast<int>(key < seen.first ? seen.first : key < seen.end ? key : seen.end);
    };
    return {inside(first), inside(first + args.keys_per_split)};
  }
  const long long blocks =
      (static_cast<long long>(seen.end) - seen.first + Spec::tile_keys - 1) / Spec::tile_keys;
  const auto boundary = [&](int n) {
    const long long key = seen.first + blocks * n / parts * Spec::tile_keys;
    return static_cast<int>(key < seen.end ? key : seen.end);
  };
  return {boundary(part), boundary(part + 1)};
}

// Rows before their first key.
HF_DEVICE void clear_rows(const Chunk& chunk, const Buffers& buffers) {
  const int padded_rows =
      chunk.rows == 1 ? 1 : round_up(max_int(chunk.rows, kCpuFewRows), Spec::micro_rows);
  for (int row = 0; row < padded_rows; ++row) {
    buffers.state.max[row] = row < chunk.rows ? -kInfinity : 0.0f;  // padding fits any base
    buffers.state.minus_max[row] = 0.0f;
    buffers.state.rescale[row] = 0.0f;
    store(buffers.state.lane_sums + row * kLanes, broadcast(0.0f));
    float* output = buffers.output + static_cast<long long>(row) * buffers.output_stride;
    for (int column = 0; column < buffers.output_stride; column += kLanes) {
      store(output + column, broadcast(0.0f));
    }
  }
}

// Few rows against a handful of keys.
HF_DEVICE void attend_handful(const AttentionArgs& args, const Chunk& chunk, const Buffers& buffers,
                              int keys, float sign, float factor) {
  RowList k_list, v_list;
  const int first = chunk.keys.first;
  const KeyRows k = rows_of_keys(args, args.k, args.k_stride, chunk, first, keys, k_list);
  const KeyRows v = rows_of_keys(args, args.v, args.v_stride, chunk, first, keys, v_list);
  for (int row = 0; row < chunk.rows; ++row) {
    attend_few_keys(args, chunk, k, v, row, sign, factor,
                    buffers.output + static_cast<long long>(row) * buffers.output_stride,
                    buffers.state.max[row], buffers.sums[row]);
  }
}

// Few rows: keys and values are read in place.
HF_DEVICE void attend_in_place(const AttentionArgs& args, const Chunk& chunk,
                               const Buffers& buffers, float sign, float factor) {
  convert_queries(args, chunk, sign, reinterpret_cast<float*>(buffers.queries));
  for (int key = chunk.keys.first; key < chunk.keys.end; key += kFewRowsKeys) {
    const int keys = min_int(kFewRowsKeys, chunk.keys.end - key);
    if (Spec::chunk_rows == 1 || (Spec::chunk_rows == 0 && chunk.rows == 1)) {
      attend_few_rows<1>(args, chunk, buffers, key, keys, factor);
    } else if constexpr (Spec::chunk_rows != 1) {
      attend_few_rows<kCpuFewRows>(args, chunk, buffers, key, keys, factor);
    }
  }
  order_output(args, chunk.rows, buffers.output, buffers.output_stride);
}

// Many rows: queries, keys and values are packed for the register blocks.
HF_DEVICE void attend_packed(const AttentionArgs& args, const Chunk& chunk, const Buffers& buffers,
                             float sign, float factor) {
  if (chunk.keys.first >= chunk.keys.end) return;
  pack_queries(args, chunk, kQueriesCarryFactor ? sign * factor : sign, buffers.queries);
  if (kQueriesCarryFactor) factor = 1.0f;
  RowList k_list, v_list;
  const auto k_rows = [&](int key, int keys) {
    return rows_of_keys(args, args.k, args.k_stride, chunk, key, keys, k_list);
  };
  const auto v_rows = [&](int key, int keys) {
    return rows_of_keys(args, args.v, args.v_stride, chunk, key, keys, v_list);
  };
  for (int key = chunk.keys.first; key < chunk.keys.end; key += Spec::tile_keys) {
    const int keys = min_int(Spec::tile_keys, chunk.keys.end - key);
    pack_keys(args, k_rows(key, keys), keys, round_up(keys, kColumnStep), buffers.keys);
    pack_values(args, chunk, v_rows(key, keys), key, keys, buffers.values);
    for (int row = 0; row < chunk.rows; row += Spec::tile_queries) {
      attend_block(args, chunk, buffers, row, key, keys, factor);
    }
  }
}

// All rows of the chunk against its keys: raw outputs, maxima and sums.
HF_DEVICE void attend_keys(const AttentionArgs& args, const Chunk& chunk, const Buffers& buffers) {
  // Raw scores need a positive factor for their maximum to be the exponents' maximum: a negative
  // scale changes the sign of the queries, and a zero one becomes too small to matter.
  const float scale = exponent_scale(args);
  const float sign = scale < 0.0f ? -1.0f : 1.0f;
  float factor = scale * sign;
  if (factor < 1e-30f) factor = 1e-30f;

  const bool few_rows = kMayHaveFewRows && (!kMayHaveManyRows || chunk.rows <= kCpuFewRows);
  if constexpr (kMayHaveFewKeys) {
    const int all_keys = chunk.keys.end - chunk.keys.first;
    if (few_rows && all_keys > 0 && all_keys <= kCpuFewKeys) {
      attend_handful(args, chunk, buffers, all_keys, sign, factor);
      return;
    }
  }
  clear_rows(chunk, buffers);
  if constexpr (kMayHaveFewRows && !Spec::few_keys) {
    if (few_rows) attend_in_place(args, chunk, buffers, sign, factor);
  }
  if constexpr (kMayHaveManyRows) {
    if (!few_rows) attend_packed(args, chunk, buffers, sign, factor);
  }

  for (int row = 0; row < chunk.rows; ++row) {
    buffers.sums[row] = reduce_add(load(buffers.state.lane_sums + row * kLanes));
  }
  if constexpr (Spec::ragged) {
    for (int row = 0; chunk.fault && row < chunk.rows; ++row) {
      buffers.sums[row] = __builtin_nanf("");
    }
  }
}

// Joins what attend_keys() made of one part to the rows' totals.
HF_DEVICE void join_rows(const AttentionArgs& args, const Chunk& chunk, const Buffers& buffers,
                         bool first_part) {
  const int stride = buffers.output_stride;
  for (int row = 0; row < chunk.rows; ++row) {
    float* joined = buffers.joined + static_cast<long long>(row) * stride;
    if (first_part) {
      buffers.totals[row] = total_before(args, head_of(chunk, row));
      for (int column = 0; column < stride; column += kLanes) {
        store(joined + column, broadcast(0.0f));
      }
    }
    const float lse = lse_of_row(buffers.state.max[row], buffers.sums[row]);
    if (lse == -kInfinity) continue;
    const JoinWeights weights = join(buffers.totals[row], lse);
    join_row(joined, buffers.output + static_cast<long long>(row) * stride,
             inverse_of(buffers.sums[row]), weights, stride);
  }
}

HF_DEVICE void attend_chunk(const AttentionArgs& args, Chunk chunk, const Buffers& buffers) {
  const KeyRange seen = keys_seen_by_any(args, query_of(chunk, 0), query_of(chunk, chunk.rows - 1));
  const int parts = parts_of_chunk(args, chunk);
  for (int part = 0; part < parts; ++part) {
    chunk.keys = parts > 1 ? keys_of_part(args, chunk, seen, part, parts)
                           : keys_of_part(args, chunk, seen, chunk.split, args.splits);
    attend_keys(args, chunk, buffers);
    if (parts > 1) join_rows(args, chunk, buffers, part == 0);
  }
  for (int row = 0; row < chunk.rows; ++row) {
    const long long at = static_cast<long long>(row) * buffers.output_stride;
    if (parts > 1) {
      const float inverse = inverse_of(buffers.totals[row].sum);
      write_result(args, chunk.batch, query_of(chunk, row), head_of(chunk, row),
                   lse_of(buffers.totals[row]),
                   [&](int column) { return load(buffers.joined + at + column) * inverse; });
    } else {
      write_row(args, chunk, row, buffers.output + at, buffers.state.max[row], buffers.sums[row]);
    }
  }
}

// Chunk `index` of a sequence; false if the sequence has no such rows.
HF_DEVICE bool place_chunk(const AttentionArgs& args, const CpuWork& work, long long index,
                           Chunk& chunk) {
  chunk.first_row = index * work.rows_per_item;
  const long long rows = rows_of_sequence(args, chunk) - chunk.first_row;
  chunk.rows = static_cast<int>(rows < work.rows_per_item ? rows : work.rows_per_item);
  return rows > 0;
}

}  // namespace hipflash

// Item numbers count pairs fastest, then splits, then chunks from the last: with a causal mask the
// last chunk sees the most keys. With packed queries a pair is (tile of queries, key/value head).
extern "C" __attribute__((visibility("default"))) void attention_forward(
    const hipflash::AttentionArgs* args, const hipflash::CpuWork* work, long long item,
    void* scratch) {
  using namespace hipflash;
  const long long groups = (work->pairs + work->pairs_per_item - 1) / work->pairs_per_item;
  const int splits = Spec::split_keys && args->splits > 1 ? args->splits : 1;
  const long long first_pair = item % groups * work->pairs_per_item;
  const long long end_pair = first_pair + work->pairs_per_item < work->pairs
                                 ? first_pair + work->pairs_per_item
                                 : work->pairs;
  const long long index = work->chunks - 1 - item / groups / splits;

  Chunk chunk = {};
  chunk.group = args->heads_q / args->heads_kv;
  chunk.split = static_cast<int>(item / groups % splits);
  const Buffers buffers = buffers_in(scratch, *args, work->rows_per_item);
  if constexpr (Spec::ragged) {
    AttentionArgs one;
    int sequence = -1;
    for (long long pair = first_pair; pair < end_pair; ++pair) {
      const int place = static_cast<int>(pair / args->heads_kv);
      chunk.head_kv = static_cast<int>(pair % args->heads_kv);
      PackedTile tile = {place, static_cast<int>(index)};
      if (args->cu_seqlens_q) {
        tile = packed_tile_of(*args, place, work->rows_per_item / chunk.group);
      }
      if (tile.sequence != sequence) {
        int fault = kNoFault;
        one = arguments_of_sequence(*args, tile.sequence, fault);
        sequence = tile.sequence;
        chunk.fault = fault != kNoFault;
        if (chunk.fault && args->fault) *args->fault = fault;
      }
      if (place_chunk(one, *work, tile.tile, chunk)) attend_chunk(one, chunk, buffers);
    }
  } else {
    place_chunk(*args, *work, index, chunk);
    chunk.batch = static_cast<int>(first_pair / args->heads_kv);
    chunk.head_kv = static_cast<int>(first_pair % args->heads_kv);
    if constexpr (kRowsInLanes) {
      attend_in_groups(*args, chunk, end_pair - first_pair, may_stream(*args, *work));
    } else {
      for (long long pair = first_pair; pair < end_pair; ++pair) {
        attend_chunk(*args, chunk, buffers);
        if (++chunk.head_kv == args->heads_kv) {
          chunk.head_kv = 0;
          ++chunk.batch;
        }
      }
    }
  }
}

// Joins the partial results of the splits, kMergeRows rows of (batch, head, query) per item.
extern "C" __attribute__((visibility("default"))) void attention_merge(
    const hipflash::AttentionArgs* args, const hipflash::CpuWork*, long long item, void*) {
  using namespace hipflash;
  if constexpr (Spec::split_keys) {
    const long long rows = partial_rows(*args);
    const long long end = (item + 1) * kMergeRows < rows ? (item + 1) * kMergeRows : rows;
    for (long long row = item * kMergeRows; row < end; ++row) merge_row(*args, row);
  }
}
