// Joins partial results of attention over disjoint sets of keys:
//   lse = log sum_s exp(lse_s),   out = sum_s exp(lse_s - lse) * out_s.
//
// An item is a few rows.
#include "common/logarithms.h"
#include "cpu/simd.h"

namespace hipflash {

HF_DEVICE float hf_exp2(float x) {
  return exp2(broadcast(x))[0];
}
HF_DEVICE float hf_log2(float x) {
  return natural_log(x) * kLog2e;
}

}  // namespace hipflash

#include "common/merge_rows.h"

namespace hipflash {

using Element = typename ElementOf<Spec::element>::Type;
using PartElement = typename ElementOf<Spec::part_element>::Type;

constexpr int kMostDim = 512;

HF_DEVICE void merge_one(const MergeArgs& args, const MergeRow& row) {
  const MergeWeights all = merge_weights(args, row);
  float total[kMostDim + kLanes];  // vectors write whole
  for (int i = 0; i < args.dim; i += kLanes) store(total + i, broadcast(0.0f));
  for (int p = 0; p < args.parts; ++p) {
    const MergePart& part = args.part[p];
    for (long long s = 0; s < part.count; ++s) {
      const float lse = part_lse(part, row, s);
      if (lse == -kInfinity) continue;  // it saw nothing, whatever its output holds
      const Vec weight = broadcast(hf_exp2((lse - all.reference) * kLog2e) * all.inverse);
      const PartElement* from = static_cast<const PartElement*>(part.out) +
                                offset_of(part.out_stride, row) + s * part.out_step;
      for (int i = 0; i < args.dim; i += kLanes) {
        const int n = args.dim - i;
        const Vec x = n >= kLanes ? load(from + i) : load_first(from + i, n);
        store(total + i, fma(x, weight, load(total + i)));
      }
    }
  }
  Element* out = static_cast<Element*>(args.out) + offset_of(args.out_stride, row);
  for (int i = 0; i < args.dim; i += kLanes) {
    const int n = args.dim - i;
    if (n >= kLanes) {
      store(out + i, load(total + i));
    } else {
      store_first(out + i, load(total + i), n);
    }
  }
  if (args.lse) args.lse[offset_of(args.lse_stride, row)] = all.lse;
}

}  // namespace hipflash

extern "C" __attribute__((visibility("default"))) void merge_partials(
    const hipflash::MergeArgs* args, long long item) {
  using namespace hipflash;
  for (int r = 0; r < kMergeRowsPerItem; ++r) {
    const MergeRow row = merge_row(*args, static_cast<unsigned>(item * kMergeRowsPerItem + r));
    if (row.batch < args->batch) merge_one(*args, row);
  }
}
