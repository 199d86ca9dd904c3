// The kernels of operations beside attention, as workloads name them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "hipflash/workload.h"
#include "plan/operation_plan.h"

namespace hipflash::api {

OperationKernel kernel_of(const plan::AppendProblem& problem);
OperationKernel kernel_of(const plan::MergeProblem& problem);

// Throws Error(InvalidArgument) naming the field.
void check_operation(const OperationKernel& kernel);

// The kernel for an architecture that may not be at hand. Throws Error(InvalidArgument) for what
// check_operation() refuses or an architecture that is not known.
jit::Spec operation_spec(const OperationKernel& kernel, const std::string& arch);

nlohmann::ordered_json operation_to_json(const OperationKernel& kernel);
OperationKernel operation_from_json(const nlohmann::json& json);

// The command that makes a pack with the kernel, ready for a shell.
std::string pack_command(const OperationKernel& kernel, const std::string& arch);

}  // namespace hipflash::api
