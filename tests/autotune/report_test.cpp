// The report of measurements that are not as usual.
#include <gmock/gmock.h>

#include "autotune/samples.h"
#include "tuning_testing.h"

namespace hipflash::autotune {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

ConfigSample config(int tile_keys, double ms, double ratio, const std::string& state) {
  ConfigSample made;
  made.tile = tile(4, tile_keys);
  made.ms = {ms, ms * 0.9, ms * 1.1};
  made.ratio = {ratio, ratio * 0.98, ratio * 1.02};
  made.rounds = ms > 0 ? 20 : 0;
  made.state = state;
  return made;
}

RaceSample race(const std::string& label, std::vector<ConfigSample> configs) {
  RaceSample made;
  made.key = key_of(64, 9, 9);
  made.label = label;
  made.batch = 1;
  made.heads = 8;
  made.queries = made.keys = 512;
  made.flops = 1e9;
  made.configs = std::move(configs);
  return made;
}

// A browser tells of each number in an SVG that is none.
void expect_numbers(const std::string& html) {
  for (const char* wrong : {"=\"nan", "=\"-nan", "=\"inf", "=\"-inf", ">nan", ">inf", ">-nan"}) {
    EXPECT_THAT(html, Not(HasSubstr(wrong)));
  }
}

TEST(Report, WhatWasNotMeasuredHasNoPlaceInPlots) {
  const std::string html = report_html(
      mi300(), {race("f16 d64 dense", {config(64, 0, 1, "spills"), config(32, 0, 1, "crashes")}),
                race("f16 d64 causal", {})});
  expect_numbers(html);
  EXPECT_THAT(html, HasSubstr("crashes"));
  expect_numbers(report_html(mi300(), {}));
}

TEST(Report, ChosenAndDefaultAreTold) {
  const std::string html =
      report_html(mi300(), {race("a", {config(64, 2, 1, "slower"), config(32, 1, 0.5, "chosen")}),
                            race("b", {config(64, 1, 1, "chosen"), config(32, 2, 2, "dropped")})});
  expect_numbers(html);
  for (const char* name : {"\"chosen\"", "\"chosen default\"", "\"default\"", "\"other\""}) {
    EXPECT_THAT(html, HasSubstr(std::string("<g class=") + name));
  }
  EXPECT_THAT(html, HasSubstr("2 problems were measured; in 1 of them"));
  // The axis of ratios is marked at 1, where the default is.
  EXPECT_THAT(html, HasSubstr("class=\"even\""));
  EXPECT_THAT(html, HasSubstr(">1.00<"));
}

TEST(Report, TheTableOfTextHasALineForEachProblem) {
  const std::string text =
      report_text({race("b", {config(64, 2, 1, "slower"), config(32, 1, 0.5, "chosen")}),
                   race("a", {config(64, 1, 1, "chosen"), config(32, 2, 2, "dropped")}),
                   race("c", {config(64, 0, 1, "spills")}), race("d", {})});
  const std::string standard = plan::to_text(tile(4, 64)), other = plan::to_text(tile(4, 32));
  EXPECT_THAT(text, ContainsRegex("^problem +speed / default [(]95%[)] +samples +default config"));
  // Twice as fast: the interval of the time's ratio, 0.49 to 0.51, the other way round.
  EXPECT_THAT(text, ContainsRegex("b b1 h8 s512x512 +2.000 [(]1.961 to 2.041[)] +20  " + standard +
                                  "  " + other + "\n"));
  EXPECT_THAT(text, ContainsRegex("a b1 h8 s512x512 +1 +20  " + standard + "  default\n"));
  EXPECT_THAT(text, ContainsRegex("c b1 h8 s512x512 +" + standard + "  none could be measured\n"));
  EXPECT_THAT(text, ContainsRegex("d b1 h8 s512x512 +none could be measured\n"));
  EXPECT_LT(text.find("\na "), text.find("\nb "));
}

TEST(Report, TextIsNotMarkup) {
  Fingerprint device = mi300();
  device.name = "<script>alert(\"1\")</script>";
  const std::string html =
      report_html(device, {race("<b>&", {config(64, 1, 1, "wrong: <i>\"far\"</i>")})});
  for (const char* tag : {"<script", "<b>", "<i>"}) EXPECT_THAT(html, Not(HasSubstr(tag)));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;"));
}

}  // namespace
}  // namespace hipflash::autotune
