// Joins partial results of attention over disjoint sets of keys, for AMD and NVIDIA GPUs alike:
//   lse = log sum_s exp(lse_s),   out = sum_s exp(lse_s - lse) * out_s.
//
// Every thread makes one 16-byte piece of the parts' type in one row.
#include "gpu/tile/portable.h"

#include "common/merge_args.h"
#include "common/merge_rows.h"

namespace hipflash {

constexpr int kPiece = Spec::aligned ? 16 / bytes_of(Spec::part_element) : 1;

HF_DEVICE void store_result(void* row, int first, const float (&x)[kPiece]) {
  constexpr ElementType kOut = Spec::element;
  if constexpr (Spec::aligned && kOut == Spec::part_element) {
    store_piece((char*)row + first * bytes_of(kOut), piece_of<kOut>(x));
  } else {
    HF_UNROLL
    for (int e = 0; e < kPiece; e++) store_one<kOut>(row, first + e, x[e]);
  }
}

}  // namespace hipflash

HF_KERNEL_THREADS(hipflash::Spec::threads)
merge_partials(HF_ARGUMENTS(hipflash::MergeArgs) args) {
  using namespace hipflash;
  constexpr ElementType kPart = Spec::part_element;
  constexpr int kPieces = Spec::head_dim / kPiece;
  const u32 index = (u32)block_id() * (u32)Spec::threads + (u32)thread_id();
  const u32 number = index / (u32)kPieces;
  const int first = (int)(index - number * (u32)kPieces) * kPiece;
  const MergeRow row = merge_row(args, number);
  if (row.batch >= args.batch) return;

  const MergeWeights all = merge_weights(args, row);
  float x[kPiece];
  HF_UNROLL
  for (int e = 0; e < kPiece; e++) x[e] = 0.0f;
  for (int p = 0; p < args.parts; p++) {
    const MergePart& part = args.part[p];
    const long long at = offset_of(part.out_stride, row) + first;
    for (long long s = 0; s < part.count; s++) {
      const float lse = part_lse(part, row, s);
      if (lse == -kInfinity) continue;  // it saw nothing, whatever its output holds
      const float weight = hf_exp2((lse - all.reference) * kLog2e) * all.inverse;
      const long long from = at + s * part.out_step;
      if constexpr (Spec::aligned) {
        const Piece piece = load_piece((const char*)part.out + from * bytes_of(kPart));
        HF_UNROLL
        for (int e = 0; e < kPiece; e++) {
          x[e] = hf_fma(weight, piece_element<kPart>(piece, e), x[e]);
        }
      } else {
        x[0] = hf_fma(weight, load_element<kPart>(part.out, from), x[0]);
      }
    }
  }
  store_result((char*)args.out + offset_of(args.out_stride, row) * bytes_of(Spec::element), first,
               x);
  if (args.lse && first == 0) {
    store_scalar<float>(args.lse, offset_of(args.lse_stride, row), all.lse);
  }
}
