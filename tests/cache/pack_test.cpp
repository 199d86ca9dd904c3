// Pack files: what goes in comes out, and hostile files are refused with a reason.
#include "cache/pack_file.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cache/pack_layout.h"
#include "cache/prebuilt.h"
#include "cache/write_file.h"
#include "cache/zstd_frame.h"
#include "cache_testing.h"
#include "hipflash/error.h"

namespace hipflash::cache {
namespace {

using ::testing::HasSubstr;
using testing::sample_code;
using testing::sample_info;
using testing::TempFolder;
using testing::write_file;

EntryInfo info_for(const std::string& arch, const std::string& compiler = "g++ 12.2.0") {
  EntryInfo info = sample_info();
  info.inputs.arch = arch;
  info.inputs.compiler = compiler;
  return info;
}

PackContent sample_content() {
  PackContent content;
  content.entries = {{info_for("gfx942"), sample_code(1, 3000)},
                     {info_for("cpu-avx2"), sample_code(2, 500)},
                     {info_for("gfx1100"), sample_code(3, 20000)}};
  content.documents = {{"gfx942-304.json", R"({"entries":[1,2,3]})"}, {"a b.json", "{}"}};
  return content;
}

std::string refusal(ByteView bytes, const PackTrust& trust = {}) {
  const auto pack = Pack::in_memory(bytes, "test", trust);
  if (!pack) return pack.reason;
  return (*pack)->verify();
}

TEST(Pack, WhatGoesInComesOut) {
  const Bytes file = encode_pack(sample_content());
  const auto opened = Pack::in_memory(file, "embedded");
  ASSERT_TRUE(opened) << opened.reason;
  const Pack& pack = **opened;
  EXPECT_EQ(pack.name(), "embedded");
  EXPECT_EQ(pack.file_bytes(), file.size());
  EXPECT_FALSE(pack.signer());
  ASSERT_EQ(pack.entries().size(), 3u);
  for (const Entry& entry : sample_content().entries) {
    bool found = false;
    for (const PackEntry& stored : pack.entries()) {
      if (stored.key != key_of(entry.info.inputs)) continue;
      found = true;
      EXPECT_EQ(stored.info, entry.info);
      EXPECT_EQ(*pack.code(stored), entry.code);
    }
    EXPECT_TRUE(found);
  }
  ASSERT_EQ(pack.documents().size(), 2u);
  EXPECT_EQ(pack.documents()[1].name, "gfx942-304.json");
  EXPECT_EQ(*pack.document(pack.documents()[1]), R"({"entries":[1,2,3]})");
  EXPECT_EQ(pack.verify(), "");
}

TEST(Pack, SameContentSameBytesInAnyOrder) {
  PackContent other = sample_content();
  std::reverse(other.entries.begin(), other.entries.end());
  other.entries.push_back(other.entries.front());  // twice the same is once
  EXPECT_EQ(encode_pack(sample_content()), encode_pack(std::move(other)));
  const SecretKey key = make_key_pair().secret_key;
  EXPECT_EQ(encode_pack(sample_content(), &key), encode_pack(sample_content(), &key));
}

TEST(Pack, AnEmptyPackIsFine) {
  const Bytes file = encode_pack({});
  EXPECT_EQ(refusal(file), "");
}

TEST(Pack, ContentThatAReaderWouldRefuse) {
  PackContent twice = sample_content();
  twice.entries.push_back({info_for("gfx942"), sample_code(9, 10)});
  EXPECT_THROW(encode_pack(std::move(twice)), Error);
  for (const char* name : {"", "../x", "a/b", ".hidden", "/etc/passwd", "a\\b", "a\n", "ä"}) {
    PackContent content;
    content.documents[name] = "{}";
    EXPECT_THROW(encode_pack(std::move(content)), Error) << name;
  }
  for (const std::string text : {"", "[]", "{", "no"}) {
    PackContent content;
    content.documents["a.json"] = text;
    EXPECT_THROW(encode_pack(std::move(content)), Error) << text;
  }
  PackContent empty;
  empty.entries.push_back({info_for("gfx942"), {}});
  EXPECT_THROW(encode_pack(std::move(empty)), Error);
}

TEST(Pack, NoByteMayChangeAndNoneMayMiss) {
  const KeyPair keys = make_key_pair();
  for (const SecretKey* secret : {static_cast<const SecretKey*>(nullptr), &keys.secret_key}) {
    const Bytes file = encode_pack(sample_content(), secret);
    ASSERT_EQ(refusal(file), "");
    for (std::size_t i = 0; i < file.size(); i += i < 1200 ? 1 : 37) {
      Bytes changed = file;
      changed[i] ^= 1 << (i % 8);
      EXPECT_NE(refusal(changed), "") << i;
    }
    for (std::size_t size = 0; size < file.size(); size += size < 400 ? 1 : 101) {
      EXPECT_NE(refusal(ByteView(file).first(size)), "") << size;
    }
    Bytes longer = file;
    longer.push_back(0);
    EXPECT_NE(refusal(longer), "");
  }
}

// A pack with the given index and blobs, its sizes and hashes right.
Bytes forged(const std::string& index, const Bytes& blobs, std::uint64_t stated_index_bytes = 0) {
  const Bytes stored =
      compress({reinterpret_cast<const std::uint8_t*>(index.data()), index.size()}, 3);
  PackPrefix prefix;
  prefix.stored_index_bytes = stored.size();
  prefix.index_bytes = stated_index_bytes != 0 ? stated_index_bytes : index.size();
  prefix.file_bytes = kPackPrefixBytes + stored.size() + blobs.size();
  prefix.index_hash = Checksum().update(stored).digest();
  Bytes file = write_prefix(prefix);
  file.insert(file.end(), stored.begin(), stored.end());
  file.insert(file.end(), blobs.begin(), blobs.end());
  return file;
}

struct Parts {
  nlohmann::json index;
  Bytes blobs;
};

// An honest pack, taken apart.
Parts parts() {
  const Bytes file = encode_pack(sample_content());
  const auto prefix = read_prefix(file, file.size());
  const ByteView view(file);
  const auto text =
      decompress(view.subspan(kPackPrefixBytes, prefix->stored_index_bytes), prefix->index_bytes);
  const ByteView blobs = view.subspan(kPackPrefixBytes + prefix->stored_index_bytes);
  return {nlohmann::json::parse(text->begin(), text->end()), Bytes(blobs.begin(), blobs.end())};
}

std::string forged_refusal(const std::function<void(Parts&)>& spoil) {
  Parts p = parts();
  spoil(p);
  return refusal(forged(p.index.dump(), p.blobs));
}

TEST(Pack, HostileIndexesAreRefusedWithAReason) {
  ASSERT_EQ(forged_refusal([](Parts&) {}), "");
  const std::pair<const char*, std::function<void(Parts&)>> cases[] = {
      {"lists", [](Parts& p) { p.index.erase("entries"); }},
      {"lists", [](Parts& p) { p.index["documents"] = 3; }},
      {"no text", [](Parts& p) { p.index["entries"][0].erase("arch"); }},
      {"not a JSON object", [](Parts& p) { p.index["entries"][0] = 7; }},
      {"key is not", [](Parts& p) { p.index["entries"][0]["arch"] = "gfx90a"; }},
      {"out of order", [](Parts& p) { std::swap(p.index["entries"][0], p.index["entries"][1]); }},
      {"out of order", [](Parts& p) { p.index["entries"][1] = p.index["entries"][0]; }},
      // Sizes that lie: places follow from them, so blobs that would overlap do not add up.
      {"blob of 18446744073709551615",
       [](Parts& p) { p.index["entries"][0]["stored_bytes"] = UINT64_MAX; }},
      {"blob of 0", [](Parts& p) { p.index["entries"][0]["stored_bytes"] = 0; }},
      {"belong to nothing", [](Parts& p) { p.index["entries"].erase(2); }},
      {"belong to nothing", [](Parts& p) { p.blobs.push_back(1); }},
      {"are left", [](Parts& p) { p.blobs.pop_back(); }},
      {"wrong hash",
       [](Parts& p) {
         for (auto& [a, b] : {std::pair{0, 1}}) {
           const std::uint64_t one = p.index["entries"][a]["stored_bytes"];
           p.index["entries"][a]["stored_bytes"] = one + 1;
           p.index["entries"][b]["stored_bytes"] =
               p.index["entries"][b]["stored_bytes"].get<std::uint64_t>() - 1;
         }
       }},
      // A bomb: the frame says so itself, or does not keep to what the index says.
      {"code object of", [](Parts& p) { p.index["entries"][0]["code_bytes"] = kMaxCodeBytes + 1; }},
      {"stated size", [](Parts& p) { p.index["entries"][0]["code_bytes"] = 1000000; }},
      {"stated size", [](Parts& p) { p.index["documents"][0]["bytes"] = 1000; }},
      {"too large", [](Parts& p) { p.index["documents"][0]["bytes"] = kMaxDocumentBytes + 1; }},
      // Path tricks.
      {"no file name", [](Parts& p) { p.index["documents"][0]["name"] = "../../etc/passwd"; }},
      {"no file name", [](Parts& p) { p.index["documents"][0]["name"] = "/etc/passwd"; }},
      {"no file name", [](Parts& p) { p.index["documents"][0]["name"] = std::string("a\0b", 3); }},
      {"no size or hash", [](Parts& p) { p.index["entries"][0]["stored_hash"] = "../x"; }},
  };
  for (const auto& [words, spoil] : cases) EXPECT_THAT(forged_refusal(spoil), HasSubstr(words));
}

TEST(Pack, BombsAreRefusedBeforeTheyGrow) {
  const std::string brackets(1 << 20, '[');
  EXPECT_THAT(refusal(forged("{\"entries\":" + brackets, {})), HasSubstr("levels deep"));
  const std::string spaces(std::size_t{1} << 22, ' ');
  EXPECT_THAT(refusal(forged("{}" + spaces, {}, 2)), HasSubstr("stated size"));
  EXPECT_THAT(refusal(forged("{}", {}, kMaxPackIndexBytes + 1)), HasSubstr("index of"));
  EXPECT_THAT(refusal(forged("{}", {}, UINT64_MAX)), HasSubstr("index of"));
}

TEST(Pack, Signatures) {
  const KeyPair ours = make_key_pair(), theirs = make_key_pair();
  const PackTrust trust{{theirs.public_key, ours.public_key}};
  const Bytes by_us = encode_pack(sample_content(), &ours.secret_key);
  const auto opened = Pack::in_memory(by_us, "test", trust);
  ASSERT_TRUE(opened) << opened.reason;
  EXPECT_EQ((*opened)->signer(), ours.public_key);
  EXPECT_EQ(refusal(by_us), "");  // without trusted keys a right signature is no obstacle
  EXPECT_THAT(refusal(encode_pack(sample_content()), trust), HasSubstr("not signed"));
  EXPECT_THAT(refusal(by_us, {{theirs.public_key}}), HasSubstr(to_hex(ours.public_key)));
  Bytes wrong = by_us;
  wrong[110] ^= 1;
  EXPECT_THAT(refusal(wrong, trust), HasSubstr("signature is wrong"));
  EXPECT_THAT(refusal(wrong), HasSubstr("signature is wrong"));
  // Another's name over our signature.
  wrong = by_us;
  std::copy(theirs.public_key.begin(), theirs.public_key.end(), wrong.begin() + 72);
  EXPECT_THAT(refusal(wrong, trust), HasSubstr("signature is wrong"));
  // A signature taken from another pack.
  PackContent less = sample_content();
  less.entries.pop_back();
  const Bytes other = encode_pack(std::move(less), &ours.secret_key);
  wrong = by_us;
  std::copy(other.begin() + 104, other.begin() + 168, wrong.begin() + 104);
  EXPECT_THAT(refusal(wrong, trust), HasSubstr("signature is wrong"));
}

TEST(Pack, KeyFiles) {
  const TempFolder folder;
  const KeyPair keys = make_key_pair();
  write_key_files(folder / "key", keys);
  EXPECT_EQ(read_secret_key(folder / "key"), keys.secret_key);
  EXPECT_EQ(parse_public_key((folder / "key.pub").string(), "it"), keys.public_key);
  EXPECT_EQ(parse_public_key(to_hex(keys.public_key), "it"), keys.public_key);
  struct stat status {};
  ASSERT_EQ(stat((folder / "key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_THROW(write_key_files(folder / "key", keys), Error);
  EXPECT_EQ(read_secret_key(folder / "key"), keys.secret_key);
  EXPECT_THROW(read_secret_key(folder / "key.pub"), Error);
  EXPECT_THROW(parse_public_key((folder / "key").string(), "it"), Error);
  EXPECT_THROW(parse_public_key("abc", "it"), Error);
  EXPECT_THROW(parse_public_key(std::string(64, 'x'), "it"), Error);
}

Prebuilt::Sources at(std::vector<std::filesystem::path> paths) {
  Prebuilt::Sources sources;
  sources.paths = std::move(paths);
  return sources;
}

TEST(PackInPrebuilt, ServesFromFilesFoldersAndMemory) {
  const TempFolder folder;
  const Bytes file = encode_pack(sample_content());
  write_file(folder / "app.hfpack", file);
  Prebuilt::Sources memory;
  memory.packs = {*Pack::in_memory(file, "embedded")};
  for (const auto& sources : {at({folder / "app.hfpack"}), at({folder.path()}), memory}) {
    Prebuilt prebuilt(sources);
    auto match = prebuilt.find(info_for("gfx942").inputs);
    ASSERT_TRUE(match);
    EXPECT_TRUE(match->exact);
    EXPECT_EQ(match->entry.code, sample_code(1, 3000));
    match = prebuilt.find(info_for("gfx942", "another compiler").inputs);
    ASSERT_TRUE(match);
    EXPECT_FALSE(match->exact);
    EXPECT_FALSE(prebuilt.find(info_for("gfx908").inputs));
    EXPECT_EQ(prebuilt.documents().size(), 2u);
  }
}

TEST(PackInPrebuilt, AFaultyOneIsLeftOutWithOneWarning) {
  const TempFolder folder;
  Bytes file = encode_pack(sample_content());
  file.back() ^= 1;  // of the last blob: found when it is asked for
  write_file(folder / "a.hfpack", file);
  file[100] ^= 1;  // of the signer: found at once
  write_file(folder / "b.hfpack", file);
  write_file(folder / "c.hfpack", {});
  std::string said;
  const int lines = testing::log_lines(
      [&] {
        Prebuilt prebuilt(at({folder.path()}));
        EXPECT_EQ(prebuilt.refused().size(), 2u);
        EXPECT_TRUE(prebuilt.find(info_for("gfx942").inputs));
        EXPECT_EQ(prebuilt.documents().size(), 1u);
        EXPECT_EQ(prebuilt.documents().size(), 1u);
      },
      &said);
  EXPECT_EQ(lines, 3) << said;
}

TEST(PackInPrebuilt, TrustedKeysRefuseTheUnsigned) {
  const TempFolder folder, loose;
  const KeyPair keys = make_key_pair();
  write_file(folder / "signed.hfpack", encode_pack(sample_content(), &keys.secret_key));
  const EntryInfo info = info_for("gfx908");
  write_file(testing::entry_path(loose.path(), key_of(info.inputs)),
             encode(info, sample_code(1, 100)));
  PackContent other;
  other.entries = {{info_for("gfx90a"), sample_code(5, 100)}};
  write_file(loose / "unsigned.hfpack", encode_pack(std::move(other)));
  Prebuilt::Sources sources = at({folder.path(), loose.path()});
  sources.trust.keys = {keys.public_key};
  testing::log_lines([&] {
    Prebuilt prebuilt(sources);
    EXPECT_EQ(prebuilt.refused().size(), 2u);
    EXPECT_TRUE(prebuilt.find(info_for("gfx942").inputs));
    EXPECT_FALSE(prebuilt.find(info_for("gfx90a").inputs));
    EXPECT_FALSE(prebuilt.find(info.inputs));
  });
  // Entry files beside the library are as trusted as the library itself.
  sources.installed = {loose.path()};
  sources.paths = {};
  testing::log_lines([&] {
    Prebuilt prebuilt(sources);
    EXPECT_TRUE(prebuilt.find(info.inputs));
    EXPECT_FALSE(prebuilt.find(info_for("gfx90a").inputs));
  });
}

TEST(PackInPrebuilt, FilesThatOthersMayWriteAreRefused) {
  const TempFolder folder;
  write_file(folder / "app.hfpack", encode_pack(sample_content()));
  ASSERT_EQ(chmod((folder / "app.hfpack").c_str(), 0666), 0);
  EXPECT_FALSE(Pack::open((folder / "app.hfpack").string(), {}));
  EXPECT_TRUE(Pack::inspect((folder / "app.hfpack").string()));
  EXPECT_FALSE(Pack::inspect(folder.path().string()));
  EXPECT_FALSE(Pack::inspect((folder / "missing").string()));
}

TEST(ReplaceFile, WholeOrNotAtAll) {
  const TempFolder folder;
  const Bytes one = sample_code(1, 100000), two = sample_code(2, 50);
  EXPECT_EQ(replace_file(folder / "x", one, 0640), "");
  EXPECT_EQ(testing::read_file(folder / "x"), one);
  EXPECT_EQ(replace_file(folder / "x", two, 0640), "");
  EXPECT_EQ(testing::read_file(folder / "x"), two);
  struct stat status {};
  ASSERT_EQ(stat((folder / "x").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  io::Calls full = io::kSystem;
  full.write = [](int, const void*, std::size_t) -> ssize_t {
    errno = ENOSPC;
    return -1;
  };
  {
    const testing::InjectedCalls injected(full);
    EXPECT_THAT(replace_file(folder / "x", one, 0640), HasSubstr("No space"));
  }
  EXPECT_EQ(testing::read_file(folder / "x"), two);
  EXPECT_NE(replace_file(folder / "no" / "x", one, 0640), "");
  EXPECT_NE(replace_file(folder.path(), one, 0640), "");
  EXPECT_NE(replace_file("", one, 0640), "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

// Where unnamed files are not to be had.
TEST(ReplaceFile, WithoutUnnamedFiles) {
  const TempFolder folder;
  io::Calls old = io::kSystem;
  old.open = [](const char* path, int flags, mode_t mode) {
    if ((flags & O_TMPFILE) == O_TMPFILE) {
      errno = EOPNOTSUPP;
      return -1;
    }
    return ::open(path, flags, mode);
  };
  const testing::InjectedCalls injected(old);
  for (unsigned seed : {1u, 2u}) {
    EXPECT_EQ(replace_file(folder / "x", sample_code(seed, 999), 0600), "");
    EXPECT_EQ(testing::read_file(folder / "x"), sample_code(seed, 999));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace hipflash::cache
