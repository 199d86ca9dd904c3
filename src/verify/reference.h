// Attention in float64, the plain computation in a tensor's own type, and the rule that says
// whether a result is close enough to them. This is the specification of
// include/hipflash/attention.h in executable form: tests, HIPFLASH_VERIFY and `hipflash run
// --verify` hold every kernel against it.
//
// All pointers are host memory. The rule follows the practice of the field's test suites: an
// implementation may err twice as much (three times with a softcap) as the plain computation in the
// same type, plus a little for the rounding of the result itself:
//
//   max|out − ref| ≤ factor · max|low − ref| + 2 · max|(ref + 0.3 − 0.3) − ref|
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hipflash/problem.h"

namespace hipflash::verify {

struct ReferenceOptions {
  // At most so many queries of each sequence are looked at, see sample_queries(); 0: all.
  std::int64_t most_queries = 0;
  std::uint64_t sample_seed = 0;  // which ones
  int threads = 0;                // 0: one per available CPU
};

// `count` of `seq_q` queries in order, the first and the last among them; all of them if `count` is
// not smaller than `seq_q` (then the list is 0, 1, 2, ...). With seed 0 they are spread evenly; any
// other seed takes one from each of as many equal stretches, at random, so that over many calls
// every row of a tile has its turn.
std::vector<std::int64_t> sample_queries(std::int64_t seq_q, std::int64_t count,
                                         std::uint64_t seed = 0);

// The queries of a (dense) problem that the options ask for.
std::vector<std::int64_t> queries_of(const Problem& problem, const ReferenceOptions& options);

// Results are dense: out is (batch, query, head, value_head_dim) and lse (batch, head, query),
// where query counts within the queries asked for. Those of a ragged problem follow one another
// sequence by sequence, each with its own number of queries. lse is always computed.
struct Reference {
  std::vector<double> out;
  std::vector<double> lse;
};

// Everything in float64. `tensors.out` and `tensors.lse` are not touched. A sequence whose offsets,
// length, slot or pages cannot be right is NaN.
// Throws Error NotSupported naming the feature for dropout and user functions.
Reference attention_f64(const Problem& problem, const TensorPointers& tensors,
                        const ReferenceOptions& options = {});

// The plain computation in the problem's dtype: scores, probabilities and output are each rounded
// to it, products accumulate in f32 one term after another.
Reference attention_low(const Problem& problem, const TensorPointers& tensors,
                        const ReferenceOptions& options = {});

// How far a result is from the reference, and how far it may be.
struct Comparison {
  bool ok = true;
  double max_error = 0;  // over finite elements; of the LSE: see compare()
  double bound = 0;
  std::string fault;  // the first or worst wrong element in words; empty if ok
};

struct Verdict {
  Comparison out;
  Comparison lse;  // left at its defaults if the problem has no LSE

  bool ok() const { return out.ok && lse.ok; }
  // One line for people: what is wrong, or the errors and bounds.
  std::string text() const;
};

// Compares tensors.out (and tensors.lse if the problem has it) with the reference by the rule
// above, in f32 plus 1e-6 of the larger of 1 and max|out|. A NaN must be a NaN, an infinity the
// same infinity. The LSE is f32 whatever the dtype, and each row has a bound of its own: 1e-4 of
// the larger of 1 and its |lse| in 16-bit types, 1e-5 in f32, plus what the rounding of f32 may
// come to. Its error and bound in the verdict are those of the row that is nearest to its bound.
Verdict compare(const Problem& problem, const TensorPointers& tensors, const Reference& reference,
                const Reference& low, const ReferenceOptions& options = {});

// Reference, plain computation and comparison in one step.
Verdict check(const Problem& problem, const TensorPointers& tensors,
              const ReferenceOptions& options = {});

}  // namespace hipflash::verify
