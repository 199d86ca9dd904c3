// Notes on what compilers said of themselves.
#include "jit/identity_memo.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cache/store.h"
#include "jit/support.h"

namespace hipflash::jit::test {
namespace {

namespace fs = std::filesystem;

class Memo : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
    std::ofstream(compiler_) << "a compiler";
    IdentityMemo(folder_, {compiler_}).write({"its identity", "its description"});
    for (const auto& file : fs::directory_iterator(folder_)) note_ = file.path();
    ASSERT_EQ(note_.filename().string().find(cache::kNotePrefix), 0u);
  }
  bool found() const { return IdentityMemo(folder_, {compiler_}).read().has_value(); }

  const TestFolder own_;
  const std::string folder_ = own_ / "notes", compiler_ = own_ / "cxx";
  fs::path note_;
};

TEST_F(Memo, KeepsWhatWasSaid) {
  const auto note = IdentityMemo(folder_, {compiler_}).read();
  ASSERT_TRUE(note);
  EXPECT_EQ(note->identity, "its identity");
  EXPECT_EQ(note->description, "its description");
}

TEST_F(Memo, AnotherFileOrAnotherNameIsAskedAgain) {
  const std::string link = own_ / "cross-cxx";
  fs::create_symlink(compiler_, link);
  EXPECT_FALSE(IdentityMemo(folder_, {link}).read());
  EXPECT_FALSE(IdentityMemo("", {compiler_}).read());
  std::ofstream(compiler_, std::ios::app) << ", upgraded";
  EXPECT_FALSE(found());
}

TEST_F(Memo, DamageIsNoNote) {
  const auto size = fs::file_size(note_);
  for (std::uintmax_t at = 0; at + 1 < size; ++at) {
    std::fstream file(note_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
    file.close();
    EXPECT_FALSE(found()) << "byte " << at;
    file.open(note_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte));
  }
  EXPECT_TRUE(found());
  fs::resize_file(note_, size / 2);
  EXPECT_FALSE(found());
}

TEST_F(Memo, WhatIsNoFileOrTooLargeIsNoNote) {
  fs::resize_file(note_, 1 << 20);
  EXPECT_FALSE(found());
  fs::remove(note_);
  fs::create_directory(note_);
  EXPECT_FALSE(found());
  fs::remove(note_);
  ASSERT_EQ(::mkfifo(note_.c_str(), 0600), 0);
  EXPECT_FALSE(found());  // and it waits for nobody
  fs::remove(note_);
  fs::create_symlink("/etc/passwd", note_);
  EXPECT_FALSE(found());
}

TEST_F(Memo, GoesWithTheCache) {
  cache::Store store(cache::open_directory(folder_), {});
  store.clear();
  EXPECT_FALSE(fs::exists(note_));
}

}  // namespace
}  // namespace hipflash::jit::test
