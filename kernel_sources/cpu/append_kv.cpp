// Appends new keys and values to a cache, rotating keys and queries on the way (RoPE).
//
// An item is a few new rows. A row's angles are read once for all of its heads. Lengths and tables
// were checked before the call; what cannot be right writes nothing here either.
#include "cpu/simd.h"

#include "common/append_place.h"

namespace hipflash {

using Element = typename ElementOf<Spec::element>::Type;
using Angle = typename ElementOf<Spec::table_type>::Type;

constexpr int kMostDim = 512;

template <class T>
HF_DEVICE void read_floats(float* to, const T* from, int n) {
  for (int i = 0; i < n; i += kLanes) {
    store(to + i, n - i >= kLanes ? load(from + i) : load_first(from + i, n - i));
  }
}
HF_DEVICE void write_elements(Element* to, const float* from, int n) {
  for (int i = 0; i < n; i += kLanes) {
    if (n - i >= kLanes) {
      store(to + i, load(from + i));
    } else {
      store_first(to + i, load(from + i), n - i);
    }
  }
}

// Cosines and sines of one position; vectors write whole, so there is room behind the last.
struct Angles {
  float cosine[kMostDim / 2 + kLanes], sine[kMostDim / 2 + kLanes];
};

HF_DEVICE void rotate_row(Element* to, const Element* from, const Angles& angles,
                          const AppendArgs& args) {
  const int pairs = args.rotary_dim / 2;
  const int step = args.rotary_interleaved ? 2 : 1;         // between the x of pairs
  const int partner = args.rotary_interleaved ? 1 : pairs;  // from x to y
  float row[kMostDim + kLanes];
  read_floats(row, from, args.rotary_dim);
  for (int i = 0; i < pairs; ++i) {
    float& x = row[i * step];
    float& y = row[i * step + partner];
    const float turned = x * angles.cosine[i] - y * angles.sine[i];
    y = x * angles.sine[i] + y * angles.cosine[i];
    x = turned;
  }
  write_elements(to, row, args.rotary_dim);
  if (to != from) {
    const unsigned long rest = (args.head_dim - args.rotary_dim) * sizeof(Element);
    __builtin_memcpy(to + args.rotary_dim, from + args.rotary_dim, rest);
  }
}

template <class T>
HF_DEVICE T* element_row(T* base, const RowStrides& stride, long long batch, long long row,
                         int head) {
  return base + batch * stride.batch + row * stride.seq + head * stride.head;
}

HF_DEVICE void append_row(const AppendArgs& args, long long row) {
  const int b = sequence_of_row(args, row);
  const AppendSequence one = append_sequence(args, b);
  const long long i = row - one.first;
  if (one.fault != kNoFault || i < 0 || i >= one.rows) return;
  const int position = one.length + static_cast<int>(i);
  const AppendPlace place = append_place(args, one, position);
  if (place.fault != kNoFault) return;
  const long long from = args.cu_seqlens ? row : i;
  const int from_batch = args.cu_seqlens ? 0 : b;

  Angles angles;
  if (args.rotary_dim > 0) {
    const long long at = position * args.table_stride;
    read_floats(angles.cosine, static_cast<const Angle*>(args.cosine) + at, args.rotary_dim / 2);
    read_floats(angles.sine, static_cast<const Angle*>(args.sine) + at, args.rotary_dim / 2);
  }
  for (int h = 0; h < args.heads_kv; ++h) {
    const Element* k = element_row(static_cast<const Element*>(args.k_new), args.k_new_stride,
                                   from_batch, from, h);
    Element* to =
        element_row(static_cast<Element*>(args.k), args.k_stride, place.batch, place.row, h);
    if (args.rotary_dim > 0) {
      rotate_row(to, k, angles, args);
    } else {
      __builtin_memcpy(to, k, args.head_dim * sizeof(Element));
    }
    __builtin_memcpy(
        element_row(static_cast<Element*>(args.v), args.v_stride, place.batch, place.row, h),
        element_row(static_cast<const Element*>(args.v_new), args.v_new_stride, from_batch, from,
                    h),
        args.value_head_dim * sizeof(Element));
  }
  if (!args.q) return;
  for (int h = 0; h < args.heads_q; ++h) {
    rotate_row(
        element_row(static_cast<Element*>(args.q_out), args.q_out_stride, from_batch, from, h),
        element_row(static_cast<const Element*>(args.q), args.q_stride, from_batch, from, h),
        angles, args);
  }
}

}  // namespace hipflash

extern "C" __attribute__((visibility("default"))) void append_kv(const hipflash::AppendArgs* args,
                                                                 long long item) {
  using namespace hipflash;
  const long long rows =
      args->cu_seqlens ? args->rows : static_cast<long long>(args->batch) * args->rows;
  const long long first = item * kAppendRowsPerItem;
  for (long long row = first; row < first + kAppendRowsPerItem && row < rows; ++row) {
    append_row(*args, row);
  }
  if (args->new_lengths && item == 0) {
    for (int b = 0; b < args->batch; ++b) {
      const AppendSequence one = append_sequence(*args, b);
      args->new_lengths[b] = one.length + one.rows;
    }
  }
}
