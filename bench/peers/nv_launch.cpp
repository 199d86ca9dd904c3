// The launch facts of tiles_nv.h for nv_text.py and nv_kernels.py, so that what these compile and
// launch is what the header says.
#include "common/attention_args.h"
#include "gpu/tiles_nv.h"

using namespace hipflash;

static long long blocks(const AttentionArgs& args, long long rows, int tile_rows, int heads) {
  return (rows + tile_rows - 1) / tile_rows * args.batch * heads *
         (args.splits > 1 ? args.splits : 1);
}

extern "C" {
long long args_size() {
  return sizeof(AttentionArgs);
}
int merge_threads() {
  return nv_merge_threads();
}
long long merge_blocks(const AttentionArgs* args) {
  return nv_merge_blocks(*args);
}
int shared_bytes_sm80(const Sm80Tile* t, int d, int dv) {
  return sm80_shared_bytes(*t, d, dv, false);
}
long long blocks_sm80(const Sm80Tile* t, const AttentionArgs* args) {
  const int group = t->pack_heads ? args->heads_q / args->heads_kv : 1;
  return blocks(*args, args->seq_q * static_cast<long long>(group), sm80_tile_rows(*t),
                args->heads_q / group * nv_value_chunks(args->value_head_dim));
}
void default_sm80(int d, int dv, int modified, int left_edge, int seq_k, int shared_limit,
                  Sm80Tile* t) {
  *t = sm80_default(d, dv, modified != 0, left_edge != 0, seq_k, shared_limit);
}
int shared_bytes_nvf32(const NvF32Tile* t, int d, int dv) {
  return nvf32_shared_bytes(*t, d, dv);
}
long long blocks_nvf32(const NvF32Tile* t, const AttentionArgs* args) {
  return blocks(*args, args->seq_q, t->waves * 32,
                args->heads_q * nvf32_value_chunks(args->value_head_dim));
}
void default_nvf32(int d, int dv, int modified, int shared_limit, NvF32Tile* t) {
  *t = nvf32_default(d, dv, modified != 0, shared_limit);
}
int shared_bytes_nvf16x3(const NvF16x3Tile* t, int d, int dv) {
  return nvf16x3_shared_bytes(*t, d, dv);
}
long long blocks_nvf16x3(const NvF16x3Tile* t, const AttentionArgs* args) {
  return blocks(*args, args->seq_q, nvf16x3_tile_rows(*t),
                args->heads_q * nvf16x3_value_chunks(t->row_tiles, args->value_head_dim));
}
void default_nvf16x3(int d, int dv, int crowded, int high, int shared_limit, NvF16x3Tile* t) {
  *t = nvf16x3_default(d, dv, crowded != 0, high != 0, shared_limit);
}
int shared_bytes_sm90(const Sm90Tile* t, int d, int dv) {
  return sm90_shared_bytes(*t, d, dv);
}
long long pieces_sm90(const Sm90Tile* t, const AttentionArgs* args) {
  return sm90_pieces(*t, *args);
}
void default_sm90(int d, int dv, int ragged, int modified, int seq_k, Sm90Tile* t) {
  *t = sm90_default(d, dv, ragged != 0, modified != 0, seq_k);
}
void maps_sm90(const Sm90Tile* t, const AttentionArgs* args, Sm90Map* maps) {
  maps[0] = sm90_map_q(*t, *args);
  maps[1] = sm90_map_k(*t, *args);
  maps[2] = sm90_map_v(*t, *args);
}
int takes_sm90(const AttentionArgs* args, int element, int bias, int mask) {
  return sm90_takes(*args, static_cast<ElementType>(element), bias != 0, mask != 0);
}
}
