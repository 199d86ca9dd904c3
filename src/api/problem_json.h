// The JSON form of a Problem: a line of a workload, and what a report or a tuning store says.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "hipflash/problem.h"

namespace hipflash::api {

// An object with a member for each field of for_each_field(): sizes, strides and scale always,
// others where they differ from Problem{}. Strides are arrays, in the order of their struct.
nlohmann::ordered_json problem_to_json(const Problem& problem);

// The inverse. What is left out is what a caller would expect: one sequence, as many key/value as
// query heads, as many keys as queries, dense (batch, seq, heads, dim) tensors, scale 1/√head_dim.
// Throws Error(InvalidArgument) naming the field for anything else than such an object.
Problem problem_from_json(const nlohmann::json& json);

}  // namespace hipflash::api
