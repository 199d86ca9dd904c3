// Attention on a CPU: softmax(scale * Q K^T + mask) V, exact, in one pass over the keys.
//
// An item takes chunks of rows (queries of the heads that share a key/value head). For each block
// of keys, K and V are packed once; then every block of queries of the chunk forms its scores,
// turns them into probabilities and adds their product with V to its output, which stays in the
// second-level cache. Blocks that no query sees are skipped; only blocks at the edge of the mask
// are masked.
#include "cpu/chunk.h"
#include "cpu/few_keys.h"
#include "cpu/few_rows.h"
#include "cpu/finish.h"
#include "cpu/query_blocks.h"
#include "cpu/row_groups.h"

namespace hipflash {

// All rows of a chunk, at most Rows <= kCpuFewRows of each head, against one block of keys in
// place.
template <int Rows>
HF_DEVICE void attend_few_rows(const AttentionArgs& args, const Chunk& chunk,
                               const Buffers& buffers, int first_key, int keys, float factor) {
  RowList k_list, v_list;
  const KeyRows k = rows_of_keys(args, args.k, args.k_stride, chunk, first_key, keys, k_list);
  const KeyRows v = rows_of_keys(args, args.v, args.v_stride, chunk, first_key, keys, v_list);
  few_rows_scores<Rows>(args, chunk, k, reinterpret_cast<const float*>(buffers.queries), keys,
                        buffers.scores);
  const int to = round_up(keys, kColumnStep);
  const KeyRange every =
      keys_seen_by_all(args, query_of(chunk, 0), query_of(chunk, chunk.rows - 1));
  const bool edge = every.first > first_key || every.end < first_key + to || keys < to;
  float* scores = buffers.scores;
  each_head(args, chunk, buffers, [&](const Chunk& one, const Buffers& its) {
    for (int row = 0; row < Rows; ++row, scores += few_rows_keys(chunk)) {
      if (row < one.rows) {
        RowStates state = state_of(its.state, row, 0);
        state.lane_sums_before = state.lane_sums;
        softmax_block(args, one, state, row, 1, {0, to, keys, edge}, first_key, keys, factor,
                      scores);
      } else {  // a row that does not exist sees nothing
        for (int i = 0; i < to; i += kLanes) store(scores + i, broadcast(0.0f));
      }
      float* const output = its.output + row * its.output_stride;
      for (int i = 0; i < value_head_dim(args); i += kLanes) {
        store(output + i, load(output + i) * its.state.rescale[row]);
      }
    }
  });
  few_rows_output<Rows>(args, chunk, v, buffers.scores, keys, buffers.output,
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

// Whether the chunk's rows take the way of few.
HF_DEVICE bool few_rows_of(const Chunk& chunk) {
  return kMayHaveFewRows && (!kMayHaveManyRows || chunk.rows <= kCpuFewRows);
}

// Rows before their first key.
HF_DEVICE void clear_rows(const Chunk& chunk, const Buffers& buffers) {
  const int padded_rows = !few_rows_of(chunk) ? round_up(chunk.rows, Spec::micro_rows)
                          : chunk.rows == 1   ? 1
                                              : kCpuFewRows;
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
  each_head(args, chunk, buffers, [&](const Chunk& one, const Buffers& its) {
    convert_queries(args, one, sign, reinterpret_cast<float*>(its.queries));
  });
  const int at_once = few_rows_keys(chunk);
  for (int key = chunk.keys.first; key < chunk.keys.end; key += at_once) {
    const int keys = min_int(at_once, chunk.keys.end - key);
    if (Spec::chunk_rows == 1 || (Spec::chunk_rows == 0 && chunk.rows == 1)) {
      attend_few_rows<1>(args, chunk, buffers, key, keys, factor);
    } else if constexpr (Spec::chunk_rows != 1) {
      attend_few_rows<kCpuFewRows>(args, chunk, buffers, key, keys, factor);
    }
  }
  each_head(args, chunk, buffers, [&](const Chunk&, const Buffers& its) {
    order_output(args, chunk.rows, its.output, its.output_stride);
  });
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

  const bool few_rows = few_rows_of(chunk);
  if constexpr (kMayHaveFewKeys) {
    const int all_keys = chunk.keys.end - chunk.keys.first;
    if (few_rows && all_keys > 0 && all_keys <= kCpuFewKeys) {
      each_head(args, chunk, buffers, [&](const Chunk& one, const Buffers& its) {
        attend_handful(args, one, its, all_keys, sign, factor);
      });
      return;
    }
  }
  each_head(args, chunk, buffers,
            [&](const Chunk& one, const Buffers& its) { clear_rows(one, its); });
  if constexpr (kMayHaveFewRows && !Spec::few_keys) {
    if (few_rows) attend_in_place(args, chunk, buffers, sign, factor);
  }
  if constexpr (kMayHaveManyRows) {
    if (!few_rows) attend_packed(args, chunk, buffers, sign, factor);
  }

  each_head(args, chunk, buffers, [&](const Chunk& one, const Buffers& its) {
    for (int row = 0; row < one.rows; ++row) {
      const bool fault = Spec::ragged && chunk.fault;
      its.sums[row] =
          fault ? __builtin_nanf("") : reduce_add(load(its.state.lane_sums + row * kLanes));
    }
  });
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

HF_DEVICE void write_rows(const AttentionArgs& args, const Chunk& chunk, const Buffers& buffers,
                          bool joined) {
  for (int row = 0; row < chunk.rows; ++row) {
    const long long at = static_cast<long long>(row) * buffers.output_stride;
    if (joined) {
      const float inverse = inverse_of(buffers.totals[row].sum);
      write_result(args, chunk.batch, query_of(chunk, row), head_of(chunk, row),
                   lse_of(buffers.totals[row]),
                   [&](int column) { return load(buffers.joined + at + column) * inverse; });
    } else {
      write_row(args, chunk, row, buffers.output + at, buffers.state.max[row], buffers.sums[row]);
    }
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
  each_head(args, chunk, buffers,
            [&](const Chunk& one, const Buffers& its) { write_rows(args, one, its, parts > 1); });
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
  chunk.heads = work->heads_together;
  const int head_groups = args->heads_kv / chunk.heads;
  chunk.split = static_cast<int>(item / groups % splits);
  const Buffers buffers = buffers_in(scratch, *args, *work);
  if constexpr (Spec::ragged) {
    AttentionArgs one;
    int sequence = -1;
    for (long long pair = first_pair; pair < end_pair; ++pair) {
      const int place = static_cast<int>(pair / head_groups);
      chunk.head_kv = static_cast<int>(pair % head_groups) * chunk.heads;
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
    chunk.batch = static_cast<int>(first_pair / head_groups);
    chunk.head_kv = static_cast<int>(first_pair % head_groups) * chunk.heads;
    if constexpr (kRowsInLanes) {
      attend_in_groups(*args, chunk, end_pair - first_pair, may_stream(*args, *work));
    } else {
      for (long long pair = first_pair; pair < end_pair; ++pair) {
        attend_chunk(*args, chunk, buffers);
        chunk.head_kv += chunk.heads;
        if (chunk.head_kv == args->heads_kv) {
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
