// Memory that a call's device cannot reach is an error that names the argument, whichever it is.
#include "api/on_stub.h"

namespace hipflash::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kBatch = 2, kHeads = 2, kSeq = 8, kDim = 16;
constexpr std::size_t kBytes = 1 << 16;

// A call with every pointer that attention can have, or with those that fit together.
struct Call {
  explicit Call(bool ragged) {
    const auto tensor = [&](std::int64_t batch, std::int64_t seq) {
      return Tensor::bshd(here.data(), DType::f16, batch, seq, kHeads, kDim);
    };
    q = out = tensor(ragged ? 1 : kBatch, kSeq);
    k = v = tensor(kBatch, kSeq);
    out.data = there.data();
    AttentionOptions& o = options;
    o.lse.data = norms.as<float>();
    o.sinks = here.as<float>();
    if (ragged) {
      o.varlen.batch = kBatch;
      o.varlen.cu_seqlens_q = here.data();
      o.cache = {here.as<int>(), here.as<int>(), here.as<int>()};
      o.paged = {here.as<int>(), kBatch, 1, 0};
    } else {
      o.alibi.slopes = here.as<float>();
      o.bias = {here.data(), DType::f16, {0, 0, kSeq, 1}};
      o.mask = {here.data(), {0, 0, kSeq, 1}};
    }
  }

  StubMemory here{kBytes}, there{kBytes}, norms{kBytes};
  Tensor q, k, v, out;
  AttentionOptions options;
};

// The pointers of these calls, by the names that errors have for them.
struct Pointer {
  const char* name;
  void (*set)(TensorPointers&, void*);
};
const std::vector<Pointer>& pointers_of(bool ragged) {
  using T = TensorPointers;
  using Ints = const std::int32_t*;
  static const std::vector<Pointer> dense = {
      {"q", [](T& t, void* p) { t.q = p; }},
      {"k", [](T& t, void* p) { t.k = p; }},
      {"v", [](T& t, void* p) { t.v = p; }},
      {"out", [](T& t, void* p) { t.out = p; }},
      {"lse", [](T& t, void* p) { t.lse = static_cast<float*>(p); }},
      {"sinks", [](T& t, void* p) { t.sinks = static_cast<float*>(p); }},
      {"bias", [](T& t, void* p) { t.bias = p; }},
      {"mask", [](T& t, void* p) { t.mask = p; }},
      {"alibi.slopes", [](T& t, void* p) { t.alibi = static_cast<float*>(p); }}};
  static const std::vector<Pointer> more = {
      {"varlen.cu_seqlens_q", [](T& t, void* p) { t.cu_seqlens_q = p; }},
      {"cache.lengths", [](T& t, void* p) { t.kv_lengths = static_cast<Ints>(p); }},
      {"cache.batch_index", [](T& t, void* p) { t.kv_batch_index = static_cast<Ints>(p); }},
      {"cache.left_padding", [](T& t, void* p) { t.kv_left_padding = static_cast<Ints>(p); }},
      {"paged.block_table", [](T& t, void* p) { t.block_table = static_cast<Ints>(p); }}};
  return ragged ? more : dense;
}

class WrongDevice : public OnStub {};

TEST_F(WrongDevice, EveryPointerOfAttentionIsLookedAt) {
  alignas(16) static std::byte host[kBytes];
  const StubMemory other(kBytes, 1);
  for (const bool ragged : {false, true}) {
    Call call(ragged);
    const Plan plan = ctx->plan(make_problem(call.q, call.k, call.v, call.out, call.options));
    const TensorPointers good = make_pointers(call.q, call.k, call.v, call.out, call.options);
    const std::size_t before = stub_hip::launches();
    plan.run(good);
    EXPECT_GT(stub_hip::launches(), before);
    for (const Pointer& pointer : pointers_of(ragged)) {
      TensorPointers bad = good;
      pointer.set(bad, host);
      EXPECT_THAT(refusal([&] { plan.run(bad); }),
                  AllOf(HasSubstr(std::string(pointer.name) + " = "), HasSubstr("not memory of")));
      pointer.set(bad, other.data());
      EXPECT_THAT(refusal([&] { plan.run(bad); }),
                  AllOf(HasSubstr(std::string(pointer.name) + " = "), HasSubstr("hip:1")));
    }
  }
}

TEST_F(WrongDevice, PackedKeysAreLookedAt) {
  Call call(true);
  call.k = call.v = Tensor::bshd(call.here.data(), DType::f16, 1, kSeq, kHeads, kDim);
  call.options.cache = {};
  call.options.paged = {};
  call.options.varlen.cu_seqlens_k = call.here.data();
  const auto run = [&] { attention_forward(*ctx, call.q, call.k, call.v, call.out, call.options); };
  EXPECT_EQ(refusal(run), "(no error)");
  static const std::int32_t host[kBatch + 1] = {};
  call.options.varlen.cu_seqlens_k = host;
  EXPECT_THAT(refusal(run), HasSubstr("varlen.cu_seqlens_k = "));
}

