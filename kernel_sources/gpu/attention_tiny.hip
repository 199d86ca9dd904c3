// Attention of very many tiny problems: one to a few queries and at most a handful of keys each,
// for AMD and NVIDIA GPUs alike. Such a call is a pass over memory, so everything here is about
// that.
//
// A group of lanes computes one row (batch, query head, query): each lane holds 16 bytes of the
// query and of every key and value, so each byte is read once, in whole pieces, with all loads of a
// row in flight before the first is used. The number of keys is a compile-time fact: scores are a
// few registers, and the softmax is the textbook's.
#include "gpu/tile/portable.h"

#include "common/mask.h"
#include "common/score.h"
#include "gpu/tiles_tiny.h"

namespace hipflash {

constexpr ElementType kType = Spec::element;
constexpr int kKeys = Spec::keys;
constexpr int kRows = Spec::rows;  // of a lane group
constexpr int kPieceElements = 16 / bytes_of(kType);
constexpr int kKeyPieces = Spec::head_dim / kPieceElements;
constexpr int kValuePieces = Spec::value_head_dim / kPieceElements;
constexpr int kLanes = tiny::lanes(bytes_of(kType), Spec::head_dim, Spec::value_head_dim);
constexpr int kKeySteps = tiny::divide_up(kKeyPieces, kLanes);  // pieces of a row that a lane holds
constexpr int kValueSteps = tiny::divide_up(kValuePieces, kLanes);
constexpr int kGroups = Spec::threads / kLanes;

// Where the row is in the call.
struct RowPlace {
  int batch, head, query;
  bool exists;
};

HF_DEVICE RowPlace row_place(const AttentionArgs& args, long long row, long long rows) {
  RowPlace place;
  place.exists = row < rows;
  const u32 x = place.exists ? (u32)row : 0u;
  const u32 batch_head = args.seq_q == 1 ? x : x / (u32)args.seq_q;
  place.query = (int)(x - batch_head * (u32)args.seq_q);
  place.batch = (int)(batch_head / (u32)args.heads_q);
  place.head = (int)(batch_head - (u32)place.batch * (u32)args.heads_q);
  return place;
}

HF_DEVICE const char* row_of(const void* base, const RowStrides& stride, int batch, int head) {
  return (const char*)base + (batch * stride.batch + head * stride.head) * bytes_of(kType);
}

// Pieces lane, lane + kLanes, ... of a row; zeros past its end.
template <int kPieces, int kSteps>
HF_DEVICE void load_row(Piece (&pieces)[kSteps], const char* row, int lane) {
  HF_UNROLL
  for (int c = 0; c < kSteps; c++) {
    const int at = lane + c * kLanes;
    if (kPieces % kLanes == 0 || at < kPieces) {
      pieces[c] = load_piece(row + at * 16);
    } else {
      pieces[c] = Piece{{0, 0, 0, 0}};
    }
  }
}

struct RowData {
  Piece query[kKeySteps];
  Piece key[kKeys][kKeySteps];
  Piece value[kKeys][kValueSteps];
};

HF_DEVICE void load_data(RowData& data, const AttentionArgs& args, const RowPlace& at, int lane) {
  const int kv_head = args.heads_q == args.heads_kv
                          ? at.head
                          : (int)((u32)at.head / (u32)(args.heads_q / args.heads_kv));
  const char* q = row_of(args.q, args.q_stride, at.batch, at.head) +
                  at.query * args.q_stride.seq * bytes_of(kType);
  const char* k = row_of(args.k, args.k_stride, at.batch, kv_head);
  const char* v = row_of(args.v, args.v_stride, at.batch, kv_head);
  load_row<kKeyPieces>(data.query, q, lane);
  HF_UNROLL
  for (int j = 0; j < kKeys; j++) {
    load_row<kKeyPieces>(data.key[j], k + j * args.k_stride.seq * bytes_of(kType), lane);
  }
  HF_UNROLL
  for (int j = 0; j < kKeys; j++) {
    load_row<kValuePieces>(data.value[j], v + j * args.v_stride.seq * bytes_of(kType), lane);
  }
}

// This lane's part of q . k.
HF_DEVICE float partial_product(const RowData& data, int j) {
  float sum = 0.0f;
  HF_UNROLL
  for (int c = 0; c < kKeySteps; c++) {
    HF_UNROLL
    for (int e = 0; e < kPieceElements; e++) {
      sum = hf_fma(piece_element<kType>(data.query[c], e), piece_element<kType>(data.key[j][c], e),
                   sum);
    }
  }
  return sum;
}

HF_DEVICE float bias_of(const AttentionArgs& args, long long index) {
  if (args.bias_type == ElementType::f32) return load_scalar<float>(args.bias, index);
  const u16 x = load_scalar<u16>(args.bias, index);
  return args.bias_type == ElementType::f16 ? half_element<ElementType::f16>(x)
                                            : half_element<ElementType::bf16>(x);
}

// The score of key j from the raw product; -inf if the row does not see the key.
HF_DEVICE float score_of(const AttentionArgs& args, const RowPlace& at, const KeyRange& range,
                         float slope, int j, float raw) {
  const float distance = (float)(at.query + args.alibi_diagonal - j);
  float score = modify_score(args, raw, slope, distance);
  bool seen = sees(range, j);
  if constexpr (Spec::bias) {
    if (args.bias && seen) {
      const float b =
          bias_of(args, at.batch * args.bias_stride.batch + at.head * args.bias_stride.head +
                            at.query * args.bias_stride.query + j * args.bias_stride.key);
      seen = b != -kInfinity;
      score += b;
    }
  }
  if constexpr (Spec::mask) {
    if (args.mask && seen) {
      seen = load_scalar<unsigned char>(
                 args.mask, at.batch * args.mask_stride.batch + at.head * args.mask_stride.head +
                                at.query * args.mask_stride.query + j * args.mask_stride.key) != 0;
    }
  }
  return seen ? score : -kInfinity;
}

HF_DEVICE void compute_row(const AttentionArgs& args, const RowData& data, const RowPlace& at,
                           int lane) {
  float score[kKeys];
  HF_UNROLL
  for (int j = 0; j < kKeys; j++) score[j] = partial_product(data, j);
  HF_UNROLL
  for (int x = kLanes / 2; x > 0; x /= 2) {
    HF_UNROLL
    for (int j = 0; j < kKeys; j++) score[j] += lane_xor(score[j], x);
  }
  if (!at.exists) return;

  const KeyRange range = visible_keys(args, at.query);
  const float slope = alibi_slope(args, at.batch, at.head);
  float largest = -kInfinity, sink = -kInfinity;
  if constexpr (Spec::sinks) {
    if (args.sinks) largest = sink = load_scalar<float>(args.sinks, at.head);
  }
  HF_UNROLL
  for (int j = 0; j < kKeys; j++) {
    score[j] = score_of(args, at, range, slope, j, score[j]);
    largest = hf_max(largest, score[j]);
  }
  const float reference = largest == -kInfinity ? 0.0f : largest;
  float weight[kKeys], sum = 0.0f;
  HF_UNROLL
  for (int j = 0; j < kKeys; j++) {
    weight[j] = hf_exp2((score[j] - reference) * kLog2e);
    sum += weight[j];
  }
  if constexpr (Spec::sinks) sum += hf_exp2((sink - reference) * kLog2e);
  const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;

  char* const out = const_cast<char*>(row_of(args.out, args.out_stride, at.batch, at.head)) +
                    at.query * args.out_stride.seq * bytes_of(kType);
  HF_UNROLL
  for (int c = 0; c < kValueSteps; c++) {
    float x[kPieceElements];
    HF_UNROLL
    for (int e = 0; e < kPieceElements; e++) x[e] = 0.0f;
    HF_UNROLL
    for (int j = 0; j < kKeys; j++) {
      const float p = weight[j] * inverse;
      const bool unseen = score[j] == -kInfinity;  // its value may be anything, also NaN
      HF_UNROLL
      for (int e = 0; e < kPieceElements; e++) {
        const float value = piece_element<kType>(data.value[j][c], e);
        x[e] = hf_fma(p, unseen ? 0.0f : value, x[e]);
      }
    }
    const int piece = lane + c * kLanes;
    if (kValuePieces % kLanes == 0 || piece < kValuePieces) {
      store_piece(out + piece * 16, piece_of<kType>(x));
    }
  }
  if (Spec::lse && args.lse && lane == 0) {
    store_scalar<float>(args.lse,
                        at.batch * args.lse_stride.batch + at.head * args.lse_stride.head +
                            at.query * args.lse_stride.seq,
                        sum == 0.0f ? -kInfinity : reference + hf_log2(sum) * kLn2);
  }
}

}  // namespace hipflash

HF_KERNEL_THREADS(hipflash::Spec::threads)
attention_forward(HF_ARGUMENTS(hipflash::AttentionArgs) args) {
  using namespace hipflash;
  const int lane = thread_id() % kLanes;
  const long long rows = (long long)args.batch * args.heads_q * args.seq_q;
  const long long first = (long long)block_id() * (kGroups * kRows) + thread_id() / kLanes;
  RowPlace place[kRows];
  RowData data[kRows];
  HF_UNROLL
  for (int r = 0; r < kRows; r++) {
    place[r] = row_place(args, first + r * kGroups, rows);
    load_data(data[r], args, place[r], lane);
  }
  HF_UNROLL
  for (int r = 0; r < kRows; r++) compute_row(args, data[r], place[r], lane);
}
