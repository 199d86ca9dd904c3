// Plans inside graphs of the GPU runtime, and several devices in one process.
#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "device/on_device.h"
#include "hipflash/error.h"

namespace hipflash::testing {
namespace {

// What both runtimes have under their own names; an emulated one has none of it.
class Graphs {
 public:
  Graphs() {
    const bool hip = test_device().platform == Platform::hip;
    for (const char* name :
         {"libcuda.so.1", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}) {
      if (library_ || hip != (std::string(name).rfind("libamd", 0) == 0)) continue;
      library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library_) return;
    bind(create_, hip ? "hipStreamCreateWithFlags" : "cuStreamCreate");
    bind(destroy_, hip ? "hipStreamDestroy" : "cuStreamDestroy_v2");
    bind(begin_, hip ? "hipStreamBeginCapture" : "cuStreamBeginCapture_v2");
    bind(end_, hip ? "hipStreamEndCapture" : "cuStreamEndCapture");
    bind(instantiate_, hip ? "hipGraphInstantiateWithFlags" : "cuGraphInstantiateWithFlags");
    bind(launch_, hip ? "hipGraphLaunch" : "cuGraphLaunch");
    bind(synchronize_, hip ? "hipStreamSynchronize" : "cuStreamSynchronize");
    bind(release_, hip ? "hipGraphExecDestroy" : "cuGraphExecDestroy");
  }

  bool complete() const { return library_ && !missing_; }

  void* make_stream() const {
    void* stream = nullptr;
    constexpr unsigned kNonBlocking = 1;
    EXPECT_EQ(create_(&stream, kNonBlocking), 0);
    return stream;
  }
  void destroy_stream(void* stream) const { EXPECT_EQ(destroy_(stream), 0); }
  void begin(void* stream) const {
    constexpr int kThisThread = 1;
    EXPECT_EQ(begin_(stream, kThisThread), 0);
  }
  // The recorded graph, ready to launch.
  void* end(void* stream) const {
    void *graph = nullptr, *ready = nullptr;
    EXPECT_EQ(end_(stream, &graph), 0);
    EXPECT_EQ(instantiate_(&ready, graph, 0), 0);
    return ready;
  }
  void run(void* graph, void* stream) const {
    EXPECT_EQ(launch_(graph, stream), 0);
    EXPECT_EQ(synchronize_(stream), 0);
  }
  void release(void* graph) const { EXPECT_EQ(release_(graph), 0); }

 private:
  template <class F>
  void bind(F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(library_, name));
    missing_ = missing_ || !function;
  }

  void* library_ = nullptr;
  bool missing_ = false;
  int (*create_)(void**, unsigned) = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*begin_)(void*, int) = nullptr;
  int (*end_)(void*, void**) = nullptr;
  int (*instantiate_)(void**, void*, unsigned long long) = nullptr;
  int (*launch_)(void*, void*) = nullptr;
  int (*synchronize_)(void*) = nullptr;
  int (*release_)(void*) = nullptr;
};

class Graph : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped() && !graphs_.complete()) GTEST_SKIP() << "this runtime has no graphs";
  }
  Graphs graphs_;
};

TEST_F(Graph, OfAPlanRunsAgainAndAgain) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    for (const std::int64_t seq_q : {300, 4}) {  // many pieces of work; split keys
      AttentionCase c;
      c.dtype = dtype;
      c.heads_kv = 1;
      c.seq_q = seq_q;
      c.seq_k = seq_q == 4 ? 9000 : 500;
      c.dim = 128;
      c.causal = true;
      SCOPED_TRACE(::testing::Message() << c);
      AttentionData data(c);
      data.poison();
      DeviceCopies copies;
      const TensorPointers device = upload(copies, data);
      const Plan plan = context().plan(data.problem());
      SCOPED_TRACE(plan.explanation().text());
      void* const stream = graphs_.make_stream();
      graphs_.begin(stream);
      plan.run(device, Stream{stream});
      void* const graph = graphs_.end(stream);
      graphs_.run(graph, stream);
      copies.download_all();
      const verify::Verdict verdict = data.verdict();
      EXPECT_TRUE(verdict.ok()) << verdict.text();
      const auto bytes = data.out.bytes();
      const auto lse = data.lse;
      for (int i = 0; i < 5; ++i) {
        graphs_.run(graph, stream);
        plan.run(device);  // beside it
        copies.download_all();
        ASSERT_EQ(data.out.bytes(), bytes);
        ASSERT_TRUE(std::equal(lse.begin(), lse.end() - 1, data.lse.begin()));
      }
      graphs_.release(graph);
      graphs_.destroy_stream(stream);
    }
  }
}

