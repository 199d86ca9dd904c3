// Which keys a query sees.
//
// Causal masks and windows make the visible keys of a query one interval, and both of its ends grow
// with the query. So a tile is classified from its first and last query alone.
#pragma once

namespace hipflash {

// Keys first <= j < end. Empty when first >= end.
struct KeyRange {
  int first, end;
};

HF_DEVICE int clamp_int(int x, int low, int high) {
  return x < low ? low : x > high ? high : x;
}

// The keys that query i sees, whatever an elementwise mask hides besides.
HF_DEVICE KeyRange visible_keys(const AttentionArgs& args, int i) {
  KeyRange range = {0, args.seq_k};
  if constexpr (Spec::window_left) {
    range.first = clamp_int(i + args.diagonal - args.window_left, 0, args.seq_k);
  }
  if constexpr (Spec::window_right) {
    range.end = clamp_int(i + args.diagonal + args.window_right + 1, 0, args.seq_k);
  }
  return range;
}

// The keys that some query of first..last sees: outside of it a tile of these queries has no work.
HF_DEVICE KeyRange keys_seen_by_any(const AttentionArgs& args, int first, int last) {
  return {visible_keys(args, first).first, visible_keys(args, last).end};
}

// The keys that every query of first..last sees: inside of it a tile needs no mask.
HF_DEVICE KeyRange keys_seen_by_all(const AttentionArgs& args, int first, int last) {
  return {visible_keys(args, last).first, visible_keys(args, first).end};
}

HF_DEVICE bool sees(KeyRange range, int j) {
  return j >= range.first && j < range.end;
}

}  // namespace hipflash
