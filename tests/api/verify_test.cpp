// HIPFLASH_VERIFY=1 finds a kernel that is wrong, and lets one that is right be.
#include <cstring>

#include "api/on_stub.h"
#include "common/append_args.h"
#include "common/merge_args.h"

namespace hipflash::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kSeq = 300, kDim = 32;  // more queries than are looked at

class Verification : public OnStub {
 protected:
  void SetUp() override {
    ::setenv("HIPFLASH_VERIFY", "1", 1);
    OnStub::SetUp();
    ::unsetenv("HIPFLASH_VERIFY");
    for (std::int64_t i = 0; i < kSeq * kDim; ++i) {
      q_.as<float>()[i] = static_cast<float>(i % 7) - 3.0f;
    }
    for (std::int64_t i = 0; i < kDim; ++i) {
      k_.as<float>()[i] = static_cast<float>(i % 5) - 2.0f;
      v_.as<float>()[i] = static_cast<float>(i % 3) - 1.0f;
    }
    std::memset(out_.data(), 0, kSeq * kDim * sizeof(float));
  }

  // One key: each row's output is its value.
  static void attend(const AttentionArgs& args) {
    for (int row = 0; row < args.seq_q; ++row) {
      std::memcpy(static_cast<float*>(args.out) + row * args.out_stride.seq, args.v,
                  static_cast<std::size_t>(args.value_head_dim) * sizeof(float));
    }
  }

  void run() {
    const auto tensor = [](const StubMemory& memory, std::int64_t seq) {
      return Tensor::bshd(memory.data(), DType::f32, 1, seq, 1, kDim);
    };
    attention_forward(*ctx, tensor(q_, kSeq), tensor(k_, 1), tensor(v_, 1), tensor(out_, kSeq));
  }
  // The sentence of the error; empty: there was none.
  std::string fault() {
    try {
      run();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Internal);
      return error.what();
    }
    return {};
  }

  StubMemory q_{kSeq * kDim * 4}, k_{kDim * 4}, v_{kDim * 4}, out_{kSeq * kDim * 4};
};

TEST_F(Verification, PassesARightResult) {
  stub_hip::set_kernel([](const std::string&, void** parameters) {
    attend(*static_cast<const AttentionArgs*>(parameters[0]));
  });
  EXPECT_EQ(fault(), "");
}

TEST_F(Verification, NamesTheKernelOfAWrongOne) {
  // It writes nothing.
  EXPECT_THAT(fault(), AllOf(HasSubstr("HIPFLASH_VERIFY"), HasSubstr("gpu/"), HasSubstr("key")));
  // It is right but for one element of the last row.
  stub_hip::set_kernel([](const std::string&, void** parameters) {
    const auto& args = *static_cast<const AttentionArgs*>(parameters[0]);
    attend(args);
    static_cast<float*>(args.out)[(args.seq_q - 1) * args.out_stride.seq + 3] += 0.01f;
  });
  EXPECT_THAT(fault(), HasSubstr("wrong result"));
}

class VerificationOfOperations : public Verification {
 protected:
  static constexpr std::int64_t kRows = 2, kCapacity = 8;
  static Tensor rows(const StubMemory& memory, std::int64_t seq) {
    return Tensor::bshd(memory.data(), DType::f32, 1, seq, 1, kDim);
  }
  // The sentence of the error; empty: there was none.
  template <class Call>
  static std::string fault_of(Call&& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Internal);
      return error.what();
    }
    return {};
  }
  std::string append() {
    return fault_of([&] {
      AppendOptions options;
      options.new_lengths = next_.as<std::int32_t>();
      append_kv(*ctx, rows(q_, kRows), rows(q_, kRows), rows(out_, kCapacity),
                rows(cache_, kCapacity), options);
    });
  }
  // Of one part, which it replaces.
  std::string merge() {
    const LseOutput lse{next_.as<float>(), {}};
    PartialResult part;
    part.out = rows(q_, kRows);
    part.lse.data = lse_.as<float>();
    return fault_of([&] { merge_partials(*ctx, {part}, rows(q_, kRows), lse); });
  }

  // To position 0: there are no lengths.
  static void move_rows(const AppendArgs& args) {
    const std::size_t bytes = kRows * kDim * sizeof(float);
    std::memcpy(args.k, args.k_new, bytes);
    std::memcpy(args.v, args.v_new, bytes);
    args.new_lengths[0] = kRows;
  }

  StubMemory cache_{kCapacity * kDim * 4}, next_{64}, lse_{64};
};

TEST_F(VerificationOfOperations, Appends) {
  stub_hip::set_kernel([](const std::string&, void** parameters) {
    move_rows(*static_cast<const AppendArgs*>(parameters[0]));
  });
  EXPECT_EQ(append(), "");
  stub_hip::set_kernel([](const std::string&, void** parameters) {
    const auto& args = *static_cast<const AppendArgs*>(parameters[0]);
    move_rows(args);
    static_cast<float*>(args.v)[kDim + 3] += 1e-6f;
  });
  EXPECT_THAT(append(), AllOf(HasSubstr("HIPFLASH_VERIFY"), HasSubstr("gpu/append_kv"),
                              HasSubstr("the value of sequence 0, new row 1, head 0: element 3")));
  stub_hip::set_kernel([](const std::string&, void** parameters) {
    const auto& args = *static_cast<const AppendArgs*>(parameters[0]);
    move_rows(args);
    args.new_lengths[0] = 5;
  });
  EXPECT_THAT(append(), HasSubstr("new_lengths[0] = 5, not 2"));
}

TEST_F(VerificationOfOperations, Merges) {
  lse_.as<float>()[0] = lse_.as<float>()[1] = 0.5f;
  next_.as<float>()[0] = next_.as<float>()[1] = 0.5f;
  stub_hip::set_kernel([](const std::string&, void**) {});  // it is there already
  EXPECT_EQ(merge(), "");
  stub_hip::set_kernel([](const std::string&, void** parameters) {
    static_cast<float*>(static_cast<const MergeArgs*>(parameters[0])->out)[kDim + 1] += 0.01f;
  });
  EXPECT_THAT(merge(), AllOf(HasSubstr("HIPFLASH_VERIFY"), HasSubstr("gpu/merge_partials"),
                             HasSubstr("batch 0, row 1, head 0: element 1")));
  stub_hip::set_kernel([](const std::string&, void** parameters) {
    static_cast<const MergeArgs*>(parameters[0])->lse[1] = 0.6f;
  });
  EXPECT_THAT(merge(), HasSubstr("row 1, head 0: lse is 0.6"));
}

}  // namespace
}  // namespace hipflash::testing