TEST_F(Graph, ACompileInsideARecordingIsAClearError) {
  AttentionCase c;
  c.dtype = DType::f16;
  c.dim = 72;
  c.seq_q = 65;  // no other test has such a problem
  AttentionData data(c);
  data.poison();
  DeviceCopies copies;
  const TensorPointers device = upload(copies, data);
  Context fresh(test_device());
  void* const stream = graphs_.make_stream();
  graphs_.begin(stream);
  try {
    fresh.plan(data.problem(), Stream{stream});
    ADD_FAILURE() << "a plan was made inside a recording";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    EXPECT_NE(std::string(error.what()).find("records a graph"), std::string::npos) << error.what();
  }
  graphs_.release(graphs_.end(stream));  // the recording is whole

  const Plan plan = fresh.plan(data.problem());
  graphs_.begin(stream);
  fresh.plan(data.problem(), Stream{stream}).run(device, Stream{stream});
  void* const graph = graphs_.end(stream);
  graphs_.run(graph, stream);
  copies.download_all();
  const verify::Verdict verdict = data.verdict();
  EXPECT_TRUE(verdict.ok()) << verdict.text();
  graphs_.release(graph);
  graphs_.destroy_stream(stream);
}

// One-step calls: nothing but the Context holds the kernels.
TEST_F(Graph, RunsAfterItsContextIsGone) {
  AttentionCase c;
  c.dtype = DType::f16;
  c.seq_q = 4;  // with split keys
  c.seq_k = 9000;
  c.dim = 128;
  c.causal = true;
  AttentionData data(c);
  data.poison();
  DeviceCopies copies;
  const TensorPointers device = upload(copies, data);
  const auto at = [](const OwnedTensor& tensor, const void* there) {
    Tensor view = tensor.view();
    view.data = const_cast<void*>(there);
    return view;
  };
  AttentionOptions options = data.options;
  options.lse.data = device.lse;
  auto fresh = std::make_unique<Context>(test_device());
  const auto attend = [&](Stream stream) {
    attention_forward(*fresh, at(data.q, device.q), at(data.k, device.k), at(data.v, device.v),
                      at(data.out, device.out), options, stream);
  };
  void* const stream = graphs_.make_stream();
  attend({});
  driver().synchronize(test_device().ordinal);
  graphs_.begin(stream);
  attend(Stream{stream});
  void* const graph = graphs_.end(stream);
  fresh.reset();
  driver().zero(test_device().ordinal, device.out, data.out.bytes().size());
  for (int i = 0; i < 3; ++i) graphs_.run(graph, stream);
  copies.download_all();
  const verify::Verdict verdict = data.verdict();
  EXPECT_TRUE(verdict.ok()) << verdict.text();
  graphs_.release(graph);
  graphs_.destroy_stream(stream);
}

class SeveralDevices : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped() && driver().device_count() < 2) GTEST_SKIP() << "one device";
  }
};

// Every device from a thread of its own, and all of them from one thread in turn.
TEST_F(SeveralDevices, WorkAtTheSameTime) {
  const int count = driver().device_count();
  const auto attend = [](Context& on, int ordinal, int seed) {
    AttentionCase c;
    c.dtype = seed % 2 ? DType::bf16 : DType::f16;
    c.seq_q = 200;
    c.seq_k = 300;
    c.dim = 64;
    c.causal = seed % 3 == 0;
    c.seed = static_cast<std::uint64_t>(seed);
    AttentionData data(c);
    data.poison();
    DeviceCopies copies(ordinal);
    const TensorPointers device = upload(copies, data);
    on.plan(data.problem()).run(device);
    copies.download_all();
    const verify::Verdict verdict = data.verdict();
    EXPECT_TRUE(verdict.ok()) << "device " << ordinal << ": " << verdict.text();
  };
  std::vector<std::unique_ptr<Context>> contexts;
  for (int i = 0; i < count; ++i) {
    contexts.push_back(std::make_unique<Context>(DeviceId{test_device().platform, i}));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 6; ++round)
        attend(*contexts[static_cast<std::size_t>(i)], i, round);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int round = 0; round < 6; ++round) {
    const int i = round % count;
    attend(*contexts[static_cast<std::size_t>(i)], i, round);
  }
}

}  // namespace
}  // namespace hipflash::testing
