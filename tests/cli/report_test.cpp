// The tuner's report as a browser shows it.
#include <gtest/gtest.h>

#include "browser.h"
#include "command_testing.h"

namespace hipflash::cli {
namespace {

class ReportInBrowser : public CommandFolder {};

TEST_F(ReportInBrowser, OpensWithoutAConsoleMessage) {
  const std::string browser = find_browser();
  if (browser.empty()) GTEST_SKIP() << "no Chromium on PATH";
  std::ofstream(folder_ / "shapes.jsonl")
      << R"({"problem":{"dtype":"bf16","heads_q":2,"seq_q":64,"head_dim":16,"causal":true}})"
      << "\n";
  const Result tuned = run_in_folder(
      "HIPFLASH_CACHE_DIR=cache HIPFLASH_PREBUILT= HIPFLASH_DEVICE=cpu HIPFLASH_TUNING=tuning",
      "tune --shapes shapes.jsonl --report report.html");
  ASSERT_EQ(tuned.exit_code, 0) << tuned.errors;

  const BrowserPage page = open_page(browser, folder_ / "report.html", folder_ / "profile");
  ASSERT_TRUE(page.opened) << page.words;
  EXPECT_EQ(page.console, "");
  EXPECT_NE(page.dom.find("</svg></div>"), std::string::npos);
  EXPECT_NE(page.dom.find("bf16 d16"), std::string::npos);

  // The check can fail: a number that is none is told on the console.
  std::ofstream(folder_ / "wrong.html")
      << "<!DOCTYPE html><title>w</title><link rel=icon href=data:,><svg><circle cx=nan></svg>";
  const BrowserPage wrong = open_page(browser, folder_ / "wrong.html", folder_ / "profile");
  EXPECT_NE(wrong.console, "") << wrong.words;
}

}  // namespace
}  // namespace hipflash::cli
