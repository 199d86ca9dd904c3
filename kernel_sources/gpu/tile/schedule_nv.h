// Which piece of work a block does.
#pragma once

namespace hipflash {

struct Work {
  int batch, head, kv_head;  // `head` is the first query head of the piece
  int row;                   // first row of the query tile
  int chunk, split;          // of the value columns; of the keys
};

// 0: known at run time only.
constexpr int kValueChunks = Spec::value_head_dim ? nv_value_chunks(Spec::value_head_dim) : 0;

// Rows are queries, or (query, head) pairs of a K/V head's group when `kPack`.
// Groups of heads whose keys and values fit the L2 follow one another; in a group the heads alternate
// fastest, and the longest rows come first where rows have different lengths.
template <int kRows, bool kPack>
HF_DEVICE Work work_of(const AttentionArgs& args, int index, int together) {
  const int group = args.heads_q / args.heads_kv;
  const int heads = kPack ? args.heads_kv : args.heads_q;
  const int rows = kPack ? args.seq_q * group : args.seq_q;
  const int tiles = (rows + kRows - 1) / kRows;
  const int chunks = kValueChunks ? kValueChunks : nv_value_chunks(args.value_head_dim);
  const int parts = chunks * (Spec::split_keys ? max(args.splits, 1) : 1);
  const int part = index % parts;
  index /= parts;

  const int first = index / (together * tiles) * together;
  const int here = min(together, args.batch * heads - first);
  const int rest = index - first * tiles;
  int tile = rest / here;
  const int batch_head = first + rest - tile * here;
  if (Spec::window_right) tile = tiles - 1 - tile;

  Work work;
  work.batch = batch_head / heads;
  const int h = batch_head - work.batch * heads;
  work.head = kPack ? h * group : h;
  work.kv_head = kPack ? h : h / group;
  work.row = tile * kRows;
  work.chunk = part % chunks;
  work.split = part / chunks;
  return work;
}

// Steps of `tile` keys that a set of rows needs: begin..end-1, of which those in
// unmasked_begin..unmasked_end-1 are seen whole by every row.
struct Steps {
  int begin, end;
  int unmasked_begin, unmasked_end;
};

HF_DEVICE Steps steps_of(const AttentionArgs& args, int first_query, int last_query, int tile) {
  const KeyRange any = keys_seen_by_any(args, first_query, last_query);
  const KeyRange all = keys_seen_by_all(args, first_query, last_query);
  Steps steps;
  steps.begin = any.first / tile;
  steps.end = any.end > any.first ? (any.end + tile - 1) / tile : steps.begin;
  steps.unmasked_begin = Spec::window_left ? (all.first + tile - 1) / tile : steps.begin;
  steps.unmasked_end = all.end / tile;
  if (kElementwise || steps.unmasked_end <= steps.unmasked_begin) {
    steps.unmasked_begin = steps.unmasked_end = steps.begin;
  }
  return steps;
}

}  // namespace hipflash
