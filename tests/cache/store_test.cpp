#include "cache/store.h"

#include <sys/mount.h>

#include "cache_testing.h"

namespace hipflash::cache {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::entry_path;
using testing::log_lines;
using testing::sample_code;
using testing::sample_info;
using testing::TempFolder;
using testing::write_file;

std::string key_for(const std::string& family) {
  return key_of(sample_info(family).inputs);
}

TEST(Store, PutThenFind) {
  const TempFolder temp("hipflash cache ключ");
  Store store(open_directory(temp / "c"));
  const EntryInfo info = sample_info();
  const std::string key = key_of(info.inputs);
  EXPECT_FALSE(store.find(key));
  ASSERT_TRUE(store.put(info, sample_code(1, 3000)));
  const auto entry = Store(open_directory(temp / "c")).find(key);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->code, sample_code(1, 3000));
  EXPECT_EQ(entry->info, info);
  struct stat status {};
  ASSERT_EQ(stat(entry_path(temp / "c", key).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
  EXPECT_EQ(store.total_bytes(), static_cast<std::uint64_t>(status.st_size));
}

TEST(Store, OnlyKeysNameFiles) {
  const TempFolder temp;
  Store store(open_directory(temp.path()));
  EXPECT_FALSE(store.find("../../etc/passwd"));
  store.evict("../x", "reason");
  EXPECT_FALSE(store.lock("../x", milliseconds(0)).held());
}

// Each of these is a miss, removed, told in one line, and repaired by the next put.
TEST(Store, FaultyFilesAreEvictedAndLoggedOnce) {
  const TempFolder temp;
  const EntryInfo info = sample_info();
  const std::string key = key_of(info.inputs);
  const Bytes good = encode(info, sample_code(1, 2000));
  const Bytes foreign = encode(sample_info("other"), sample_code(2, 100));
  EntryInfo other_arch = info;
  other_arch.inputs.arch = "gfx942";
  Bytes flipped = good;
  flipped[good.size() / 2] ^= 1;
  Bytes version = good;
  version[8] = 9;
  const auto path = entry_path(temp.path(), key);
  Store store(open_directory(temp.path()));
  const std::pair<const char*, std::function<void()>> faults[] = {
      {"truncated", [&] { write_file(path, ByteView(good).first(good.size() - 1)); }},
      {"flipped", [&] { write_file(path, flipped); }},
      {"version", [&] { write_file(path, version); }},
      {"empty", [&] { write_file(path, {}); }},
      {"key", [&] { write_file(path, foreign); }},
      {"arch", [&] { write_file(path, encode(other_arch, sample_code(1, 2000))); }},
      {"link", [&] { std::filesystem::create_symlink("/etc/passwd", path); }},
      {"dangling link", [&] { std::filesystem::create_symlink("/nowhere", path); }},
      {"fifo", [&] { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); }},
      {"writable by all",
       [&] {
         write_file(path, good);
         ASSERT_EQ(chmod(path.c_str(), 0666), 0);
       }},
      {"huge",
       [&] {
         write_file(path, good);
         std::filesystem::resize_file(path, kMaxFileBytes + 1);
       }},
  };
  for (const auto& fault : faults) {
    const char* const name = fault.first;
    std::filesystem::remove(path);
    fault.second();
    const int lines = log_lines([&] {
      EXPECT_FALSE(store.find(key)) << name;
      EXPECT_FALSE(store.find(key)) << name;
    });
    EXPECT_EQ(lines, 1) << name;
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(path))) << name;
    EXPECT_TRUE(store.put(info, sample_code(1, 2000)));
    EXPECT_TRUE(store.find(key)) << name;
  }
  EXPECT_TRUE(store.writable());
}

