// What a block works on, and which keys of it.
#pragma once

namespace hipflash {

struct Place {
  int batch, head, head_kv, first_query, slice, split;
};

// Query heads of a K/V head are neighbours, then query tiles, so blocks that run together share K and
// V in the caches; the last queries, which see most keys, come first.
template <int kQueries, int kSlices>
HF_DEVICE Place block_place(const AttentionArgs& args) {
  const int group = args.heads_q / args.heads_kv;
  const int tiles = rdna::divide_up(args.seq_q, kQueries);
  Place place;
  int rest = block_id();
  const int in_group = rest % group;
  rest /= group;
  place.first_query = (tiles - 1 - rest % tiles) * kQueries;
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
  return place;
}

// Where output and LSE of a row go.
struct RowTarget {
  long long out;   // elements into args.out
  long long cell;  // rows into this split's partial results
  long long lse;   // elements into args.lse
};

HF_DEVICE RowTarget row_target(const AttentionArgs& args, const Place& place, int query) {
  RowTarget to;
  to.out = place.batch * args.out_stride.batch + place.head * args.out_stride.head +
           query * args.out_stride.seq;
  to.cell = ((static_cast<long long>(place.split) * args.batch + place.batch) * args.heads_q +
             place.head) * args.seq_q + query;
  to.lse = place.batch * args.lse_stride.batch + place.head * args.lse_stride.head +
           query * args.lse_stride.seq;
  return to;
}

// Whether this call's blocks write parts, for attention_merge to join.
HF_DEVICE bool writes_parts(const AttentionArgs& args) { return Spec::split_keys && args.splits > 1; }

HF_DEVICE void store_lse(const AttentionArgs& args, const RowTarget& to, float lse) {
  if (writes_parts(args)) {
    args.partial_lse[to.cell] = lse;
  } else if (Spec::lse && args.lse) {
    args.lse[to.lse] = lse;
  }
}

struct BlockKeys {
  KeyRange seen;   // by some query of the block
  KeyRange whole;  // by all of them
};

// The keys of a block's queries, or this split's share of them in whole tiles.
template <int kQueries, int kKeys>
HF_DEVICE BlockKeys block_keys(const AttentionArgs& args, const Place& place) {
  const int last = rdna::smaller(place.first_query + kQueries, args.seq_q) - 1;
  BlockKeys keys = {keys_seen_by_any(args, place.first_query, last),
                    keys_seen_by_all(args, place.first_query, last)};
  if constexpr (Spec::split_keys) {
    const int tiles = rdna::divide_up(keys.seen.end - keys.seen.first, kKeys);
    const int share = rdna::divide_up(tiles, args.splits) * kKeys;
    keys.seen.first = keys.seen.first + place.split * share;
    keys.seen.end = rdna::smaller(keys.seen.end, keys.seen.first + share);
    keys.whole.end = rdna::smaller(keys.whole.end, keys.seen.end);
  }
  return keys;
}

// What turns scores into exponents of two. 0 becomes a factor as good as 0 under which a hidden
// score still has the exponent -inf.
HF_DEVICE float nonzero_exponent_scale(const AttentionArgs& args) {
  const float scale = exponent_scale(args);
  return scale == 0.0f ? 1e-30f : scale;
}

// The score whose exponent is -inf.
HF_DEVICE float hidden_score(float scale) { return scale > 0.0f ? -kInfinity : kInfinity; }

}  // namespace hipflash
