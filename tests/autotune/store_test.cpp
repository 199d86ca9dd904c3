// The store on disk: merged, never half-written, damage kept aside.
#include "autotune/store.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "core/fail.h"
#include "tuning_testing.h"

namespace hipflash::autotune {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(Document, SurvivesTheWayThroughJson) {
  Entry won = entry(key_of(64, 10, 11), tile(4, 32));
  won.is_default = true;
  Fingerprint device = mi300();
  device.name = "Ünïcode \"quoted\"\n";
  const Document before = document(device, {won, entry(key_of(128, 1, 2), tile(2, 16))},
                                   {quarantined(key_of(64, 10, 11), tile(8, 8), "it\nhung")});
  const Document after = parse_document(to_json(before));
  EXPECT_EQ(after.device, before.device);
  ASSERT_EQ(after.entries.size(), 2u);
  EXPECT_EQ(after.entries[0].key, won.key);
  EXPECT_EQ(after.entries[0].tile, won.tile);
  EXPECT_TRUE(after.entries[0].is_default);
  EXPECT_EQ(after.entries[1].gain, 1.25);
  EXPECT_EQ(after.quarantine[0].reason, "it\nhung");
  EXPECT_EQ(to_json(after), to_json(before));
}

TEST(Document, AnythingElseIsRefusedInWords) {
  const std::string good = to_json(document(mi300(), {entry(key_of(64, 10, 11), tile(4, 32))}));
  for (std::size_t length = 0; length + 2 < good.size(); ++length) {
    EXPECT_THROW(parse_document(good.substr(0, length)), Error) << length;
  }
  for (const char* text : {"[]", "{}", "null", R"({"format":2})", R"({"format":"1"})",
                           R"({"format":1,"device":{},"entries":[],"quarantine":[]})"}) {
    EXPECT_THROW(parse_document(text), Error) << text;
  }
}

TEST(Store, MergesWhatOthersWrote) {
  const ScratchFolder folder;
  Store one(folder.path() / "a" / "b"), two(folder.path() / "a" / "b");
  one.add(document(mi300(), {entry(key_of(64, 10, 10), tile(4, 32))}));
  two.add(document(mi300(), {entry(key_of(128, 10, 10), tile(8, 32))},
                   {quarantined(key_of(64, 10, 10), tile(8, 64), "wrong")}));
  one.add(document(mi300(), {entry(key_of(64, 10, 10), tile(8, 64))}));
  const Document all = two.read(mi300());
  ASSERT_EQ(all.entries.size(), 2u);
  EXPECT_EQ(all.entries[0].tile, tile(8, 64));
  EXPECT_EQ(all.quarantine.size(), 1u);
  struct stat status {};
  ASSERT_EQ(::stat(one.folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST(Store, ManyWritersLoseNothing) {
  const ScratchFolder folder;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      Store store(folder.path());
      for (int i = 0; i < 8; ++i) {
        store.add(document(mi300(), {entry(key_of(8 * (8 * writer + i + 1), 9, 9), tile(4, 32))}));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(Store(folder.path()).read(mi300()).entries.size(), 32u);
}

// A writer may be killed at any moment: the next one reads a whole document and goes on.
TEST(Store, AKilledWriterLeavesAStoreThatReads) {
  const ScratchFolder folder;
  Store store(folder.path());
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 1;; ++i) {
        store.add(document(mi300(), {entry(key_of(i % 200 + 1, 9, 9), tile(4, 32))}));
      }
    }
    ::usleep(3000 + 1700 * round);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string text = text_of(store.document_path(mi300()));
    EXPECT_TRUE(text.empty() || text.ends_with("]}\n"));
    if (!text.empty()) {
      EXPECT_NO_THROW(parse_document(text));
    }
    store.add(document(mi300(), {entry(key_of(500 + round, 9, 9), tile(4, 32))}));
  }
  const Document all = store.read(mi300());
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(std::any_of(all.entries.begin(), all.entries.end(), [&](const Entry& e) {
      return e.key.head_dim == 500 + round;
    })) << round;
  }
  for (const auto& file : fs::directory_iterator(folder.path())) {
    EXPECT_FALSE(file.path().string().ends_with(".tmp")) << file.path();
    EXPECT_THAT(file.path().string(), ::testing::Not(HasSubstr("damaged")));
  }
}

TEST(Store, DamageIsIgnoredByReadersAndKeptAsideByWriters) {
  const ScratchFolder folder;
  Store store(folder.path());
  const fs::path path = store.document_path(mi300());
  write_text(path, "{\"format\":1, half of");
  EXPECT_TRUE(store.read_relatives(mi300()).empty());
  EXPECT_EQ(text_of(path), "{\"format\":1, half of");
  store.add(document(mi300(), {entry(key_of(64, 10, 10), tile(4, 32))}));
  EXPECT_EQ(store.read(mi300()).entries.size(), 1u);
  EXPECT_EQ(text_of(path.string() + ".damaged-1"), "{\"format\":1, half of");
  write_text(path, "again");
  store.add(document(mi300(), {}));
  EXPECT_EQ(text_of(path.string() + ".damaged-2"), "again");
}

TEST(Store, RelativesAreFoundByArchitecture) {
  const ScratchFolder folder;
  Store store(folder.path());
  Fingerprint other = mi300(), stranger = mi300();
  other.compute_units = 228;
  stranger.arch = "gfx90a";
  store.add(document(mi300(), {}));
  store.add(document(other, {}));
  store.add(document(stranger, {}));
  EXPECT_EQ(store.read_relatives(mi300()).size(), 2u);
  EXPECT_EQ(store.read_relatives(stranger).size(), 1u);
}

TEST(Store, AFolderThatCannotBeIsAnErrorForWritersOnly) {
  const ScratchFolder folder;
  write_text(folder.path() / "file", "");
  Store store(folder.path() / "file" / "below");
  EXPECT_TRUE(store.read_relatives(mi300()).empty());
  EXPECT_THROW(store.add(document(mi300(), {})), Error);
  EXPECT_THROW(Store(fs::path()).add(document(mi300(), {})), Error);
}

TEST(Store, OneTunerAtATime) {
  const ScratchFolder folder;
  Store store(folder.path());
  const cache::FileLock first = store.lock_tuner(mi300(), [] { return true; });
  ASSERT_TRUE(first.held());
  int asked = 0;
  EXPECT_FALSE(store.lock_tuner(mi300(), [&] { return ++asked < 2; }).held());
  EXPECT_EQ(asked, 2);
  Fingerprint other = mi300();
  other.compute_units = 228;
  EXPECT_TRUE(store.lock_tuner(other, [] { return false; }).held());
}

TEST(ShippedDocuments, AreReadable) {
  for (const ShippedDocument& shipped : shipped_documents()) {
    const Document made = parse_document(shipped.text);
    EXPECT_TRUE(shipped.name.starts_with(architecture_stem(made.device) + "-")) << shipped.name;
    EXPECT_FALSE(made.entries.empty());
  }
}

}  // namespace
}  // namespace hipflash::autotune
