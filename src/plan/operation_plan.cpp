#include "plan/operation_plan.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

#include "core/fail.h"
#include "cpu/tiles.h"
#include "gpu/tiles_tiny.h"
#include "plan/tile_choice.h"
#include "platform/cpu/isa.h"

namespace hipflash::plan {
namespace {

constexpr int kThreads = 256;

const void* presence(const void* pointer) {
  static const char something = 0;
  return pointer ? &something : nullptr;
}
template <class T>
void forget(T*& pointer) {
  pointer = static_cast<T*>(const_cast<void*>(presence(pointer)));
}

// The members of `struct Spec`, one per line.
class Facts {
 public:
  Facts& element(const char* name, DType dtype) {
    text_ += fmt::format("  static constexpr ElementType {} = ElementType::{};\n", name,
                         element_name(static_cast<ElementType>(dtype)));
    return *this;
  }
  Facts& number(const char* name, int value) {
    text_ += fmt::format("  static constexpr int {} = {};\n", name, value);
    return *this;
  }
  Facts& flag(const char* name, bool value) {
    text_ += fmt::format("  static constexpr bool {} = {};\n", name, value);
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// The steps that the operations share. `family` without folder and ending.
OperationPlan make_plan(const std::string& family, const char* entry, DType dtype, Facts facts,
                        const platform::DeviceFacts& device) {
  OperationPlan plan;
  plan.launch.entry = entry;
  plan.spec.arch = device.arch;
  plan.spec.facts = facts.take();
  if (device.kind == platform::Kind::cpu) {
    plan.spec.compiler = jit::CompilerKind::host;
    plan.spec.family = "cpu/" + family + ".cpp";
    CpuIsa isa = CpuIsa::portable;
    for (const CpuIsa known : {CpuIsa::avx2, CpuIsa::avx512, CpuIsa::avx512_bf16}) {
      if (platform::arch_of(known) == device.arch) isa = known;
    }
    isa = platform::isa_for(isa, static_cast<ElementType>(dtype));
    plan.spec.arch = platform::arch_of(isa);
    std::istringstream words(std::string(kCpuKernelOptions) + " " + cpu_isa_facts(isa).options);
    for (std::string word; words >> word;) plan.spec.options.push_back(word);
    plan.config = fmt::format("isa={}", cpu_isa_facts(isa).name);
    return plan;
  }
  const bool cuda = device.kind == platform::Kind::cuda;
  plan.spec.compiler = cuda ? jit::CompilerKind::nvrtc : jit::CompilerKind::hiprtc;
  plan.spec.family = "gpu/" + family + ".hip";
  if (cuda) {
    plan.spec.options.assign(std::begin(tiny::kCudaOptions), std::end(tiny::kCudaOptions));
  } else {
    plan.spec.options.assign(std::begin(tiny::kHipOptions), std::end(tiny::kHipOptions));
  }
  plan.launch.threads = kThreads;
  plan.config = fmt::format("threads={}", kThreads);
  return plan;
}

// Threads are counted in 32 bits by the kernels.
long long blocks_of(const char* what, long long rows, long long units) {
  constexpr long long most = (1LL << 32) - kThreads;
  if (units > 0 && rows > most / units) {
    fail(ErrorCode::NotSupported, "{}: {} rows of {} pieces are more than the {} of a launch", what,
         rows, units, most);
  }
  return (std::max(rows * units, 1LL) + kThreads - 1) / kThreads;
}

long long items_of(long long rows, int rows_per_item) {
  return std::max((rows + rows_per_item - 1) / rows_per_item, 1LL);
}

int divide_up(int n, int step) {
  return (n + step - 1) / step;
}

}  // namespace

void AppendProblem::forget_data() noexcept {
  AppendArgs& a = args;
  forget(a.k_new), forget(a.v_new), forget(a.k), forget(a.v), forget(a.q), forget(a.q_out);
  forget(a.cosine), forget(a.sine), forget(a.cu_seqlens), forget(a.lengths), forget(a.batch_index);
  forget(a.block_table), forget(a.new_lengths);
  a.fault = nullptr;
}

void MergeProblem::forget_data() noexcept {
  for (MergePart& part : args.part) forget(part.out), forget(part.lse);
  forget(args.out), forget(args.lse);
}

OperationPlan plan_append(const AppendProblem& problem, const platform::DeviceFacts& device) {
  const AppendArgs& a = problem.args;
  const long long rows =
      a.cu_seqlens ? a.rows : static_cast<long long>(a.batch) * static_cast<long long>(a.rows);
  const auto table = static_cast<DType>(a.rotary_dim > 0 ? static_cast<int>(a.table_type) : 2);
  Facts facts;
  facts.element("element", problem.dtype).element("table_type", table);
  const bool cpu = device.kind == platform::Kind::cpu;
  if (!cpu) {  // CPU kernels serve any sizes: what they do is copy rows
    facts.number("head_dim", a.head_dim)
        .number("value_head_dim", a.value_head_dim)
        .number("rotary_dim", a.rotary_dim)
        .flag("rotary_interleaved", a.rotary_interleaved != 0)
        .flag("aligned", problem.aligned != 0)
        .number("threads", kThreads);
  }
  OperationPlan plan = make_plan("append_kv", "append_kv", problem.dtype, std::move(facts), device);
  plan.spec.label = fmt::format(
      "{} append{}{}", to_string(problem.dtype),
      cpu ? "" : fmt::format(" d{}/{}", a.head_dim, a.value_head_dim),
      a.rotary_dim == 0
          ? ""
          : fmt::format(" rotary {}{}", a.rotary_dim, a.rotary_interleaved ? " interleaved" : ""));
  plan.reason = "one pass over the new rows";
  if (cpu) {
    plan.launch.items = items_of(rows, kAppendRowsPerItem);
    return plan;
  }
  // As in the kernel: where halves are paired, a unit is two pieces.
  const bool halves = a.rotary_dim > 0 && !a.rotary_interleaved;
  const int bytes = static_cast<int>(size_of(problem.dtype));
  const int piece = problem.aligned ? 16 / bytes : halves ? 1 : 2;
  const int units = std::max(divide_up(a.head_dim, piece) - (halves ? a.rotary_dim / 2 / piece : 0),
                             divide_up(a.value_head_dim, piece));
  const long long heads = 2LL * a.heads_kv + (a.q ? a.heads_q : 0);
  plan.launch.items =
      std::max(blocks_of("append_kv", rows, heads * units), blocks_of("append_kv", a.batch, 1));
  return plan;
}

OperationPlan plan_merge(const MergeProblem& problem, const platform::DeviceFacts& device) {
  const MergeArgs& a = problem.args;
  const long long rows = static_cast<long long>(a.batch) * a.seq * a.heads;
  Facts facts;
  facts.element("element", problem.dtype).element("part_element", problem.part_dtype);
  const bool cpu = device.kind == platform::Kind::cpu;
  if (!cpu) {
    facts.number("head_dim", a.dim)
        .flag("aligned", problem.aligned != 0)
        .number("threads", kThreads);
  }
  OperationPlan plan =
      make_plan("merge_partials", "merge_partials", problem.dtype, std::move(facts), device);
  plan.spec.label =
      fmt::format("{} merge of {}{}", to_string(problem.dtype), to_string(problem.part_dtype),
                  cpu ? "" : fmt::format(" d{}", a.dim));
  plan.reason = "one pass over the partial results";
  if (cpu) {
    blocks_of("merge_partials", rows, 1);  // rows are counted in 32 bits here too
    plan.launch.items = items_of(rows, kMergeRowsPerItem);
    return plan;
  }
  const int piece = problem.aligned ? 16 / static_cast<int>(size_of(problem.part_dtype)) : 1;
  plan.launch.items = blocks_of("merge_partials", rows, a.dim / piece);
  return plan;
}

}  // namespace hipflash::plan
