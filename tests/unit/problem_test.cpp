// Argument checks: what is refused, and that the sentence names the argument, its value and the
// rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "api/check.h"
#include "api/problem_hash.h"
#include "hipflash/attention.h"
#include "plan/dense_problem.h"

namespace hipflash {
namespace {

using ::testing::HasSubstr;

Problem dense(std::int64_t heads_q = 4, std::int64_t heads_kv = 2) {
  Problem p = plan::dense_problem({DType::f32, 2, heads_q, heads_kv, 16, 16, 64, false});
  p.features.lse = true;
  return p;
}

void expect_refused(ErrorCode code, const std::vector<std::string>& words,
                    const std::function<void()>& call) {
  try {
    call();
    FAIL() << "nothing was thrown; expected " << to_string(code);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(CheckProblem, AcceptsADenseProblem) {
  EXPECT_NO_THROW(api::check_problem(dense()));
}

TEST(CheckProblem, RefusesByName) {
  struct Case {
    std::function<void(Problem&)> spoil;
    std::vector<std::string> words;
  };
  const Case cases[] = {
      {[](Problem& p) {
         p.heads_q = 3;
         p.heads_kv = 2;
       },
       {"heads_q = 3", "multiple", "heads_kv = 2"}},
      {[](Problem& p) {
         p.heads_q = 33;
         p.heads_kv = 2;
       },
       {"heads_q = 33", "heads_kv = 2"}},
      {[](Problem& p) { p.heads_kv = 0; }, {"heads_kv = 0"}},
      {[](Problem& p) { p.head_dim = 0; }, {"head_dim = 0", "1 to 512"}},
      {[](Problem& p) { p.head_dim = 513; }, {"head_dim = 513", "1 to 512"}},
      {[](Problem& p) { p.value_head_dim = -1; }, {"value_head_dim = -1"}},
      {[](Problem& p) { p.batch = -1; }, {"batch = -1", "negative"}},
      {[](Problem& p) { p.seq_k = std::int64_t{1} << 40; }, {"seq_k = 1099511627776", "at most"}},
      {[](Problem& p) { p.scale = std::numeric_limits<float>::quiet_NaN(); },
       {"scale = nan", "finite"}},
      {[](Problem& p) { p.softcap = -1; }, {"softcap = -1"}},
      {[](Problem& p) { p.window.left = -2; }, {"window.left = -2", "-1"}},
      {[](Problem& p) { p.window.right = -7; }, {"window.right = -7"}},
      {[](Problem& p) { p.dtype = static_cast<DType>(9); }, {"dtype = 9"}},
      {[](Problem& p) { p.alignment = static_cast<MaskAlignment>(5); }, {"alignment = 5"}},
      {[](Problem& p) { p.out.batch = 0; }, {"out stride 0", "overlap"}},
      {[](Problem& p) {
         p.aligned = false;
         p.out.head = 63;
       },
       {"out stride", "overlap"}},
      {[](Problem& p) { p.lse.head = 0; }, {"lse stride 0", "overlap"}},
      {[](Problem& p) { p.q.seq = std::int64_t{1} << 62; }, {"q stride", "2^60"}},
      {[](Problem& p) { p.k.batch = INT64_MIN; }, {"k stride", "2^60"}},
      {[](Problem& p) { p.k.head = 65; }, {"k stride 65", "aligned"}},
      {[](Problem& p) {
         p.features.bias = true;
         p.bias_dtype = DType::f16;
       },
       {"bias.dtype = f16", "f32"}},
  };
  for (const Case& c : cases) {
    Problem p = dense();
    c.spoil(p);
    expect_refused(ErrorCode::InvalidArgument, c.words, [&] { api::check_problem(p); });
  }
}

TEST(CheckProblem, NamesWhatIsNotBuilt) {
  const std::pair<bool Features::*, const char*> features[] = {
      {&Features::dropout, "dropout"},
      {&Features::user_functions, "user_functions"},
  };
  for (const auto& [feature, name] : features) {
    Problem p = dense();
    p.features.*feature = true;
    expect_refused(ErrorCode::NotSupported, {name}, [&] { api::check_problem(p); });
  }
}

// A call over packed sequences and a paged cache.
struct PagedCall {
  alignas(16) float memory[64] = {};
  std::int32_t table[8] = {};
  Tensor q = Tensor::bshd(memory, DType::f32, 1, 30, 4, 64);
  Tensor k = Tensor::bshd(memory, DType::f32, 7, 16, 2, 64);
  Tensor v = k, out = q;
  AttentionOptions options;

  PagedCall() {
    options.varlen.batch = 3;
    options.varlen.cu_seqlens_q = table;
    options.cache.lengths = table;
    options.paged = {table, 3, 5, 0};
  }
  Problem problem() const { return make_problem(q, k, v, out, options); }
};

TEST(MakeProblem, ReadsPackedAndPagedSizes) {
  const Problem p = PagedCall().problem();
  EXPECT_NO_THROW(api::check_problem(p));
  EXPECT_EQ(p.batch, 3);
  EXPECT_EQ(p.seq_q, 30);
  EXPECT_EQ(p.seq_k, 80);
  EXPECT_EQ(p.ragged.total_q, 30);
  EXPECT_EQ(p.ragged.page_size, 16);
  EXPECT_EQ(p.ragged.pages, 7);
  EXPECT_EQ(p.ragged.block_table_stride, 5);
  EXPECT_TRUE(p.features.varlen && p.features.kv_cache && p.features.paged_kv);
}

TEST(MakeProblem, NamesWrongRaggedArguments) {
  const struct {
    std::function<void(PagedCall&)> spoil;
    std::vector<std::string> words;
  } cases[] = {
      {[](PagedCall& c) { c.q.batch = c.out.batch = 2; }, {"q.batch = 2", "packed"}},
      {[](PagedCall& c) { c.options.varlen.max_seq_q = -1; }, {"varlen.max_seq_q = -1"}},
      {[](PagedCall& c) { c.options.paged.columns = 0; }, {"paged.columns = 0", "at least 1"}},
      {[](PagedCall& c) { c.options.paged.rows = 2; }, {"paged.rows = 2", "3"}},
      {[](PagedCall& c) { c.k.seq = c.v.seq = 0; }, {"page size", "0"}},
      {[](PagedCall& c) { c.k.batch = c.v.batch = 0; }, {"pages", "0"}},
      {[](PagedCall& c) { c.options.varlen.cu_seqlens_k = c.table; }, {"varlen.cu_seqlens_k"}},
      {[](PagedCall& c) { c.options.paged.columns = std::int64_t{1} << 60; }, {"seq_k"}},
      {[](PagedCall& c) { c.options.paged = {}; }, {"k.batch = 7", "3"}},
      {[](PagedCall& c) { c.v.batch = 6; }, {"v.batch = 6", "k.batch = 7"}},
  };
  for (const auto& c : cases) {
    PagedCall call;
    c.spoil(call);
    expect_refused(ErrorCode::InvalidArgument, c.words,
                   [&] { api::check_problem(call.problem()); });
  }
}

TEST(CheckProblem, InterleavedAndPackedOutputsAreFine) {
  Problem p = dense();
  p.out = {p.seq_q * 3 * 4 * 64, 3 * 4 * 64, 64};  // a slice of packed QKV
  EXPECT_NO_THROW(api::check_problem(p));
  p.out = {4 * 16 * 64, 64, 16 * 64};  // heads before positions
  EXPECT_NO_THROW(api::check_problem(p));
}

TEST(CheckPointers, RefusesNullAndMisaligned) {
  const Problem p = dense();
  alignas(16) float memory[8] = {};
  TensorPointers t;
  t.q = t.k = t.v = memory;
  t.out = t.lse = memory;
  EXPECT_NO_THROW(api::check_pointers(p, t));
  TensorPointers bad = t;
  bad.k = nullptr;
  expect_refused(ErrorCode::InvalidArgument, {"k = null"}, [&] { api::check_pointers(p, bad); });
  bad = t;
  bad.v = memory + 1;
  expect_refused(ErrorCode::InvalidArgument, {"v = 0x", "16 bytes"},
                 [&] { api::check_pointers(p, bad); });
  bad = t;
  bad.lse = nullptr;
  expect_refused(ErrorCode::InvalidArgument, {"lse = null"}, [&] { api::check_pointers(p, bad); });
}

TEST(MakeProblem, RefusesTensorsThatDisagree) {
  float data[1] = {};
  const Tensor q = Tensor::bshd(data, DType::f32, 2, 8, 4, 64);
  const Tensor kv = Tensor::bshd(data, DType::f32, 2, 16, 2, 64);
  const auto refused = [&](Tensor k, Tensor v, Tensor out, std::vector<std::string> words) {
    expect_refused(ErrorCode::InvalidArgument, words, [&] { make_problem(q, k, v, out); });
  };
  EXPECT_NO_THROW(make_problem(q, kv, kv, q));
  Tensor odd = kv;
  odd.dtype = DType::f16;
  refused(odd, kv, q, {"k.dtype = f16", "q.dtype = f32"});
  odd = kv;
  odd.seq = 15;
  refused(kv, odd, q, {"v.seq = 15", "k.seq = 16"});
  odd = kv;
  odd.dim = 32;
  refused(odd, kv, q, {"k.dim = 32", "q.dim = 64"});
  refused(kv, odd, q, {"out.dim = 64", "v.dim = 32"});
  odd = q;
  odd.heads = 3;
  refused(kv, kv, odd, {"out.heads = 3", "q.heads = 4"});
  odd = q;
  odd.batch = 1;
  refused(kv, kv, odd, {"out.batch = 1", "q.batch = 2"});
}

TEST(MakeProblem, IgnoresStridesOfDimensionsOfOneElement) {
  alignas(16) float data[4] = {};
  Tensor a = Tensor::bshd(data, DType::f32, 1, 8, 4, 64);
  Tensor b = a;
  b.stride.batch = 12345;
  const Problem pa = make_problem(a, a, a, a), pb = make_problem(b, b, b, b);
  EXPECT_EQ(pa, pb);
  EXPECT_TRUE(pb.aligned);
  EXPECT_EQ(ProblemHash()(pa), ProblemHash()(pb));
}

TEST(MakeProblem, SeesUnalignedRows) {
  alignas(16) float data[8] = {};
  const Tensor good = Tensor::bshd(data, DType::f32, 1, 8, 4, 64);
  EXPECT_TRUE(make_problem(good, good, good, good).aligned);
  EXPECT_FALSE(
      make_problem(good, Tensor::bshd(data + 1, DType::f32, 1, 8, 4, 64), good, good).aligned);
  const Tensor odd = Tensor::bshd(data, DType::f32, 1, 8, 4, 59);
  EXPECT_FALSE(make_problem(odd, odd, odd, odd).aligned);
}

TEST(Problem, HashSeparatesProblems) {
  const Problem base = dense();
  const std::function<void(Problem&)> changes[] = {
      [](Problem& p) { p.causal = true; },      [](Problem& p) { p.scale *= 2; },
      [](Problem& p) { p.window.left = 3; },    [](Problem& p) { p.features.mask = true; },
      [](Problem& p) { p.dtype = DType::f16; }, [](Problem& p) { p.k.seq += 4; },
      [](Problem& p) { p.mask.key = 1; },
  };
  for (const auto& change : changes) {
    Problem p = base;
    change(p);
    EXPECT_NE(p, base);
    EXPECT_NE(ProblemHash()(p), ProblemHash()(base));
  }
}

TEST(Device, NamesBothWays) {
  EXPECT_EQ(to_string(parse_device("cpu")), "cpu");
  EXPECT_EQ(to_string(parse_device("hip")), "hip:0");
  EXPECT_EQ(to_string(parse_device("cuda:12")), "cuda:12");
  for (const char* text :
       {"", "gpu", "hip:", "hip:x", "hip:-1", "cpu:1", "cuda:1x", "hip:99999999999"}) {
    expect_refused(ErrorCode::InvalidArgument, {"device = \"" + std::string(text) + "\""},
                   [&] { parse_device(text); });
  }
}

}  // namespace
}  // namespace hipflash