TEST(Store, TruncatedOrFlippedAnywhereIsAMiss) {
  const TempFolder temp;
  const EntryInfo info = sample_info();
  const std::string key = key_of(info.inputs);
  const Bytes good = encode(info, sample_code(1, 60));
  Store store(open_directory(temp.path()));
  log_lines([&] {
    for (std::size_t at = 0; at < good.size(); ++at) {
      Bytes flipped = good;
      flipped[at] ^= 0x20;
      write_file(entry_path(temp.path(), key), flipped);
      ASSERT_FALSE(store.find(key)) << at;
      write_file(entry_path(temp.path(), key), ByteView(good).first(at));
      ASSERT_FALSE(store.find(key)) << at;
    }
  });
}

TEST(Store, FolderAtAnEntrysNameIsAMiss) {
  const TempFolder temp;
  const std::string key = key_for("cpu/attention_forward");
  std::filesystem::create_directories(entry_path(temp.path(), key) / "x");
  Store store(open_directory(temp.path()));
  const int lines = log_lines([&] {
    EXPECT_FALSE(store.find(key));
    EXPECT_FALSE(store.put(sample_info(), sample_code(1, 10)));
    EXPECT_FALSE(store.find(key));
  });
  EXPECT_EQ(lines, 1);
  EXPECT_TRUE(store.put(sample_info("other"), sample_code(1, 10)));
}

// Whoever made it. Entries that other processes add are found, and found ones count as used.
TEST(Store, FindBySpecKnowsNoCompiler) {
  const TempFolder temp;
  Store store(open_directory(temp.path())), other(open_directory(temp.path()));
  EntryInfo theirs = sample_info();
  theirs.inputs.compiler = "g++ 13";
  theirs.inputs.options = {"-O1"};
  const std::string spec_id = spec_id_of(sample_info().inputs), key = key_of(theirs.inputs);
  EXPECT_FALSE(store.find_by_spec(spec_id));
  ASSERT_TRUE(other.put(theirs, sample_code(1, 3000)));
  ASSERT_TRUE(store.find_by_spec(spec_id));
  EXPECT_EQ(store.find_by_spec(spec_id)->info, theirs);
  EXPECT_FALSE(store.find_by_spec(spec_id_of(sample_info("other").inputs)));

  // A folder that was left alone for a while is not read again before it changes.
  const struct timespec before[2] = {{0, UTIME_OMIT}, {time(nullptr) - 100, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, temp.path().c_str(), before, 0), 0);
  ASSERT_TRUE(store.find_by_spec(spec_id));
  ASSERT_TRUE(other.put(sample_info("other"), sample_code(2, 100)));
  EXPECT_TRUE(store.find_by_spec(spec_id_of(sample_info("other").inputs)));

  testing::set_age(entry_path(temp.path(), key), seconds(100000));
  ASSERT_TRUE(store.find_by_spec(spec_id));
  struct stat status {};
  ASSERT_EQ(stat(entry_path(temp.path(), key).c_str(), &status), 0);
  EXPECT_LT(time(nullptr) - status.st_mtime, 1000);

  std::filesystem::rename(entry_path(temp.path(), key), temp / "elsewhere");
  std::filesystem::create_symlink(temp / "elsewhere", entry_path(temp.path(), key));
  log_lines([&] { EXPECT_FALSE(store.find_by_spec(spec_id)); });
  EXPECT_FALSE(std::filesystem::is_symlink(entry_path(temp.path(), key)));
  EXPECT_FALSE(store.find_by_spec(spec_id));
  Bytes damaged = encode(theirs, sample_code(1, 3000));
  damaged.back() ^= 1;
  testing::write_file(entry_path(temp.path(), key), damaged);
  EXPECT_EQ(log_lines([&] { EXPECT_FALSE(store.find_by_spec(spec_id)); }), 1);
  EXPECT_FALSE(std::filesystem::exists(entry_path(temp.path(), key)));
}

