// The way of few rows that all see the same handful of keys, without masks and modifiers: thousands
// of such problems in one call, so the time is their memory's.
//
// As many rows as a vector has lanes form a group: their sums of products, exponentials and
// divisions are done together. Scores of one group and outputs of the group before it alternate row
// by row, so that memory is asked for all tensors all the time, and an output larger than the
// caches is written past them.
#pragma once

#include "cpu/few_rows.h"
#include "cpu/finish.h"

namespace hipflash {

// Rows that are worked on together, one in each lane.
constexpr int kGroupKeys = max_int(Spec::few_keys, 1);
struct RowGroup {
  int count;
  const Element* q[kLanes];
  const Element* k[kLanes];  // of the first key
  const Element* v[kLanes];
  Element* out[kLanes];
  float* lse[kLanes];
  float sink[kLanes];
  float weights[kGroupKeys][kLanes];
};

// From what is read to what is asked for meanwhile: the next head's row, or half a kilobyte in rows
// that are longer.
HF_DEVICE long long elements_ahead(long long head_stride) {
  constexpr int kMost = 512 / sizeof(Element);
  return Spec::head_dim > kMost ? kMost : head_stride;
}

HF_DEVICE void prefetch_pair(const Element* row, int i) {
  constexpr int kLine = 64 / sizeof(Element);
  if constexpr (kPairLanes >= kLine) {
    HF_UNROLL for (int j = 0; j < kPairLanes; j += kLine) __builtin_prefetch(row + i + j, 0, 3);
  } else if (i % kLine == 0) {
    __builtin_prefetch(row + i, 0, 3);
  }
}

// sums[key][n] = products of a group's row n and its keys, before their lanes are added up.
HF_DEVICE void group_products(const AttentionArgs& args, const RowGroup& group, int n,
                              Vec (&sums)[kGroupKeys][kLanes]) {
  const int dim = head_dim(args);
  const Element* const q = group.q[n];
  VecPair sum[kGroupKeys];
  HF_UNROLL for (VecPair& each : sum) each = {broadcast(0.0f), broadcast(0.0f)};
  const auto key_at = [&](int key) { return group.k[n] + key * args.k_stride.seq; };
  int i = 0;
  for (; i + kPairLanes <= dim; i += kPairLanes) {
    const VecPair query = load_pair(q + i);
    prefetch_pair(q + elements_ahead(args.q_stride.head), i);
    HF_UNROLL for (int key = 0; key < Spec::few_keys; ++key) {
      const VecPair other = load_pair(key_at(key) + i);
      prefetch_pair(key_at(key) + elements_ahead(args.k_stride.head), i);
      sum[key].first = fma(query.first, other.first, sum[key].first);
      sum[key].second = fma(query.second, other.second, sum[key].second);
    }
  }
  for (; i < dim; i += kLanes) {
    const Vec query = load_at_most(q + i, dim - i);
    HF_UNROLL for (int key = 0; key < Spec::few_keys; ++key) {
      sum[key].first = fma(query, load_at_most(key_at(key) + i, dim - i), sum[key].first);
    }
  }
  HF_UNROLL for (int key = 0; key < Spec::few_keys; ++key) {
    sums[key][n] = sum[key].first + sum[key].second;
  }
}

// Output of a group's row n, of weights that add up to one.
template <bool Stream>
HF_DEVICE void group_output(const AttentionArgs& args, const RowGroup& group, int n) {
  const int dim = value_head_dim(args);
  Element* const out = group.out[n];
  const auto value_at = [&](int key) { return group.v[n] + key * args.v_stride.seq; };
  Vec weights[kGroupKeys];
  HF_UNROLL for (int key = 0; key < kGroupKeys; ++key) {
    weights[key] = broadcast(group.weights[key][n]);
  }
  int i = 0;
  for (; i + kPairLanes <= dim; i += kPairLanes) {
    VecPair sum = {broadcast(0.0f), broadcast(0.0f)};
    HF_UNROLL for (int key = 0; key < Spec::few_keys; ++key) {
      const VecPair value = load_pair(value_at(key) + i);
      prefetch_pair(value_at(key) + elements_ahead(args.v_stride.head), i);
      sum = {fma(weights[key], value.first, sum.first),
             fma(weights[key], value.second, sum.second)};
    }
    store_pair<Stream>(out + i, sum);
  }
  for (; i < dim; i += kLanes) {
    Vec sum = broadcast(0.0f);
    HF_UNROLL for (int key = 0; key < Spec::few_keys; ++key) {
      const Vec value = load_at_most(value_at(key) + i, dim - i);
      sum = fma(weights[key], value, sum);
    }
    if (dim - i >= kLanes) {
      store(out + i, sum);
    } else {
      store_first(out + i, sum, dim - i);
    }
  }
}

// The scores of a group's rows become weights; their log-sum-exps are written.
HF_DEVICE void weigh_group(const AttentionArgs& args, Vec (&sums)[kGroupKeys][kLanes],
                           RowGroup& group) {
  const Vec scale = broadcast(exponent_scale(args)), none = broadcast(-kInfinity);
  const Vec sink = Spec::sinks && args.sinks ? load(group.sink) * kLog2e : none;
  Vec score[kGroupKeys], largest = sink;
  HF_UNROLL for (int key = 0; key < kGroupKeys; ++key) {
    score[key] = reduce_add_each(sums[key]);
    largest = max(score[key] * scale, largest);
  }
  const Vec base = largest == none ? broadcast(0.0f) : largest;
  Vec sum = Spec::sinks ? exp2(sink - base) : broadcast(0.0f);
  HF_UNROLL for (int key = 0; key < kGroupKeys; ++key) {
    score[key] = exp2(fma(score[key], scale, -base));
    sum = sum + score[key];
  }
  const Vec inverse = sum == 0.0f ? sum : 1.0f / sum;
  HF_UNROLL for (int key = 0; key < kGroupKeys; ++key) {
    const Vec weight = score[key] * inverse;
    store(group.weights[key], weight == weight ? weight : broadcast(__builtin_nanf("")));
  }
  if constexpr (Spec::lse) {
    if (args.lse) {
      for (int n = 0; n < group.count; ++n) *group.lse[n] = lse_of_row(base[n], sum[n]);
    }
  }
}

// Scores of one group and outputs of the group before it.
HF_DEVICE void attend_group(const AttentionArgs& args, RowGroup& group, const RowGroup& before,
                            bool stream) {
  Vec sums[kGroupKeys][kLanes];
  for (int n = 0; n < kLanes; ++n) {
    if (n < group.count) {
      group_products(args, group, n, sums);
    } else {
      HF_UNROLL for (int key = 0; key < kGroupKeys; ++key) sums[key][n] = broadcast(0.0f);
    }
    if (n < before.count) {
      if (stream) {
        group_output<true>(args, before, n);
      } else {
        group_output<false>(args, before, n);
      }
    }
  }
  if (group.count > 0) weigh_group(args, sums, group);
}

// Goes over the rows of pairs that follow one another.
struct RowCursor {
  Chunk chunk;  // of a pair's rows
  int row;
  long long pairs;  // still to do
  const Element *q, *k, *v;
  Element* out;
};

HF_DEVICE void place_cursor(const AttentionArgs& args, RowCursor& at) {
  const Chunk& chunk = at.chunk;
  const int query = query_of(chunk, at.row), head = head_of(chunk, at.row);
  at.q = row_of(args.q, args.q_stride, chunk.batch, query, head);
  at.k = row_of(args.k, args.k_stride, chunk.batch, 0, chunk.head_kv);
  at.v = row_of(args.v, args.v_stride, chunk.batch, 0, chunk.head_kv);
  at.out = const_cast<Element*>(row_of(args.out, args.out_stride, chunk.batch, query, head));
}

HF_DEVICE void advance_cursor(const AttentionArgs& args, RowCursor& at) {
  if (Spec::chunk_rows != 1 && ++at.row < at.chunk.rows) {
    place_cursor(args, at);
    return;
  }
  at.row = 0;
  --at.pairs;
  if (Spec::chunk_rows == 1 && ++at.chunk.head_kv < args.heads_kv) {
    at.q += args.q_stride.head;
    at.k += args.k_stride.head;
    at.v += args.v_stride.head;
    at.out += args.out_stride.head;
    return;
  }
  if (Spec::chunk_rows == 1 || ++at.chunk.head_kv == args.heads_kv) {
    at.chunk.head_kv = 0;
    ++at.chunk.batch;
  }
  place_cursor(args, at);
}

HF_DEVICE void fill_lane(const AttentionArgs& args, const RowCursor& at, RowGroup& group) {
  const int n = group.count++;
  group.q[n] = at.q;
  group.k[n] = at.k;
  group.v[n] = at.v;
  group.out[n] = at.out;
  if constexpr (Spec::lse || Spec::sinks) {
    const int query = query_of(at.chunk, at.row), head = head_of(at.chunk, at.row);
    if constexpr (Spec::lse) {
      group.lse[n] = args.lse + at.chunk.batch * args.lse_stride.batch +
                     query * args.lse_stride.seq + head * args.lse_stride.head;
    }
    if constexpr (Spec::sinks) group.sink[n] = args.sinks ? args.sinks[head] : 0.0f;
  }
}

// All rows of some pairs. A processor fetches ahead on several streams better than on few, so lanes
// take turns between the halves of the pairs.
HF_DEVICE void attend_in_groups(const AttentionArgs& args, const Chunk& first, long long pairs,
                                bool stream) {
  constexpr int kParts = 2;
  RowCursor cursors[kParts];
  for (int part = 0; part < kParts; ++part) {
    const long long begin = pairs * part / kParts, end = pairs * (part + 1) / kParts;
    const long long pair = first.batch * 1LL * args.heads_kv + first.head_kv + begin;
    RowCursor& cursor = cursors[part] = {first, 0, end - begin, nullptr, nullptr, nullptr, nullptr};
    cursor.chunk.batch = static_cast<int>(pair / args.heads_kv);
    cursor.chunk.head_kv = static_cast<int>(pair % args.heads_kv);
    if (cursor.pairs > 0) place_cursor(args, cursor);
  }
  long long rows = pairs * first.rows;
  int part = 0;
  const auto fill = [&](RowGroup& group) {
    for (group.count = 0; group.count < kLanes && rows > 0; part = (part + 1) % kParts) {
      if (cursors[part].pairs == 0) continue;
      fill_lane(args, cursors[part], group);
      advance_cursor(args, cursors[part]);
      --rows;
    }
  };
  RowGroup groups[2];
  groups[1].count = 0;
  fill(groups[0]);
  for (int now = 0; groups[0].count + groups[1].count > 0; now = 1 - now) {
    attend_group(args, groups[now], groups[1 - now], stream);
    fill(groups[1 - now]);
  }
  if (stream) end_stream();
}

// Output of a call that does not fit the caches with all that the call reads is written past them,
// where its rows are whole lines.
HF_DEVICE bool may_stream(const AttentionArgs& args, const CpuWork& work) {
  const auto rows = [&](int seq, int heads) { return static_cast<long long>(seq) * heads; };
  const long long elements = args.batch *
                             (rows(args.seq_q, args.heads_q) + rows(args.seq_k, args.heads_kv)) *
                             (head_dim(args) + value_head_dim(args));
  const long long distances = args.out_stride.batch | args.out_stride.seq | args.out_stride.head;
  const long long bytes = static_cast<long long>(sizeof(Element));
  return elements * bytes > work.cache_bytes && value_head_dim(args) * bytes % kStreamBytes == 0 &&
         distances * bytes % kStreamBytes == 0 &&
         reinterpret_cast<unsigned long long>(args.out) % kStreamBytes == 0;
}

}  // namespace hipflash
