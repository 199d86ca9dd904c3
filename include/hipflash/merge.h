/// \file
/// Joining results of attention over disjoint sets of keys: a shared prefix and a sequence's own
/// keys, parts of a cache on several devices, rounds of ring attention.
///
/// ```
/// hipflash::PartialResult prefix{prefix_out, {prefix_lse, {}}}, own{own_out, {own_lse, {}}};
/// hipflash::merge_partials(ctx, {prefix, own}, out, {lse, {}}, stream);
/// ```
#pragma once

#include <cstdint>
#include <vector>

#include "hipflash/attention.h"
#include "hipflash/context.h"
#include "hipflash/tensor.h"

namespace hipflash {

/// An output of attention with its log-sum-exp, or several of them at equal distances in memory.
struct PartialResult {
  Tensor out;                 ///< f32, or the type of the result.
  LseOutput lse;              ///< Read only; strides all 0: dense (batch, head, query).
  std::int64_t count = 1;     ///< Results.
  std::int64_t out_step = 0;  ///< Elements from one `out` to the next; unused if count is 1.
  std::int64_t lse_step = 0;  ///< Likewise of `lse`.
};

/// lse = ln Σ_s exp(lse_s) and out = Σ_s exp(lse_s − lse) · out_s, computed in f32.
///
/// All have the shape of `out`; up to 16 entries of `parts`, of one dtype, each of any count. A
/// part whose LSE is −∞ saw nothing and does not count, whatever its output holds; if all are such,
/// the result is 0 with LSE −∞. `out` may be one of the parts if its strides and type are the same;
/// else what is written must lie apart from what is read.
///
/// The first call of its kind may compile, so while `stream` records a graph it is an error: make
/// one such call before.
///
/// \throws Error InvalidArgument naming the argument and the rule; CompileFailed, LaunchFailed.
HIPFLASH_EXPORT void merge_partials(Context& ctx, const std::vector<PartialResult>& parts,
                                    const Tensor& out, const LseOutput& lse = {},
                                    Stream stream = {});

/// Which kernel merge_partials() takes and where it is, without compiling or running anything.
HIPFLASH_EXPORT Explanation explain_merge_partials(Context& ctx,
                                                   const std::vector<PartialResult>& parts,
                                                   const Tensor& out, const LseOutput& lse = {});

}  // namespace hipflash
