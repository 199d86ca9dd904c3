#include "api/problem_json.h"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include "api/problem_fields.h"
#include "core/fail.h"
#include "core/json.h"

namespace hipflash::api {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::array kAlways = {"dtype", "batch",          "heads_q", "heads_kv", "seq_q",
                                "seq_k", "head_dim",       "q",       "k",        "v",
                                "out",   "value_head_dim", "aligned", "scale"};
constexpr std::array kDTypes = {DType::f16, DType::bf16, DType::f32};
constexpr std::array kAlignments = {MaskAlignment::bottom_right, MaskAlignment::top_left};

const char* name_of(DType dtype) {
  return to_string(dtype);
}
const char* name_of(MaskAlignment alignment) {
  return alignment == MaskAlignment::top_left ? "top_left" : "bottom_right";
}

ordered_json value_of(DType x) {
  return name_of(x);
}
ordered_json value_of(MaskAlignment x) {
  return name_of(x);
}
ordered_json value_of(const Strides& s) {
  return {s.batch, s.seq, s.head};
}
ordered_json value_of(const ScoreStrides& s) {
  return {s.batch, s.head, s.query, s.key};
}
ordered_json value_of(const Window& w) {
  return {w.left, w.right};
}
template <class T>
ordered_json value_of(const T& x) {
  static_assert(std::is_arithmetic_v<T>);
  return x;
}

[[noreturn]] void refuse(const char* name, const json& value, const char* rule) {
  fail(ErrorCode::InvalidArgument, "problem: \"{}\" = {} must be {}", name, json_line(value), rule);
}

template <class E, std::size_t N>
void read_name(const char* name, const json& value, const std::array<E, N>& known, E& to) {
  std::string rule = "one of";
  for (const E e : known) {
    if (value == name_of(e)) {
      to = e;
      return;
    }
    rule += std::string(" \"") + name_of(e) + "\"";
  }
  refuse(name, value, rule.c_str());
}

void read(const char* name, const json& value, DType& to) {
  read_name(name, value, kDTypes, to);
}
void read(const char* name, const json& value, MaskAlignment& to) {
  read_name(name, value, kAlignments, to);
}
void read(const char* name, const json& value, bool& to) {
  if (!value.is_boolean()) refuse(name, value, "true or false");
  to = value.get<bool>();
}
void read(const char* name, const json& value, float& to) {
  if (!value.is_number()) refuse(name, value, "a number");
  to = value.get<float>();
}
void read(const char* name, const json& value, std::int64_t& to) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer() || (value.is_number_unsigned() && value > most)) {
    refuse(name, value, "a whole number");
  }
  to = value.get<std::int64_t>();
}
template <class... N>
void read_array(const char* name, const json& value, const char* rule, N&... to) {
  if (!value.is_array() || value.size() != sizeof...(to)) refuse(name, value, rule);
  std::size_t at = 0;
  (read(name, value[at++], to), ...);
}
void read(const char* name, const json& value, Strides& to) {
  read_array(name, value, "strides of [batch, seq, head]", to.batch, to.seq, to.head);
}
void read(const char* name, const json& value, ScoreStrides& to) {
  read_array(name, value, "strides of [batch, head, query, key]", to.batch, to.head, to.query,
             to.key);
}
void read(const char* name, const json& value, Window& to) {
  read_array(name, value, "[left, right]", to.left, to.right);
}

// Fills in what a caller left out.
void complete(const json& given, Problem* problem) {
  Problem& p = *problem;
  const auto has = [&](const char* name) { return given.contains(name); };
  if (!has("batch")) p.batch = 1;
  if (!has("heads_kv")) p.heads_kv = p.heads_q;
  if (!has("seq_k")) p.seq_k = p.seq_q;
  if (!has("value_head_dim")) p.value_head_dim = p.head_dim;
  // In unsigned numbers: sizes are checked when the problem is used, and an overflow here must do
  // no harm.
  const auto times = [](std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  };
  const bool sizes_are_sane = [&] {
    for (const std::int64_t n :
         {p.batch, p.heads_q, p.heads_kv, p.seq_q, p.seq_k, p.head_dim, p.value_head_dim}) {
      if (n < 0 || n > std::int64_t{1} << 31) return false;
    }
    return times(p.heads_q, 512) < std::int64_t{1} << 31 && p.head_dim <= 512 &&
           p.value_head_dim <= 512;
  }();
  if (!sizes_are_sane) return;  // check_problem() will say which
  Problem dense = p;
  if (has("scale")) dense.scale = 1.0f;  // any but 0: only strides are taken over
  dense.set_dense_bshd();
  if (!has("scale")) p.scale = dense.scale;
  if (has("q") || has("k") || has("v") || has("out")) return;  // all strides are as they are given
  p.q = dense.q;
  p.k = dense.k;
  p.v = dense.v;
  p.out = dense.out;
  if (!has("aligned")) p.aligned = dense.aligned;
  if (p.features.lse && !has("lse_strides")) p.lse = dense.lse;
  const ScoreStrides cells{0, times(p.seq_q, p.seq_k), p.seq_k, 1};
  if (p.features.bias && !has("bias_strides")) p.bias = cells;
  if (p.features.mask && !has("mask_strides")) p.mask = cells;
}

}  // namespace

ordered_json problem_to_json(const Problem& problem) {
  ordered_json object = ordered_json::object();
  const Problem none;
  for_each_field(
      [&](const char* name, const auto& x, const auto& missing) {
        bool always = false;
        for (const std::string_view one : kAlways) always = always || one == name;
        if (always || !(x == missing)) object[name] = value_of(x);
      },
      problem, none);
  return object;
}

Problem problem_from_json(const json& json) {
  if (!json.is_object()) {
    fail(ErrorCode::InvalidArgument, "problem: must be a JSON object with the fields of a Problem");
  }
  Problem problem;
  std::set<std::string_view> known;
  for_each_field(
      [&](const char* name, auto& field) {
        known.insert(name);
        if (const auto at = json.find(name); at != json.end()) read(name, *at, field);
      },
      problem);
  for (const auto& [name, value] : json.items()) {
    if (known.contains(name)) continue;
    fail(ErrorCode::InvalidArgument, "problem: \"{}\" is no field that this version knows", name);
  }
  complete(json, &problem);
  return problem;
}

}  // namespace hipflash::api
