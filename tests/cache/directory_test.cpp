#include "cache/directory.h"

#include "cache_testing.h"

namespace hipflash::cache {
namespace {

using testing::TempFolder;

TEST(Directory, IsCreatedPrivateWithItsParents) {
  const TempFolder temp;
  const Directory made = open_directory(temp.path() / "a" / "b c" / "кэш-ü");
  EXPECT_EQ(made.access, Access::ReadWrite) << made.reason;
  struct stat status {};
  for (const auto& at : std::filesystem::recursive_directory_iterator(temp.path())) {
    ASSERT_EQ(stat(at.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0700U) << at.path();
  }
  EXPECT_EQ(open_directory(made.path / "").access, Access::ReadWrite);
}

TEST(Directory, OthersMayNotWrite) {
  const TempFolder temp;
  for (const mode_t mode : {0777U, 0770U, 0702U, 01777U}) {
    ASSERT_EQ(chmod(temp.path().c_str(), mode), 0);
    const Directory directory = open_directory(temp.path());
    EXPECT_EQ(directory.access, Access::None);
    EXPECT_NE(directory.reason.find(temp.path().string()), std::string::npos) << directory.reason;
  }
  ASSERT_EQ(chmod(temp.path().c_str(), 0755), 0);
  EXPECT_EQ(open_directory(temp.path()).access, Access::ReadWrite);
}

TEST(Directory, ForeignOwnerIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  const TempFolder temp;
  ASSERT_EQ(chown(temp.path().c_str(), 12345, 12345), 0);
  const Directory directory = open_directory(temp.path());
  EXPECT_EQ(directory.access, Access::None);
  EXPECT_NE(directory.reason.find("12345"), std::string::npos) << directory.reason;
}

TEST(Directory, RootsFolderIsReadOnlyForAUser) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write to /usr/share";
  const Directory directory = open_directory("/usr/share");
  EXPECT_EQ(directory.access, Access::ReadOnly) << directory.reason;
}

TEST(Directory, ReadOnlyFolder) {
  const TempFolder temp;
  std::filesystem::create_directory(temp / "cache");
  ASSERT_EQ(chmod((temp / "cache").c_str(), 0500), 0);
  EXPECT_TRUE(testing::as_ordinary_user(temp.path(), [&] {
    const Directory directory = open_directory(temp / "cache");
    return directory.access == Access::ReadOnly && !directory.reason.empty() &&
           open_directory(temp.path() / "cache" / "below").access == Access::None;
  }));
}

TEST(Directory, MissingHomeAndFilesInTheWay) {
  EXPECT_EQ(open_directory({}).access, Access::None);
  EXPECT_NE(open_directory({}).reason.find("HIPFLASH_CACHE_DIR"), std::string::npos);
  const TempFolder temp;
  testing::write_file(temp / "file", {});
  EXPECT_EQ(open_directory(temp / "file").access, Access::None);
  EXPECT_EQ(open_directory(temp.path() / "file" / "below").access, Access::None);
  EXPECT_EQ(open_directory("/proc/hipflash").access, Access::None);
}

TEST(Directory, DefaultFollowsTheEnvironment) {
  const int status = testing::run_child([] {
    setenv("XDG_CACHE_HOME", "/x/cache", 1);
    if (default_directory() != "/x/cache/hipflash") return 1;
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "/home/ü s", 1);
    if (default_directory() != "/home/ü s/.cache/hipflash") return 2;
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    const std::filesystem::path path = default_directory();
    return path.empty() || path.is_absolute() ? 0 : 3;
  });
  EXPECT_TRUE(testing::exited_with(status, 0)) << status;
}

TEST(Directory, RelativePathsStayWhenTheWorkingFolderChanges) {
  const TempFolder temp;
  const int status = testing::run_child([&] {
    if (chdir(temp.path().c_str()) != 0) return 1;
    return open_directory("cache").path.is_absolute() ? 0 : 2;
  });
  EXPECT_TRUE(testing::exited_with(status, 0)) << status;
}

}  // namespace
}  // namespace hipflash::cache