TEST_F(WrongDevice, PointersOfAbsentFeaturesAndOfNoKeysAreNot) {
  Call call(false);
  static float host[64];
  call.options = {};
  const Plan plan = ctx->plan(make_problem(call.q, call.k, call.v, call.out));
  TensorPointers pointers = make_pointers(call.q, call.k, call.v, call.out);
  pointers.lse = host;
  pointers.bias = host;
  EXPECT_NO_THROW(plan.run(pointers));

  call.k.seq = call.v.seq = 0;
  call.k.data = call.v.data = host;
  call.options.mask = {host, {}};
  EXPECT_NO_THROW(attention_forward(*ctx, call.q, call.k, call.v, call.out, call.options));
}

TEST_F(WrongDevice, EveryPartOfAMergeIsLookedAt) {
  const StubMemory here(kBytes), result(kBytes), other(kBytes, 1);
  const auto tensor = [](void* data) {
    return Tensor::bshd(data, DType::f32, kBatch, kSeq, kHeads, kDim);
  };
  std::vector<PartialResult> parts(5, PartialResult{tensor(here.data()), {here.as<float>(), {}}});
  const auto merge = [&] {
    merge_partials(*ctx, parts, tensor(result.data()), {result.as<float>() + 8192, {}});
  };
  EXPECT_EQ(refusal(merge), "(no error)");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].out.data = other.data();
    EXPECT_THAT(refusal(merge), HasSubstr("parts[" + std::to_string(i) + "].out = "));
    parts[i].out.data = here.data();
    parts[i].lse.data = other.as<float>();
    EXPECT_THAT(refusal(merge), HasSubstr("parts[" + std::to_string(i) + "].lse = "));
    parts[i].count = 0;  // nothing of it is read
    EXPECT_EQ(refusal(merge), "(no error)");
    parts[i].count = 1;
    parts[i].lse.data = here.as<float>();
  }
}

TEST_F(WrongDevice, EveryPointerOfAnAppendIsLookedAt) {
  const StubMemory here(kBytes), cache(kBytes), queries(kBytes), lengths(64), other(kBytes, 1);
  const auto tensor = [](void* data, std::int64_t seq) {
    return Tensor::bshd(data, DType::f16, kBatch, seq, kHeads, kDim);
  };
  struct Appended {
    Tensor k_new, v_new, k_cache, v_cache;
    AppendOptions options;
  };
  Appended good{tensor(here.data(), 1),
                tensor(here.data(), 1),
                tensor(cache.data(), kSeq),
                tensor(cache.as<char>() + kBytes / 2, kSeq),
                {}};
  good.options.cache = {here.as<int>(), here.as<int>(), nullptr};
  good.options.rotary = {here.data(), here.data(), DType::f32, kDim, kSeq, 0, false};
  good.options.q = good.options.q_out = tensor(queries.data(), 1);
  good.options.new_lengths = lengths.as<int>();
  const std::vector<std::pair<const char*, void (*)(Appended&, void*)>> spoils = {
      {"k_new", [](Appended& a, void* p) { a.k_new.data = p; }},
      {"v_new", [](Appended& a, void* p) { a.v_new.data = p; }},
      {"k_cache", [](Appended& a, void* p) { a.k_cache.data = p; }},
      {"v_cache", [](Appended& a, void* p) { a.v_cache.data = p; }},
      {"options.q", [](Appended& a, void* p) { a.options.q.data = p; }},
      {"options.q_out", [](Appended& a, void* p) { a.options.q_out.data = p; }},
      {"options.rotary.cos", [](Appended& a, void* p) { a.options.rotary.cos = p; }},
      {"options.rotary.sin", [](Appended& a, void* p) { a.options.rotary.sin = p; }},
      {"options.cache.lengths",
       [](Appended& a, void* p) { a.options.cache.lengths = static_cast<int*>(p); }},
      {"options.cache.batch_index",
       [](Appended& a, void* p) { a.options.cache.batch_index = static_cast<int*>(p); }},
      {"options.new_lengths",
       [](Appended& a, void* p) { a.options.new_lengths = static_cast<int*>(p); }}};
  const auto append = [&](const Appended& a) {
    append_kv(*ctx, a.k_new, a.v_new, a.k_cache, a.v_cache, a.options);
  };
  EXPECT_EQ(refusal([&] { append(good); }), "(no error)");
  for (const auto& [name, spoil] : spoils) {
    Appended bad = good;
    spoil(bad, other.data());
    EXPECT_THAT(refusal([&] { append(bad); }), HasSubstr(std::string(name) + " = "));
  }
}

}  // namespace
}  // namespace hipflash::testing
