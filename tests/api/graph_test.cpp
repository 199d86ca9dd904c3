// Calls while a stream records a graph.
#include <optional>

#include "api/on_stub.h"

namespace hipflash::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSeq = 8, kHeads = 2, kDim = 16;
constexpr std::size_t kBytes = 1 << 14;

class Recording : public OnStub {
 public:
  ~Recording() override {
    ctx.reset();
    stub_hip::destroy_stream(stream_);
  }

  Tensor tensor(const StubMemory& memory, std::int64_t seq = kSeq) const {
    return Tensor::bshd(memory.data(), DType::f16, 1, seq, kHeads, kDim);
  }
  void attend(Stream stream) {
    attention_forward(*ctx, tensor(in_), tensor(in_), tensor(in_), tensor(out_), {}, stream);
  }
  void append(Stream stream) {
    append_kv(*ctx, tensor(in_, 1), tensor(in_, 1), tensor(out_), tensor(out_), {}, stream);
  }
  void merge(Stream stream) {
    const PartialResult part{tensor(in_), {in_.as<float>(), {}}};
    merge_partials(*ctx, {part, part}, tensor(out_), {}, stream);
  }
  using Call = void (Recording::*)(Stream);
  static constexpr Call kCalls[] = {&Recording::attend, &Recording::append, &Recording::merge};

  // The graph of one such call.
  int record(Call call) {
    stub_hip::begin_capture(stream_);
    (this->*call)(Stream{stream_});
    EXPECT_FALSE(stub_hip::capture_broken(stream_));
    return stub_hip::end_capture(stream_);
  }

  StubMemory in_{kBytes}, out_{kBytes};
  void* stream_ = stub_hip::make_stream(0);
};

TEST_F(Recording, FirstCallsAreAClearErrorAndLeaveItWhole) {
  for (const Call call : kCalls) {
    const std::size_t modules = stub_hip::loaded_modules();
    stub_hip::begin_capture(stream_);
    EXPECT_THAT(refusal([&] { (this->*call)(Stream{stream_}); }), HasSubstr("records a graph"));
    EXPECT_FALSE(stub_hip::capture_broken(stream_));
    (void)stub_hip::end_capture(stream_);
    EXPECT_EQ(stub_hip::loaded_modules(), modules);
    (this->*call)({});
    EXPECT_TRUE(stub_hip::replay(record(call)));
  }
}

TEST_F(Recording, IsNotBrokenByVerification) {
  ::setenv("HIPFLASH_VERIFY", "1", 1);
  ctx = make_context();
  ::unsetenv("HIPFLASH_VERIFY");
  const Plan plan = ctx->plan(make_problem(tensor(in_), tensor(in_), tensor(in_), tensor(out_)));
  EXPECT_TRUE(stub_hip::replay(record(&Recording::attend)));
}

TEST_F(Recording, ReplaysAfterItsContextIsGone) {
  for (const Call call : kCalls) {
    ctx = make_context();
    (this->*call)({});
    const int graph = record(call);
    ctx.reset();
    EXPECT_TRUE(stub_hip::replay(graph));
  }
}

TEST_F(Recording, ReplaysAfterItsPlanIsGone) {
  int graph = 0;
  {
    const Plan plan = ctx->plan(make_problem(tensor(in_), tensor(in_), tensor(in_), tensor(out_)));
    ctx.reset();
    stub_hip::begin_capture(stream_);
    plan.run(make_pointers(tensor(in_), tensor(in_), tensor(in_), tensor(out_)), Stream{stream_});
    graph = stub_hip::end_capture(stream_);
  }
  EXPECT_TRUE(stub_hip::replay(graph));
}

TEST_F(Recording, LeavesOneModuleHoweverManyContextsRecord) {
  (this->*kCalls[0])({});
  record(kCalls[0]);
  ctx.reset();
  const std::size_t modules = stub_hip::loaded_modules();
  for (int i = 0; i < 20; ++i) {
    ctx = make_context();
    (this->*kCalls[0])({});
    record(kCalls[0]);
    ctx.reset();
    EXPECT_EQ(stub_hip::loaded_modules(), modules);
  }
}

TEST_F(Recording, ModulesThatNoGraphUsesGoWhenTheirWorkIsDone) {
  const std::size_t before = stub_hip::loaded_modules(), early = stub_hip::early_unloads();
  std::optional<Plan> plan;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    auto other = make_context(1);  // a device whose graphs nobody records
    const StubMemory memory(kBytes, 1), result(kBytes, 1);
    const Tensor t = Tensor::bshd(memory.data(), dtype, 1, kSeq, kHeads, kDim);
    const Tensor out = Tensor::bshd(result.data(), dtype, 1, kSeq, kHeads, kDim);
    plan = other->plan(make_problem(t, t, t, out));
    plan->run(make_pointers(t, t, t, out));
  }
  EXPECT_EQ(stub_hip::loaded_modules(), before + 1);
  plan.reset();
  EXPECT_EQ(stub_hip::loaded_modules(), before);
  EXPECT_EQ(stub_hip::early_unloads(), early);
}

}  // namespace
}  // namespace hipflash::testing
