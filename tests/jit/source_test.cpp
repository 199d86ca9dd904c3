#include "jit/source.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "support.h"

namespace hipflash::jit {
namespace {

using testing::HasSubstr;

TEST(Source, EveryFamilyIsEmbeddedAndAssembles) {
  ASSERT_FALSE(families().empty());
  for (const Family& family : families()) {
    EXPECT_EQ(find_family(family.file), &family);
    EXPECT_FALSE(family.entries.empty());
    Spec spec;
    spec.family = family.file;
    spec.facts = "static constexpr int marker = 42;";
    const std::string text = source_text(spec);
    for (const auto entry : family.entries) EXPECT_THAT(text, HasSubstr(std::string(entry)));
    EXPECT_THAT(
        text,
        HasSubstr("struct Spec {\n#line 1 \"hipflash/spec\"\nstatic constexpr int marker = 42;\n"));
    EXPECT_EQ(text.find("#include \""), std::string::npos);
    EXPECT_EQ(text.find("#pragma once"), std::string::npos);
    EXPECT_EQ(source_hash(family.file).size(), 64u);
  }
}

TEST(Source, FilesAppearOnceAndLinesKeepTheirNumbers) {
  Spec spec;
  spec.family = "cpu/attention_forward.cpp";
  const std::string text = source_text(spec);
  const std::string mark = "#line 1 \"kernel_sources/common/attention_args.h\"";
  const std::size_t first = text.find(mark);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.find(mark, first + 1), std::string::npos);
  // Follow the #line marks and compare every line with the file that it claims to be from.
  std::map<std::string, std::vector<std::string>> files;
  const auto split = [](std::string_view all) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = std::min(all.find('\n', at), all.size());
      lines.emplace_back(all.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  };
  for (const EmbeddedFile& file : embedded_files()) {
    files["kernel_sources/" + std::string(file.path)] = split(file.text);
  }
  std::string name;
  std::size_t number = 0, compared = 0;
  for (const std::string& line : split(text)) {
    if (line.starts_with("#line ")) {
      number = std::stoul(line.substr(6));
      const std::size_t quote = line.find('"');
      name = line.substr(quote + 1, line.size() - quote - 2);
      continue;
    }
    if (const auto file = files.find(name); file != files.end() && number <= file->second.size()) {
      const std::string& original = file->second[number - 1];
      const bool of_prologue = line == "namespace hipflash {" || line == "struct Spec {";
      if (!line.empty() && !of_prologue) {
        ++compared;
        EXPECT_EQ(line, original) << name << ":" << number;
      }
    }
    ++number;
  }
  EXPECT_GT(compared, 200u);
}

TEST(Source, UnknownFamilyIsInternal) {
  Spec spec;
  spec.family = "cpu/no_such_file.cpp";
  const Error error = test::error_of([&] { source_text(spec); });
  EXPECT_EQ(error.code(), ErrorCode::Internal);
  EXPECT_THAT(error.what(), HasSubstr("cpu/no_such_file.cpp"));
}

}  // namespace
}  // namespace hipflash::jit
