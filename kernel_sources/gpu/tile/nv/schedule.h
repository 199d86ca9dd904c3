// Which piece of work a block does.
#pragma once

namespace hipflash {

struct Work {
  int batch, head, kv_head;  // `head` is the first query head of the piece
  int row;                   // first row of the query tile
  int chunk, split;          // of the value columns; of the keys
};

// Pieces in a group of heads, see nv_heads_together(). Rows of different lengths want a piece or
// more per resident block in a group to even out; equal rows and short sequences are better off
// with few heads at a time, whose keys then arrive from memory evenly over time.
HF_DEVICE int pieces_together(int tiles, int blocks_per_sm) {
  return !Spec::window_right ? 32 : (tiles >= 6 ? 160 : 64) * blocks_per_sm;
}

// Groups of heads whose keys and values fit the L2 follow one another; in a group the heads
// alternate fastest, and the longest rows come first where rows have different lengths. `chunks` of
// the value columns and the splits of the keys are blocks of their own.
template <int kRows>
HF_DEVICE Work work_of(const AttentionArgs& args, int index, int together, int chunks) {
  const int group = args.heads_q / args.heads_kv;
  const int heads = args.heads_q;
  const int tiles = (args.seq_q + kRows - 1) / kRows;
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
  work.head = h;
  work.kv_head = h / group;
  work.row = tile * kRows;
  work.chunk = part % chunks;
  work.split = part / chunks;
  return work;
}

// The same of rows that are packed, where few tiles leave nothing to order: the splits alternate
// fastest, then the heads.
HF_DEVICE Work packed_work_of(const AttentionArgs& args, int rows_of_tile, unsigned index,
                              int chunks) {
  const unsigned group = (unsigned)args.heads_q / (unsigned)args.heads_kv;
  const unsigned tiles = ceil_div(args.seq_q * (int)group, rows_of_tile);
  const unsigned parts = (Spec::split_keys ? max(args.splits, 1) : 1) * chunks;
  const unsigned tile_head = index / parts, part = index % parts;
  const unsigned batch_head = tiles == 1 ? tile_head : tile_head / tiles;
  const unsigned batch = batch_head / (unsigned)args.heads_kv;
  Work work;
  work.batch = (int)batch;
  work.kv_head = (int)(batch_head - batch * args.heads_kv);
  work.head = work.kv_head * (int)group;
  work.row = (int)(tile_head - batch_head * tiles) * rows_of_tile;
  work.chunk = chunks == 1 ? 0 : (int)(part % chunks);
  work.split = chunks == 1 ? (int)part : (int)(part / chunks);
  return work;
}

// Keeps a piece in the first 20 of 32 bytes of shared memory, and reads it back after a barrier.
HF_DEVICE void keep_work(unsigned at, const Work& w) {
  store_words(at, w.batch, w.head, w.kv_head, w.row);
  store_word(at + 16, w.chunk + 8 * w.split);
}
HF_DEVICE Work kept_work(unsigned at) {
  Work w;
  int parts;
  load_words(w.batch, w.head, w.kv_head, w.row, at);
  load_word(parts, at + 16);
  w.chunk = parts % 8;
  w.split = parts / 8;
  return w;
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

// Leaves of the steps those of one of several equal parts.
HF_DEVICE void take_part(Steps& steps, unsigned part, unsigned parts) {
  const unsigned all = steps.end - steps.begin;
  const int share = (int)(all / parts), more = (int)(all % parts);
  steps.begin += (int)part * share + min((int)part, more);
  steps.end = steps.begin + share + ((int)part < more ? 1 : 0);
}

// Of the steps those that `part` does when parts take turns, counted for it alone: its step s is
// step s * parts + part.
HF_DEVICE Steps steps_of_part(const Steps& steps, unsigned part, unsigned parts) {
  const auto counted = [&](int step) { return (int)((step + parts - 1 - part) / parts); };
  return {counted(steps.begin), counted(steps.end), counted(steps.unmasked_begin),
          counted(steps.unmasked_end)};
}

// Leaves of the steps the share of one split of the keys.
HF_DEVICE void take_share(Steps& steps, const AttentionArgs& args, int split, int tile) {
  if (args.splits > 1) {
    if (args.keys_per_split) {
      const int share = args.keys_per_split / tile;
      steps.begin = max(steps.begin, split * share);
      steps.end = min(steps.end, (split + 1) * share);
    } else {
      take_part(steps, split, args.splits);
    }
  }
}

}  // namespace hipflash
