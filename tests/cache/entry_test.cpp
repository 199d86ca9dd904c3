#include "cache/entry.h"

#include <cstring>

#include "cache/checksum.h"
#include "cache_testing.h"
#include "hipflash/error.h"

namespace hipflash::cache {
namespace {

using testing::sample_code;
using testing::sample_info;

// Makes the checksum right again, as an attacker or a faulty writer could.
void seal(Bytes& file) {
  const ByteView view(file);
  const Digest sum = Checksum().update(view.first(32)).update(view.subspan(64)).digest();
  std::copy(sum.begin(), sum.end(), file.begin() + 32);
}

TEST(Entry, RoundTrip) {
  for (const std::size_t size : {1, 1000, 300000}) {
    const Bytes code = sample_code(1, size);
    const Bytes file = encode(sample_info(), code);
    const Decoded<Entry> entry = decode(file);
    ASSERT_TRUE(entry) << entry.reason;
    EXPECT_EQ(entry->code, code);
    EXPECT_EQ(entry->info, sample_info());
    EXPECT_EQ(encode(sample_info(), code), file);
  }
}

TEST(Entry, HeaderIsReadableText) {
  const Bytes file = encode(sample_info(), sample_code(1, 100));
  const std::string text(file.begin(), file.end());
  EXPECT_NE(text.find("\"compiler\": \"g++ 12.2.0\""), std::string::npos);
  EXPECT_NE(text.find("\"arch\": \"x86-64+avx2+fma\""), std::string::npos);
}

TEST(Entry, HeaderAlone) {
  const Bytes file = encode(sample_info(), sample_code(1, 5000));
  const Decoded<EntryHeader> whole = decode_header(file);
  ASSERT_TRUE(whole) << whole.reason;
  EXPECT_EQ(whole->info, sample_info());
  EXPECT_EQ(whole->key, key_of(sample_info().inputs));
  EXPECT_EQ(whole->spec_id, spec_id_of(sample_info().inputs));
  EXPECT_EQ(whole->code_bytes, 5000u);
  const std::size_t header_end = file.size() - whole->payload_bytes;
  EXPECT_TRUE(decode_header(ByteView(file).first(header_end)));
  for (std::size_t size = 0; size < header_end; ++size) {
    EXPECT_FALSE(decode_header(ByteView(file).first(size))) << size;
  }
}

TEST(Entry, TruncatedAtEveryLengthIsRefused) {
  const Bytes file = encode(sample_info(), sample_code(2, 2000));
  for (std::size_t size = 0; size < file.size(); ++size) {
    const Bytes part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    const Decoded<Entry> entry = decode(part);
    ASSERT_FALSE(entry) << size;
    ASSERT_FALSE(entry.reason.empty());
  }
  Bytes longer = file;
  longer.push_back(0);
  EXPECT_FALSE(decode(longer));
}

TEST(Entry, EveryFlippedBitIsRefused) {
  Bytes file = encode(sample_info(), sample_code(3, 700));
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const std::uint8_t bit : {std::uint8_t{0x01}, std::uint8_t{0x10}, std::uint8_t{0x80}}) {
      file[at] ^= bit;
      ASSERT_FALSE(decode(file)) << at;
      file[at] ^= bit;
    }
  }
  EXPECT_TRUE(decode(file));
}

// Even where the checksum was made right again, nothing but an entry is accepted or crashes.
TEST(Entry, EveryResealedByteIsRefusedOrTheSame) {
  const Bytes code = sample_code(4, 300);
  const Bytes original = encode(sample_info(), code);
  for (std::size_t at = 0; at < original.size(); ++at) {
    if (at >= 32 && at < 64) continue;
    Bytes file = original;
    file[at] ^= 0x04;
    seal(file);
    const Decoded<Entry> entry = decode(file);
    // What the key does not cover (label, white space) may differ; the code may not.
    if (entry) {
      EXPECT_EQ(entry->code, code);
      EXPECT_EQ(key_of(entry->info.inputs), key_of(sample_info().inputs));
    }
  }
}

TEST(Entry, OtherFormatVersionIsNamed) {
  Bytes file = encode(sample_info(), sample_code(5, 100));
  file[8] = 2;
  seal(file);
  const Decoded<Entry> entry = decode(file);
  ASSERT_FALSE(entry);
  EXPECT_NE(entry.reason.find("format version 2"), std::string::npos) << entry.reason;
}

TEST(Entry, LyingSizesAreRefusedBeforeAnythingIsReserved) {
  const Bytes original = encode(sample_info(), sample_code(6, 100));
  for (const std::size_t field : {12u, 16u, 24u}) {
    const std::size_t width = field == 12 ? 4 : 8;
    for (const std::uint64_t lie : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 27,
                                    (std::uint64_t{1} << 27) + 1, ~std::uint64_t{0}}) {
      Bytes file = original;
      std::memcpy(&file[field], &lie, width);
      seal(file);
      EXPECT_FALSE(decode(file)) << field << " " << lie;
      EXPECT_FALSE(decode_header(file) && field == 12);
    }
  }
}

TEST(Entry, EncodeRefusesWhatCannotBeRead) {
  const auto code_of = [](const EntryInfo& info, ByteView code) {
    try {
      encode(info, code);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Internal;
  };
  EXPECT_EQ(code_of(sample_info(), {}), ErrorCode::InvalidArgument);
  EntryInfo large = sample_info();
  large.inputs.prologue.assign(kMaxHeaderBytes, ' ');
  EXPECT_EQ(code_of(large, sample_code(1, 10)), ErrorCode::InvalidArgument);
  EntryInfo binary = sample_info();
  binary.inputs.compiler = "g++ \xff";
  EXPECT_EQ(code_of(binary, sample_code(1, 10)), ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace hipflash::cache
