#include "plan/row_tiles.h"

#include <algorithm>

namespace hipflash::plan {
namespace {

constexpr int kFewRows = 64;      // of a sequence: a call that decodes
constexpr int kMostSplits = 128;  // more are not worth their merge
constexpr int kTilesOfSplit = 2;  // at least

constexpr long long divide_up(long long n, long long step) {
  return (n + step - 1) / step;
}

// The share of tile rows that hold something.
double filled(long long rows, int tile_rows) {
  return static_cast<double>(rows) / static_cast<double>(divide_up(rows, tile_rows) * tile_rows);
}

}  // namespace

int rows_per_query(const AttentionArgs& args, bool pack_heads) noexcept {
  return pack_heads && args.heads_kv > 0 ? args.heads_q / args.heads_kv : 1;
}

long long packed_rows(const AttentionArgs& args) noexcept {
  return static_cast<long long>(args.seq_q) * rows_per_query(args, true);
}

int queries_of_choice(const Problem& problem) noexcept {
  if (problem.batch_invariant && problem.ragged.packed_q) return 0;
  return static_cast<int>(problem.seq_q);
}

bool packs_heads(const Problem& problem, int tile_rows) noexcept {
  const long long queries = queries_of_choice(problem);
  if (queries == 0 || problem.heads_kv == 0 || problem.heads_q == problem.heads_kv) return false;
  const long long rows = queries * (problem.heads_q / problem.heads_kv);
  return filled(queries, tile_rows) < 0.9 * filled(rows, tile_rows);
}

long long row_tiles(const Problem& problem, const AttentionArgs& args, int tile_rows,
                    bool pack_heads) noexcept {
  const long long rows = rows_per_query(args, pack_heads);
  if (problem.ragged.packed_q) {  // packed_query_tiles() in common/sequence.h
    return args.total_q * rows / tile_rows + args.batch;
  }
  return divide_up(args.seq_q * rows, tile_rows) * args.batch;
}

int key_splits(long long blocks, long long slots, int seq_k, int tile_keys, double fill) noexcept {
  if (blocks <= 0 || blocks * 10 >= slots * 8) return 1;
  const long long most =
      std::min<long long>(kMostSplits, seq_k / (static_cast<long long>(kTilesOfSplit) * tile_keys));
  if (seq_k <= 4 * tile_keys || most < 2) return 1;
  const auto efficiency = [&](long long splits) {
    const long long all = blocks * splits;
    return static_cast<double>(all) / static_cast<double>(divide_up(all, slots) * slots);
  };
  double best = 0.0;
  for (long long s = 1; s <= most; s++) best = std::max(best, efficiency(s));
  int splits = 1;
  while (efficiency(splits) < fill * best) splits++;
  return splits;
}

InvariantSplit invariant_split(const Problem& problem, const AttentionArgs& args) noexcept {
  const long long queries = queries_of_choice(problem);
  if (queries == 0 || packed_rows(args) > kFewRows) return {1, 0};
  // At least two, so that every sequence takes the same path to its result.
  const long long parts = std::max(2LL, divide_up(args.seq_k, kInvariantKeys));
  return {static_cast<int>(parts), kInvariantKeys};
}

}  // namespace hipflash::plan
