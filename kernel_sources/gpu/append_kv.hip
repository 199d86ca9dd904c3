// Appends new keys and values to a cache, rotating keys and queries on the way (RoPE), for AMD and
// NVIDIA GPUs alike.
//
// Every thread moves one unit: 16 bytes of a row, or two such pieces where the rotation pairs
// elements that lie half a row apart; both are read before either is written, so queries may be
// rotated in place. What is not rotated is copied bit for bit.
#include "gpu/tile/portable.h"

#include "common/append_place.h"

namespace hipflash {

constexpr ElementType kType = Spec::element;
constexpr int kBytes = bytes_of(kType);
constexpr int kRotary = Spec::rotary_dim;
constexpr bool kHalves = kRotary > 0 && !Spec::rotary_interleaved;
// Elements of a unit's piece. Rows that start anywhere go element by element, pair by pair.
constexpr int kPiece = Spec::aligned ? 16 / kBytes : kHalves ? 1 : 2;

constexpr int pieces_of(int dim) {
  return (dim + kPiece - 1) / kPiece;
}
// With halves, the first units of a key take two pieces.
constexpr int kPairs = kHalves ? kRotary / 2 / kPiece : 0;
constexpr int kKeyUnits = pieces_of(Spec::head_dim) - kPairs;
constexpr int kValueUnits = pieces_of(Spec::value_head_dim);
constexpr int kUnits = kKeyUnits > kValueUnits ? kKeyUnits : kValueUnits;

HF_DEVICE void copy_elements(char* to, const char* from, int first, int dim) {
  if constexpr (Spec::aligned) {
    store_piece(to + first * kBytes, load_piece(from + first * kBytes));
  } else {
    HF_UNROLL
    for (int e = 0; e < kPiece; e++) {
      if (first + e >= dim) continue;
      if constexpr (kBytes == 4) {
        store_scalar<u32>(to, first + e, load_scalar<u32>(from, first + e));
      } else {
        store_scalar<u16>(to, first + e, load_scalar<u16>(from, first + e));
      }
    }
  }
}

HF_DEVICE void load_elements(float (&x)[kPiece], const char* from, int first) {
  if constexpr (Spec::aligned) {
    const Piece piece = load_piece(from + first * kBytes);
    HF_UNROLL
    for (int e = 0; e < kPiece; e++) x[e] = piece_element<kType>(piece, e);
  } else {
    HF_UNROLL
    for (int e = 0; e < kPiece; e++) x[e] = load_element<kType>(from, first + e);
  }
}
HF_DEVICE void store_elements(char* to, int first, const float (&x)[kPiece]) {
  if constexpr (Spec::aligned) {
    store_piece(to + first * kBytes, piece_of<kType>(x));
  } else {
    HF_UNROLL
    for (int e = 0; e < kPiece; e++) store_one<kType>(to, first + e, x[e]);
  }
}

HF_DEVICE void rotate(float& x, float& y, const AppendArgs& args, long long at) {
  const float c = load_element<Spec::table_type>(args.cosine, at);
  const float s = load_element<Spec::table_type>(args.sine, at);
  const float turned = hf_fma(x, c, -(y * s));
  y = hf_fma(x, s, y * c);
  x = turned;
}

// Unit `unit` of a key or query at a position.
HF_DEVICE void rotated_unit(const AppendArgs& args, char* to, const char* from, int position,
                            int unit) {
  const long long table = position * args.table_stride;
  if (kHalves && unit < kPairs) {
    const int first = unit * kPiece;
    float x[kPiece], y[kPiece];
    load_elements(x, from, first);
    load_elements(y, from, kRotary / 2 + first);
    HF_UNROLL
    for (int e = 0; e < kPiece; e++) rotate(x[e], y[e], args, table + first + e);
    store_elements(to, first, x);
    store_elements(to, kRotary / 2 + first, y);
    return;
  }
  const int first = (unit + kPairs) * kPiece;
  if constexpr (!kHalves && kRotary > 0) {
    if (first < kRotary) {
      float x[kPiece];
      load_elements(x, from, first);
      HF_UNROLL
      for (int e = 0; e < kPiece; e += 2) rotate(x[e], x[e + 1], args, table + (first + e) / 2);
      store_elements(to, first, x);
      return;
    }
  }
  copy_elements(to, from, first, Spec::head_dim);
}

HF_DEVICE const char* new_row(const void* base, const RowStrides& stride, int b, long long i,
                              int head) {
  return static_cast<const char*>(base) +
         (b * stride.batch + i * stride.seq + head * stride.head) * kBytes;
}
HF_DEVICE char* cache_row(void* base, const RowStrides& stride, const AppendPlace& place,
                          int head) {
  return static_cast<char*>(base) +
         (place.batch * stride.batch + place.row * stride.seq + head * stride.head) * kBytes;
}

// A query whose position is unknown.
HF_DEVICE void spoil_unit(char* to, int unit) {
  float nan[kPiece];
  HF_UNROLL
  for (int e = 0; e < kPiece; e++) nan[e] = from_bits(0x7fc00000u);
  if (kHalves && unit < kPairs) {
    store_elements(to, unit * kPiece, nan);
    store_elements(to, kRotary / 2 + unit * kPiece, nan);
    return;
  }
  const int first = (unit + kPairs) * kPiece;
  if (Spec::aligned || first + kPiece <= Spec::head_dim) {
    store_elements(to, first, nan);
  } else {
    store_one<kType>(to, first, nan[0]);
  }
}

}  // namespace hipflash