TEST(Store, EvictRemovesWhatWouldNotLoad) {
  const TempFolder temp;
  Store store(open_directory(temp.path()));
  const std::string key = key_for("cpu/attention_forward");
  ASSERT_TRUE(store.put(sample_info(), sample_code(1, 10)));
  std::string text;
  EXPECT_EQ(log_lines([&] { EXPECT_TRUE(store.evict(key, "dlopen: wrong ELF class")); }, &text), 1);
  EXPECT_NE(text.find("wrong ELF class"), std::string::npos);
  EXPECT_FALSE(store.find(key));
}

TEST(Store, FileTimesDecideNothing) {
  const TempFolder temp;
  Store store(open_directory(temp.path()));
  ASSERT_TRUE(store.put(sample_info(), sample_code(1, 10)));
  const std::string key = key_for("cpu/attention_forward");
  for (const long age : {1000000000L, -1000000000L}) {
    testing::set_age(entry_path(temp.path(), key), seconds(age));
    EXPECT_TRUE(store.find(key));
  }
}

TEST(Store, PruneRemovesLeastRecentlyUsed) {
  const TempFolder temp;
  Store store(open_directory(temp.path()));
  for (int i = 0; i < 6; ++i) {
    const std::string family = fmt::format("family{}", i);
    ASSERT_TRUE(store.put(sample_info(family), sample_code(1, 1000)));
    testing::set_age(entry_path(temp.path(), key_for(family)), seconds(6000 - 100 * i));
  }
  ASSERT_TRUE(store.find(key_for("family0")));  // now the most recent
  EXPECT_EQ(store.list().front().key, key_for("family0"));
  const std::uint64_t each = store.total_bytes() / 6;
  Limits limits;
  limits.max_entries = 4;
  EXPECT_EQ(store.prune(limits).entries, 2u);
  EXPECT_TRUE(store.find(key_for("family0")));
  EXPECT_FALSE(store.find(key_for("family1")));
  EXPECT_FALSE(store.find(key_for("family2")));
  limits.max_bytes = 2 * each + each / 2;
  EXPECT_EQ(store.prune(limits).entries, 2u);
  EXPECT_TRUE(store.find(key_for("family0")));
  EXPECT_LE(store.total_bytes(), limits.max_bytes);
}

TEST(Store, PutKeepsTheLimits) {
  const TempFolder temp;
  Limits limits;
  limits.max_entries = 3;
  limits.max_bytes = 20000;
  Store store(open_directory(temp.path()), limits);
  log_lines([&] {
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(store.put(sample_info(fmt::format("family{}", i)), sample_code(1, 100)));
    }
    EXPECT_FALSE(store.put(sample_info("large"), sample_code(1, 60000)));
  });
  EXPECT_EQ(store.list().size(), 3u);
  EXPECT_TRUE(store.find(key_for("family7")));
}

TEST(Store, PruneLeavesLocksAndLiveTemporaries) {
  const TempFolder temp;
  Store store(open_directory(temp.path()));
  ASSERT_TRUE(store.put(sample_info(), sample_code(1, 100)));
  const std::string key = key_for("cpu/attention_forward");
  const FileLock lock = store.lock(key, milliseconds(0));
  ASSERT_TRUE(lock.held()) << lock.reason();
  write_file(temp / "tmp-1-young", {});
  write_file(temp / "tmp-1-old", {});
  testing::set_age(temp / "tmp-1-old", seconds(3600));
  write_file(temp / "notes.txt", {});
  Limits none;
  none.max_entries = 0;
  EXPECT_EQ(store.prune(none).entries, 1u);
  EXPECT_TRUE(std::filesystem::exists(temp / "tmp-1-young"));
  EXPECT_FALSE(std::filesystem::exists(temp / "tmp-1-old"));
  EXPECT_TRUE(std::filesystem::exists(temp / "notes.txt"));
  EXPECT_EQ(store.lock(key, milliseconds(0)).state(), FileLock::State::TimedOut);
  store.clear();
  EXPECT_EQ(store.lock(key, milliseconds(0)).state(), FileLock::State::TimedOut);
  EXPECT_TRUE(std::filesystem::exists(temp.path() / "locks" / (key + ".lock")));
}

