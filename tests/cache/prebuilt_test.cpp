#include "cache/prebuilt.h"

#include "cache_testing.h"

namespace hipflash::cache {
namespace {

using testing::entry_path;
using testing::sample_code;
using testing::sample_info;
using testing::TempFolder;
using testing::write_file;

Prebuilt::Sources folders(std::vector<std::filesystem::path> paths) {
  Prebuilt::Sources sources;
  sources.paths = std::move(paths);
  return sources;
}

EntryInfo made_by(const std::string& compiler) {
  EntryInfo info = sample_info();
  info.inputs.compiler = compiler;
  return info;
}

void ship(const std::filesystem::path& folder, const std::string& compiler, unsigned seed) {
  const EntryInfo info = made_by(compiler);
  write_file(entry_path(folder, key_of(info.inputs)), encode(info, sample_code(seed, 500)));
}

TEST(Prebuilt, ExactKeyWinsOverAnyCompiler) {
  const TempFolder first;
  const TempFolder second;
  ship(first.path(), "shipped", 1);
  ship(second.path(), "installed", 2);
  Prebuilt prebuilt(folders({first.path(), second.path()}));
  auto match = prebuilt.find(made_by("installed").inputs);
  ASSERT_TRUE(match);
  EXPECT_TRUE(match->exact);
  EXPECT_EQ(match->entry.code, sample_code(2, 500));
  match = prebuilt.find(made_by("none at all").inputs);
  ASSERT_TRUE(match);
  EXPECT_FALSE(match->exact);
  EXPECT_EQ(match->entry.code, sample_code(1, 500));  // the first folder
}

TEST(Prebuilt, ExactKeyIsFoundUnderAnyFileName) {
  const TempFolder folder;
  write_file(folder / "a.hfentry", encode(made_by("x"), sample_code(1, 100)));
  write_file(folder / "b.hfentry", encode(made_by("y"), sample_code(2, 100)));
  Prebuilt prebuilt(folders({folder.path()}));
  const auto match = prebuilt.find(made_by("y").inputs);
  ASSERT_TRUE(match);
  EXPECT_TRUE(match->exact);
  EXPECT_EQ(match->entry.code, sample_code(2, 100));
}

TEST(Prebuilt, AnotherKernelArchitectureOrAbiDoesNotMatch) {
  const TempFolder folder;
  ship(folder.path(), "shipped", 1);
  Prebuilt prebuilt(folders({folder.path()}));
  KeyInputs inputs = sample_info().inputs;
  inputs.arch = "x86-64+avx512f";
  EXPECT_FALSE(prebuilt.find(inputs));
  inputs = sample_info().inputs;
  ++inputs.abi;
  EXPECT_FALSE(prebuilt.find(inputs));
  inputs = sample_info().inputs;
  inputs.source_hash = hash_hex("newer text");
  EXPECT_FALSE(prebuilt.find(inputs));
}

TEST(Prebuilt, FaultyFilesArePassedOverAndLoggedOnce) {
  const TempFolder folder;
  ship(folder.path(), "broken", 1);
  ship(folder.path(), "whole", 2);
  const auto broken = entry_path(folder.path(), key_of(made_by("broken").inputs));
  Bytes bytes = testing::read_file(broken);
  bytes.back() ^= 1;
  write_file(broken, bytes);
  Prebuilt prebuilt(folders({folder.path()}));
  const int lines = testing::log_lines([&] {
    for (int i = 0; i < 3; ++i) {
      const auto match = prebuilt.find(made_by("broken").inputs);
      ASSERT_TRUE(match);
      EXPECT_EQ(match->entry.code, sample_code(2, 500));
    }
  });
  EXPECT_EQ(lines, 1);
  EXPECT_TRUE(std::filesystem::exists(broken));
}

TEST(Prebuilt, FoldersAndFilesOfOthersAreRefused) {
  const TempFolder folder;
  ship(folder.path(), "shipped", 1);
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  testing::log_lines([&] {
    Prebuilt prebuilt(folders({folder.path(), folder / "missing"}));
    EXPECT_EQ(prebuilt.refused().size(), 2u);
    EXPECT_FALSE(prebuilt.find(made_by("shipped").inputs));
  });
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  const auto file = entry_path(folder.path(), key_of(made_by("shipped").inputs));
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  testing::log_lines(
      [&] { EXPECT_FALSE(Prebuilt(folders({folder.path()})).find(made_by("shipped").inputs)); });
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  EXPECT_TRUE(Prebuilt(folders({folder.path()})).find(made_by("shipped").inputs));
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(file.c_str(), 12345, 12345), 0);
  testing::log_lines(
      [&] { EXPECT_FALSE(Prebuilt(folders({folder.path()})).find(made_by("shipped").inputs)); });
}

TEST(Prebuilt, AFolderThatMayNotBeReadIsTold) {
  const TempFolder folder;
  const std::filesystem::path sealed = folder / "sealed";
  std::filesystem::create_directory(sealed);
  ASSERT_EQ(chmod(sealed.c_str(), 0), 0);
  EXPECT_TRUE(testing::as_ordinary_user(folder.path(), [&] {
    std::string words;
    testing::log_lines([&] { EXPECT_EQ(Prebuilt(folders({sealed})).refused().size(), 1u); },
                       &words);
    return words.find("Permission denied") != std::string::npos;
  }));
  ASSERT_EQ(chmod(sealed.c_str(), 0700), 0);  // or it could not be removed
}

TEST(Prebuilt, LinkedFilesServe) {
  const TempFolder files;
  const TempFolder folder;
  ship(files.path(), "shipped", 1);
  const std::string key = key_of(made_by("shipped").inputs);
  std::filesystem::create_symlink(entry_path(files.path(), key), entry_path(folder.path(), key));
  EXPECT_TRUE(Prebuilt(folders({folder.path()})).find(made_by("shipped").inputs));
}

TEST(Prebuilt, NoFolders) {
  EXPECT_FALSE(Prebuilt(folders({})).find(sample_info().inputs));
}

}  // namespace
}  // namespace hipflash::cache
