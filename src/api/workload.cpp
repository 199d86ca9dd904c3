#include "hipflash/workload.h"

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "api/operation_kernels.h"
#include "api/problem_json.h"
#include "api/recorder.h"
#include "cache/io.h"
#include "core/fail.h"
#include "core/json.h"

namespace hipflash {
namespace {

WorkloadItem item_of(const nlohmann::json& json) {
  if (!json.is_object() || json.contains("problem") == json.contains("operation")) {
    fail(ErrorCode::InvalidArgument,
         "must be a JSON object with \"problem\" or \"operation\" and, if known, \"arch\" and "
         "\"compute_units\"");
  }
  WorkloadItem item;
  for (const auto& [name, value] : json.items()) {
    if (name == "problem") {
      item.problem = api::problem_from_json(value);
    } else if (name == "operation") {
      item.operation = api::operation_from_json(value);
    } else if (name == "arch" && value.is_string()) {
      item.arch = value.get<std::string>();
    } else if (name == "compute_units" && value.is_number_unsigned() && value <= 1 << 20) {
      item.compute_units = value.get<int>();
    } else {
      fail(ErrorCode::InvalidArgument,
           "\"{}\" must be one of \"arch\" (a text), \"compute_units\" (a count), "
           "\"problem\", \"operation\"",
           name);
    }
  }
  return item;
}

}  // namespace

std::string to_json_line(const WorkloadItem& item) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!item.arch.empty()) json["arch"] = item.arch;
  if (item.compute_units != 0) json["compute_units"] = item.compute_units;
  if (item.is_operation()) {
    json["operation"] = api::operation_to_json(item.operation);
  } else {
    json["problem"] = api::problem_to_json(item.problem);
  }
  return json_line(json);
}

WorkloadItem workload_item_from_json(const std::string& line) {
  return item_of(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false));
}

namespace {

// Far longer than any problem's line; a file that is none of ours may be one endless line.
constexpr std::size_t kLongestLine = 1 << 20;

// Like std::getline, but a line that is too long is an error.
bool read_line(std::istream& file, std::string* line, const std::string& path) {
  line->clear();
  for (int c; (c = file.get()) != std::istream::traits_type::eof();) {
    if (c == '\n') return true;
    if (line->size() == kLongestLine) {
      fail(ErrorCode::InvalidArgument, "workload {} has a line of more than {} bytes", path,
           kLongestLine);
    }
    line->push_back(static_cast<char>(c));
  }
  if (file.eof() && !line->empty()) return true;
  return false;
}

}  // namespace

std::vector<WorkloadItem> read_workload(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::vector<WorkloadItem> items;
  std::unordered_set<std::string> seen;
  std::string line;
  for (std::size_t number = 1; read_line(file, &line, path); ++number) {
    const bool unfinished = file.eof();
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line.ends_with(api::kTornMark)) continue;
    try {
      WorkloadItem item = workload_item_from_json(line);
      if (seen.insert(to_json_line(item)).second) items.push_back(std::move(item));
    } catch (const Error& error) {
      if (unfinished) break;
      fail(error.code(), "workload {}, line {}: {}", path, number, error.what());
    }
  }
  if (!file.eof()) {
    fail(ErrorCode::InvalidArgument, "workload \"{}\" cannot be read: {}", path,
         cache::io::error_text(errno != 0 ? errno : EIO));
  }
  return items;
}

}  // namespace hipflash