TEST(Store, ClearRemovesEntriesAndFreeLocks) {
  const TempFolder temp;
  Store store(open_directory(temp.path()));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(store.put(sample_info(fmt::format("family{}", i)), sample_code(1, 100)));
    EXPECT_TRUE(store.lock(key_for(fmt::format("family{}", i)), milliseconds(0)).held());
  }
  const Removed removed = store.clear();
  EXPECT_EQ(removed.entries, 3u);
  EXPECT_GT(removed.bytes, 0u);
  EXPECT_TRUE(store.list().empty());
  EXPECT_TRUE(std::filesystem::is_empty(temp.path() / "locks"));
}

TEST(Store, ListAndVerify) {
  const TempFolder temp;
  Store store(open_directory(temp.path()));
  ASSERT_TRUE(store.put(sample_info("good"), sample_code(1, 100)));
  ASSERT_TRUE(store.put(sample_info("bad"), sample_code(2, 100)));
  const auto bad = entry_path(temp.path(), key_for("bad"));
  Bytes bytes = testing::read_file(bad);
  bytes.back() ^= 1;
  write_file(bad, bytes);
  ASSERT_EQ(store.list().size(), 2u);
  const auto faulty = [](const std::vector<Listed>& entries) {
    return std::count_if(entries.begin(), entries.end(),
                         [](const Listed& listed) { return !listed.fault.empty(); });
  };
  EXPECT_EQ(faulty(store.list()), 0);  // the header is whole
  EXPECT_EQ(faulty(store.verify()), 1);
  EXPECT_TRUE(std::filesystem::exists(bad));
  const auto removed = [](const std::vector<Listed>& entries) {
    return std::count_if(entries.begin(), entries.end(),
                         [](const Listed& listed) { return listed.removed; });
  };
  EXPECT_EQ(log_lines([&] { EXPECT_EQ(removed(store.verify(true)), 1); }), 1);
  EXPECT_FALSE(std::filesystem::exists(bad));
  std::filesystem::create_directory(bad);  // which cannot be removed as a file
  const std::vector<Listed> left = store.verify(true);
  EXPECT_EQ(faulty(left), 1);
  EXPECT_EQ(removed(left), 0);
  std::filesystem::remove(bad);
  ASSERT_EQ(store.list().size(), 1u);
  EXPECT_EQ(store.list()[0].header->info, sample_info("good"));
}

TEST(Store, UnusableFolderDegradesWithOneWarning) {
  const TempFolder temp;
  ASSERT_EQ(chmod(temp.path().c_str(), 0777), 0);
  const int lines = log_lines([&] {
    for (int i = 0; i < 3; ++i) {
      Store store(open_directory(temp.path()));
      EXPECT_FALSE(store.readable());
      EXPECT_FALSE(store.put(sample_info(), sample_code(1, 10)));
      EXPECT_FALSE(store.find(key_for("cpu/attention_forward")));
      EXPECT_FALSE(store.lock(key_for("cpu/attention_forward"), milliseconds(1000)).held());
      EXPECT_FALSE(store.degraded_reason().empty());
      EXPECT_TRUE(store.list().empty());
      EXPECT_EQ(store.clear().entries, 0u);
    }
  });
  EXPECT_EQ(lines, 1);
}

