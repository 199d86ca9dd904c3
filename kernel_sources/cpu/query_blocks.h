// Blocks of queries against a packed block of keys: scores, probabilities, and their product with
// V.
//
// Probabilities are relative to a base of their row: a maximum of the scores so far, which stays
// until a score is far above it. So usually nothing has to be rescaled, and a register block's
// scores become probabilities while they are in the first-level cache.
#pragma once

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
  float* sums;  // of probabilities, when a chunk's rows are done with their keys
  int output_stride;
  float* joined;  // outputs of the parts so far, where a chunk handles all parts of its keys
  RowTotal* totals;
};

HF_DEVICE Buffers buffers_in(void* scratch, const AttentionArgs& args, const CpuWork& work) {
  const CpuScratch layout = cpu_scratch(kTile, head_dim(args), value_head_dim(args), work,
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

// Of a register block of rows; sums before the block of keys are kept for a query block.
HF_DEVICE RowStates state_of(const RowStates& state, int first_row, int row) {
  const int row_of_chunk = first_row + row;
  return {state.max + row_of_chunk, state.minus_max + row_of_chunk, state.rescale + row_of_chunk,
          state.lane_sums + row_of_chunk * kLanes, state.lane_sums_before + row * kLanes};
}

// f(chunk, buffers) for each of the chunk's key/value heads alone.
template <class F>
HF_DEVICE void each_head(const AttentionArgs& args, const Chunk& chunk, const Buffers& buffers,
                         F f) {
  for (int head = 0; head < (kMayHaveFewRows ? chunk.heads : 1); ++head) {
    Chunk one = chunk;
    one.head_kv += head;
    one.heads = 1;
    const int row = head * kCpuFewRows;
    Buffers its = buffers;
    its.queries += row * round_up(head_dim(args), kLanes);
    its.output += row * buffers.output_stride;
    its.state = state_of(buffers.state, row, 0);
    its.sums += row;
    f(one, its);
  }
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

}  // namespace hipflash
