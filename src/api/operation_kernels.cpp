#include "api/operation_kernels.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/check.h"
#include "api/extents.h"
#include "api/planning.h"
#include "core/fail.h"
#include "core/json.h"
#include "plan/gpu_plan.h"

namespace hipflash::api {
namespace {

constexpr const char* kAppend = "append_kv";
constexpr const char* kMerge = "merge_partials";

// Calls f(name, field) for every field.
template <class F, class Kernel>
void for_each_field(F&& f, Kernel& kernel) {
  f("name", kernel.name);
  f("dtype", kernel.dtype);
  f("other_dtype", kernel.other_dtype);
  f("head_dim", kernel.head_dim);
  f("value_head_dim", kernel.value_head_dim);
  f("rotary_dim", kernel.rotary_dim);
  f("rotary_interleaved", kernel.rotary_interleaved);
  f("aligned", kernel.aligned);
}

[[noreturn]] void refuse(const char* name, const nlohmann::json& value, const char* rule) {
  fail(ErrorCode::InvalidArgument, "operation: \"{}\" = {} must be {}", name, json_line(value),
       rule);
}

nlohmann::ordered_json value_of(DType x) {
  return to_string(x);
}
template <class T>
nlohmann::ordered_json value_of(const T& x) {
  return x;
}

void read(const char* name, const nlohmann::json& value, std::string& to) {
  if (!value.is_string()) refuse(name, value, "a text");
  to = value.get<std::string>();
}
void read(const char* name, const nlohmann::json& value, DType& to) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    if (value == to_string(dtype)) {
      to = dtype;
      return;
    }
  }
  refuse(name, value, "\"f16\", \"bf16\" or \"f32\"");
}
void read(const char* name, const nlohmann::json& value, std::int64_t& to) {
  if (!value.is_number_unsigned() || value > kMaxHeadDim) refuse(name, value, "from 0 to 512");
  to = value.get<std::int64_t>();
}
void read(const char* name, const nlohmann::json& value, bool& to) {
  if (!value.is_boolean()) refuse(name, value, "true or false");
  to = value.get<bool>();
}

platform::DeviceFacts facts_of(const std::string& arch) {
  if (is_gpu(arch)) return plan::facts_of_architecture(arch);
  platform::DeviceFacts facts;
  facts.kind = platform::Kind::cpu;
  facts.arch = platform::arch_of(isa_of(arch));
  return facts;
}

}  // namespace

OperationKernel kernel_of(const plan::AppendProblem& problem) {
  const AppendArgs& args = problem.args;
  OperationKernel kernel;
  kernel.name = kAppend;
  kernel.dtype = problem.dtype;
  kernel.head_dim = args.head_dim;
  kernel.value_head_dim = args.value_head_dim;
  kernel.rotary_dim = args.rotary_dim;
  if (args.rotary_dim > 0) kernel.other_dtype = static_cast<DType>(args.table_type);
  kernel.rotary_interleaved = args.rotary_interleaved != 0;
  kernel.aligned = problem.aligned != 0;
  return kernel;
}

OperationKernel kernel_of(const plan::MergeProblem& problem) {
  OperationKernel kernel;
  kernel.name = kMerge;
  kernel.dtype = problem.dtype;
  kernel.other_dtype = problem.part_dtype;
  kernel.head_dim = kernel.value_head_dim = problem.args.dim;
  kernel.aligned = problem.aligned != 0;
  return kernel;
}

void check_operation(const OperationKernel& kernel) {
  if (kernel.name != kAppend && kernel.name != kMerge) {
    refuse("name", kernel.name, "\"append_kv\" or \"merge_partials\"");
  }
  check_dtype("operation: dtype", kernel.dtype);
  check_dtype("operation: other_dtype", kernel.other_dtype);
  const auto check_dim = [](const char* name, std::int64_t dim) {
    if (dim < 1 || dim > kMaxHeadDim) refuse(name, dim, "from 1 to 512");
  };
  check_dim("head_dim", kernel.head_dim);
  if (kernel.value_head_dim != 0) check_dim("value_head_dim", kernel.value_head_dim);
  if (kernel.rotary_dim < 0 || kernel.rotary_dim > kernel.head_dim || kernel.rotary_dim % 2 != 0) {
    refuse("rotary_dim", kernel.rotary_dim, "even and at most head_dim");
  }
}

jit::Spec operation_spec(const OperationKernel& kernel, const std::string& arch) {
  check_operation(kernel);
  const platform::DeviceFacts device = facts_of(arch);
  if (kernel.name == kMerge) {
    plan::MergeProblem problem;
    problem.dtype = kernel.dtype;
    problem.part_dtype = kernel.other_dtype;
    problem.args.dim = static_cast<int>(kernel.head_dim);
    problem.aligned = kernel.aligned ? 1 : 0;
    return plan::plan_merge(problem, device).spec;
  }
  plan::AppendProblem problem;
  problem.dtype = kernel.dtype;
  problem.args.head_dim = static_cast<int>(kernel.head_dim);
  problem.args.value_head_dim =
      static_cast<int>(kernel.value_head_dim ? kernel.value_head_dim : kernel.head_dim);
  problem.args.rotary_dim = static_cast<int>(kernel.rotary_dim);
  problem.args.table_type = static_cast<ElementType>(kernel.other_dtype);
  problem.args.rotary_interleaved = kernel.rotary_interleaved ? 1 : 0;
  problem.aligned = kernel.aligned ? 1 : 0;
  return plan::plan_append(problem, device).spec;
}

nlohmann::ordered_json operation_to_json(const OperationKernel& kernel) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for_each_field([&](const char* name, const auto& field) { object[name] = value_of(field); },
                 kernel);
  return object;
}

OperationKernel operation_from_json(const nlohmann::json& json) {
  if (!json.is_object()) {
    fail(ErrorCode::InvalidArgument, "operation: must be a JSON object with a name and a dtype");
  }
  OperationKernel kernel;
  std::size_t known = 0;
  for_each_field(
      [&](const char* name, auto& field) {
        const auto at = json.find(name);
        if (at == json.end()) return;
        ++known;
        read(name, *at, field);
      },
      kernel);
  if (known != json.size()) {
    fail(ErrorCode::InvalidArgument, "operation: has fields that this version does not know: {}",
         json_line(json));
  }
  if (!json.contains("value_head_dim")) kernel.value_head_dim = kernel.head_dim;
  check_operation(kernel);
  return kernel;
}

std::string pack_command(const OperationKernel& kernel, const std::string& arch) {
  const nlohmann::ordered_json json = {{"operation", operation_to_json(kernel)}};
  return fmt::format("hipflash pack create -o more.hfpack --arch {} --problem '{}'",
                     arch.substr(0, arch.find(':')), json_line(json));
}

}  // namespace hipflash::api