TEST(Store, ReadOnlyFolderStillServes) {
  const TempFolder temp;
  std::filesystem::create_directory(temp / "c");
  ASSERT_EQ(chmod((temp / "c").c_str(), 0700), 0);
  log_lines([&] {
    EXPECT_TRUE(Store(open_directory(temp / "c")).put(sample_info(), sample_code(1, 10)));
  });
  write_file(entry_path(temp / "c", key_for("bad")), {});
  ASSERT_EQ(chmod((temp / "c").c_str(), 0500), 0);
  EXPECT_TRUE(testing::as_ordinary_user(temp.path(), [&] {
    bool right = true;
    const int lines = log_lines([&] {
      Store store(open_directory(temp / "c"));
      right = store.readable() && !store.writable() &&
              store.find(key_for("cpu/attention_forward")).has_value() &&
              !store.put(sample_info("new"), sample_code(1, 10)) && !store.find(key_for("bad")) &&
              !store.find(key_for("bad"));
    });
    return right && lines == 2;  // one for the folder, one for the bad entry that cannot be removed
  }));
  ASSERT_EQ(chmod((temp / "c").c_str(), 0700), 0);
}

TEST(Store, FolderRemovedWhileRunningComesBack) {
  const TempFolder temp;
  Store store(open_directory(temp / "c"));
  ASSERT_TRUE(store.put(sample_info(), sample_code(1, 10)));
  std::filesystem::remove_all(temp / "c");
  EXPECT_FALSE(store.find(key_for("cpu/attention_forward")));
  EXPECT_TRUE(store.lock(key_for("cpu/attention_forward"), milliseconds(0)).held());
  std::filesystem::remove_all(temp / "c");
  EXPECT_TRUE(store.put(sample_info(), sample_code(1, 10)));
  EXPECT_TRUE(store.find(key_for("cpu/attention_forward")));
}

// A small file system of its own, where this process may mount one.
class Mounted {
 public:
  Mounted(const std::filesystem::path& path, unsigned long flags, const char* options)
      : path_(path) {
    std::filesystem::create_directory(path);
    mounted_ = mount("tmpfs", path.c_str(), "tmpfs", flags, options) == 0;
  }
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;
  ~Mounted() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  explicit operator bool() const { return mounted_; }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
};

TEST(Store, FullDisk) {
  const TempFolder temp;
  const Mounted disk(temp / "m", 0, "size=64k,mode=0700");
  if (!disk) GTEST_SKIP() << "no permission to mount";
  Store store(open_directory(temp / "m"));
  ASSERT_TRUE(store.put(sample_info("small"), sample_code(1, 100)));
  const int lines = log_lines([&] {
    for (unsigned i = 0; i < 3; ++i) {
      EXPECT_FALSE(store.put(sample_info("large"), sample_code(i, 200000)));
    }
  });
  EXPECT_EQ(lines, 1);
  EXPECT_TRUE(store.find(key_for("small")));
  EXPECT_FALSE(store.find(key_for("large")));
  for (const auto& at : std::filesystem::directory_iterator(temp / "m")) {
    EXPECT_FALSE(at.path().filename().string().starts_with("tmp-"));
  }
}

TEST(Store, NoexecFolderServes) {
  const TempFolder temp;
  const Mounted disk(temp / "m", MS_NOEXEC, "size=1m,mode=0700");
  if (!disk) GTEST_SKIP() << "no permission to mount";
  Store store(open_directory(temp / "m"));
  EXPECT_TRUE(store.put(sample_info(), sample_code(1, 100)));
  EXPECT_TRUE(store.find(key_for("cpu/attention_forward")));
}

TEST(Store, ReadOnlyFileSystem) {
  const TempFolder temp;
  const Mounted disk(temp / "m", 0, "size=1m,mode=0700");
  if (!disk) GTEST_SKIP() << "no permission to mount";
  ASSERT_TRUE(Store(open_directory(temp / "m")).put(sample_info(), sample_code(1, 100)));
  if (mount(nullptr, (temp / "m").c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
    GTEST_SKIP() << "no permission to remount";
  }
  log_lines([&] {
    Store store(open_directory(temp / "m"));
    EXPECT_FALSE(store.writable());
    EXPECT_TRUE(store.find(key_for("cpu/attention_forward")));
    EXPECT_EQ(open_directory(temp.path() / "m" / "below").access, Access::None);
  });
}

}  // namespace
}  // namespace hipflash::cache
