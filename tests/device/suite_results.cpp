// Leaves a line for each test that ran on a GPU, beside those of its cases (numerics/results.h):
// many tests compare bits or ask for NaN and have no error to tell.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "numerics/target.h"

namespace hipflash::testing {
namespace {

class SuiteResults : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    const char* const path = std::getenv("HIPFLASH_RESULTS");
    if (!path || test.result()->Skipped() || target_names().empty()) return;
    const DeviceInfo& device = target(target_names().front()).context().device();
    // "Target/SmallNumbers" and "NoKeys/hip_0": the parameter is the device.
    const std::string suite = test.test_suite_name(), name = test.name();
    const nlohmann::ordered_json line = {{"kind", "test"},
                                         {"device", device.name},
                                         {"arch", device.arch},
                                         {"suite", suite.substr(suite.find('/') + 1)},
                                         {"test", name.substr(0, name.find('/'))},
                                         {"right", test.result()->Passed()}};
    std::ofstream(path, std::ios::app) << line.dump() + "\n";
  }
};

[[maybe_unused]] const bool kListens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new SuiteResults);
  return true;
}();

}  // namespace
}  // namespace hipflash::testing