HF_KERNEL_THREADS(hipflash::Spec::threads)
append_kv(HF_ARGUMENTS(hipflash::AppendArgs) args) {
  using namespace hipflash;
  const u32 index = (u32)block_id() * (u32)Spec::threads + (u32)thread_id();
  const auto report = [&](int fault) {
    if (fault != kNoFault && args.fault) *args.fault = fault;
  };
  if (index < (u32)args.batch) {
    const AppendSequence one = append_sequence(args, (int)index);
    report(one.fault);
    if (args.new_lengths) args.new_lengths[index] = one.length + (one.fault ? 0 : one.rows);
  }

  const u32 heads = 2u * (u32)args.heads_kv + (args.q ? (u32)args.heads_q : 0u);
  const u32 unit_row = index / (u32)kUnits;
  const int unit = (int)(index - unit_row * (u32)kUnits);
  const u32 row = unit_row / heads;
  int head = (int)(unit_row - row * heads);
  const u32 rows = args.cu_seqlens ? (u32)args.rows : (u32)args.batch * (u32)args.rows;
  if (row >= rows) return;

  const int b = sequence_of_row(args, row);
  const AppendSequence one = append_sequence(args, b);
  const long long i = row - one.first;
  if (i < 0 || i >= one.rows) return;  // a row between sequences
  const long long from = args.cu_seqlens ? (long long)row : i;
  const int from_batch = args.cu_seqlens ? 0 : b;
  const int position = (int)((u32)one.length + (u32)i);  // a wrong length may be any number

  if (head >= 2 * args.heads_kv) {
    head -= 2 * args.heads_kv;
    if (unit >= kKeyUnits) return;
    char* const to =
        const_cast<char*>(new_row(args.q_out, args.q_out_stride, from_batch, from, head));
    if (one.fault != kNoFault) {
      spoil_unit(to, unit);
    } else {
      rotated_unit(args, to, new_row(args.q, args.q_stride, from_batch, from, head), position,
                   unit);
    }
    return;
  }
  const AppendPlace place = append_place(args, one, position);
  report(place.fault);
  if (place.fault != kNoFault) return;
  if (head < args.heads_kv) {
    if (unit >= kKeyUnits) return;
    rotated_unit(args, cache_row(args.k, args.k_stride, place, head),
                 new_row(args.k_new, args.k_new_stride, from_batch, from, head), position, unit);
  } else {
    head -= args.heads_kv;
    if (unit >= kValueUnits) return;
    copy_elements(cache_row(args.v, args.v_stride, place, head),
                  new_row(args.v_new, args.v_new_stride, from_batch, from, head), unit * kPiece,
                  Spec::value_head_dim);
  }
}
