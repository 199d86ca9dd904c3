// What a block works on, and which keys of it.
#pragma once

#include "common/partials.h"
#include "common/sequence.h"
#include "gpu/tile/amd/block_rows.h"
#include "gpu/tile/amd/sink.h"
#include "gpu/tiles_rdna.h"

namespace hipflash {

struct Place {
  int batch, head, head_kv, first_row, slice, split;
};

// Query heads of a K/V head are neighbours, then query tiles, so blocks that run together share K
// and V in the caches; the last queries, which see most keys, come first. In ragged calls
// `first_row` is left to first_row_of(): it is the tile's number here.
template <int kQueries, int kSlices>
HF_DEVICE Place block_place(const AttentionArgs& args) {
  const int group = args.heads_q / args.heads_kv;
  const int heads_of_kv = Spec::pack_heads ? 1 : group;
  const bool packed_queries = Spec::ragged && args.cu_seqlens_q;
  const int tiles =
      packed_queries
          ? static_cast<int>(packed_query_tiles(
                static_cast<long long>(args.total_q) * rows_per_query(args), args.batch, kQueries))
          : rdna::divide_up(rows_of_head(args), kQueries);
  Place place;
  int rest = block_id();
  const int in_group = rest % heads_of_kv;
  rest /= heads_of_kv;
  const int tile = rest % tiles;
  rest /= tiles;
  place.slice = rest % kSlices;
  rest /= kSlices;
  place.split = 0;
  if constexpr (Spec::split_keys) {
    place.split = rest % args.splits;
    rest /= args.splits;
  }
  place.head_kv = rest % args.heads_kv;
  place.batch = rest / args.heads_kv;
  place.head = place.head_kv * group + in_group;
  place.first_row = Spec::ragged ? tile : (tiles - 1 - tile) * kQueries;
  if (packed_queries) {
    const PackedTile packed = packed_tile_of(args, tile, kQueries, rows_per_query(args));
    place.batch = packed.sequence;
    place.first_row = packed.tile;
  }
  return place;
}

// Of a tile by its number in a sequence; negative if the sequence has none of this number.
template <int kQueries>
HF_DEVICE int first_row_of(const AttentionArgs& one, int tile) {
  return (rdna::divide_up(rows_of_head(one), kQueries) - 1 - tile) * kQueries;
}

// Calls attend(args, place, fault) for this block: with the call as it is, or with its sequence as
// a call of its own.
template <int kQueries, int kSlices, class Attend>
HF_DEVICE void for_block_of_call(const AttentionArgs& args, Attend&& attend) {
  Place place = block_place<kQueries, kSlices>(args);
  if constexpr (Spec::ragged) {
    int fault;
    const AttentionArgs one = arguments_of_sequence(args, place.batch, fault);
    if (fault != kNoFault && args.fault && thread_id() == 0) *args.fault = fault;
    place.batch = 0;
    place.first_row = first_row_of<kQueries>(one, place.first_row);
    if (place.first_row >= 0) attend(one, place, fault);
  } else {
    attend(args, place, kNoFault);
  }
}

// Where output and LSE of a row go.
struct RowTarget {
  long long out;   // elements into args.out
  long long cell;  // rows into this split's partial results
  long long lse;   // elements into args.lse
};

HF_DEVICE RowTarget row_target(const AttentionArgs& args, const Place& place, int row) {
  const int query = query_of_row(args, row), head = head_of_row(args, place.head, row);
  RowTarget to;
  to.out = place.batch * args.out_stride.batch + head * args.out_stride.head +
           query * args.out_stride.seq;
  to.cell = partial_row(args, place.split, place.batch, head, query);
  to.lse = place.batch * args.lse_stride.batch + head * args.lse_stride.head +
           query * args.lse_stride.seq;
  return to;
}

// Whether this call's blocks write parts, for attention_merge to join.
HF_DEVICE bool writes_parts(const AttentionArgs& args) {
  return Spec::split_keys && args.splits > 1;
}

HF_DEVICE void store_lse(const AttentionArgs& args, const RowTarget& to, float lse) {
  if (writes_parts(args)) {
    args.partial_lse[to.cell] = lse;
  } else if (Spec::lse && args.lse) {
    args.lse[to.lse] = lse;
  }
}

// What a row's sink leaves of its output, and its LSE; or NaN for both where the sequence's numbers
// cannot be right. A part of the keys takes no sink.
HF_DEVICE SinkResult finished_row(const AttentionArgs& args, const Place& place, int row, float lse,
                                  int fault) {
  if (Spec::ragged && fault != kNoFault) return {kNan, kNan};
  if (writes_parts(args)) return {1.0f, lse};
  return join_sink(args, head_of_row(args, place.head, row), lse);
}

struct BlockKeys {
  KeyRange seen;   // by some row of the block
  KeyRange whole;  // by all of them
};

// The keys of a block's rows, or this split's share of them: whole tiles, or the keys of a fixed
// part of the sequence.
template <int kQueries, int kKeys>
HF_DEVICE BlockKeys block_keys(const AttentionArgs& args, const Place& place) {
  const int first = query_of_row(args, place.first_row);
  const int last =
      query_of_row(args, rdna::smaller(place.first_row + kQueries, rows_of_head(args)) - 1);
  BlockKeys keys = {keys_seen_by_any(args, first, last), keys_seen_by_all(args, first, last)};
  if constexpr (Spec::split_keys) {
    if (args.keys_per_split > 0) {
      const long long from = static_cast<long long>(args.keys_per_split) * place.split;
      const long long to = from + args.keys_per_split;
      if (to < keys.seen.end) keys.seen.end = static_cast<int>(to);
      if (from > keys.seen.first) {
        keys.seen.first = from < keys.seen.end ? static_cast<int>(from) : keys.seen.end;
      }
    } else {
      const int tiles = rdna::divide_up(keys.seen.end - keys.seen.first, kKeys);
      const int share = rdna::divide_up(tiles, args.splits) * kKeys;
      keys.seen.first = keys.seen.first + place.split * share;
      keys.seen.end = rdna::smaller(keys.seen.end, keys.seen.first + share);
    }
    keys.whole.end = rdna::smaller(keys.whole.end, keys.seen.end);
  }
  return keys;
}

// The keys that a row sees; a fixed part may end within a tile.
HF_DEVICE KeyRange visible_to_row(const AttentionArgs& args, int query, KeyRange seen) {
  KeyRange visible = visible_keys(args, query);
  if constexpr (Spec::split_keys) visible.end = rdna::smaller(visible.end, seen.end);
  return visible;
}

// What turns scores into exponents of two. 0 becomes a factor as good as 0 under which a hidden
// score still has the exponent -inf.
HF_DEVICE float nonzero_exponent_scale(const AttentionArgs& args) {
  const float scale = exponent_scale(args);
  return scale == 0.0f ? 1e-30f : scale;
}

// The score whose exponent is -inf.
HF_DEVICE float hidden_score(float scale) {
  return scale > 0.0f ? -kInfinity : kInfinity;
}

}  // namespace hipflash
