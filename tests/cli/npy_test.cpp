#include "cli/npy.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

namespace hipflash::cli {
namespace {

namespace fs = std::filesystem;

std::string file_with(const std::string& dictionary, std::size_t data_bytes, int version = 1) {
  std::string file("\x93NUMPY", 6);
  file += static_cast<char>(version);
  file += '\0';
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    file += static_cast<char>(dictionary.size() >> (8 * i) & 0xff);
  }
  return file + dictionary + std::string(data_bytes, '\0');
}

std::string header(const std::string& descr, const std::string& shape,
                   const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string refusal(const std::string& file) {
  try {
    parse_npy(file, "x.npy");
    return "accepted";
  } catch (const FileError& error) {
    return error.what();
  }
}

TEST(Npy, ReadsWhatItWrites) {
  const fs::path folder = fs::path(testing::TempDir()) / ("npy" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const std::string path = folder / "array.npy";
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  write_npy(path, NpyType::f32, {1, 2, 3}, std::as_bytes(std::span(values)));
  const NpyArray array = read_npy(path);
  EXPECT_EQ(array.type, NpyType::f32);
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(array.elements(), 6);
  EXPECT_EQ(std::memcmp(array.data.data(), values.data(), 24), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data.data()) % 64, 0u);
  EXPECT_EQ(array.shape_text(), "(1, 2, 3)");
  write_npy(path, NpyType::f16, {3}, {});  // replaces; the reader sees that the data is missing
  EXPECT_THROW(read_npy(path), FileError);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  fs::remove_all(folder);
}

TEST(Npy, AcceptsWhatNumpyWrites) {
  const NpyArray array = parse_npy(file_with(header("<f2", "(2, 3)"), 12), "x");
  EXPECT_EQ(array.type, NpyType::f16);
  EXPECT_EQ(parse_npy(file_with(header("<f4", "()"), 4), "x").elements(), 1);
  EXPECT_EQ(parse_npy(file_with(header("<f4", "(5,)"), 20), "x").elements(), 5);
  EXPECT_EQ(parse_npy(file_with(header("<f4", "(0, 7)"), 0), "x").elements(), 0);
  EXPECT_EQ(parse_npy(file_with(header("|b1", "(3,)"), 3, 2), "x").type, NpyType::boolean);
  EXPECT_EQ(parse_npy(file_with(header("|V2", "(3,)"), 6, 3), "x").type, NpyType::raw2);
  // One dimension is in both orders at once.
  EXPECT_EQ(parse_npy(file_with(header("<f4", "(2,)", "True"), 8), "x").elements(), 2);
  EXPECT_EQ(
      parse_npy(file_with("{\"shape\":(2L,),\"fortran_order\":False,\"descr\":\"<u2\"}", 4), "x")
          .type,
      NpyType::u16);
}

TEST(Npy, RefusesWithAReason) {
  const struct {
    std::string file, reason;
  } cases[] = {
      {"", "not a .npy file"},
      {"hello, this is text", "not a .npy file"},
      {std::string("\x93NUMPY", 6), "version"},
      {std::string("\x93NUMPY\x01\x00\x10", 9), "truncated"},
      {std::string("\x93NUMPY\x09\x00\x10\x00", 10), "version 9"},
      {std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "claims 4294967295 bytes"},
      {file_with(header("<f4", "(2, 3)"), 23), "truncated"},
      {file_with(header("<f4", "(2, 3)"), 25), "too long"},
      {file_with(header("<f4", "(4, 3)"), 24), "truncated"},
      {file_with(header("<f8", "(2,)"), 16), "'<f8' is not supported"},
      {file_with(header(">f4", "(2,)"), 8), "big-endian"},
      {file_with(header("<f4", "(2, 2)", "True"), 16), "Fortran order"},
      {file_with(header("<f4", "(-2, 3)"), 24), "a size expected"},
      {file_with(header("<f4", "(99999999999999999999,)"), 8), "larger than any array"},
      {file_with(header("<f4", "(4294967296, 4294967296)"), 0), "larger than any memory"},
      {file_with(header("<f4", "(0, 4294967296, 4294967296)"), 0), "larger than any memory"},
      {file_with(header("<f4", "(2, 3"), 24), "malformed"},
      {file_with(header("<f4", "2"), 8), "malformed"},
      {file_with("{'descr': '<f4', 'shape': (2,)}", 8), "lacks 'fortran_order'"},
      {file_with("{'descr': '<f4', 'descr': '<f4'}", 8), "twice"},
      {file_with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", 8),
       "structures"},
      {file_with("{'descr': '<f4', 'evil': 1}", 8), "unknown key"},
      {file_with("{'descr': '<f4", 8), "no end"},
      {file_with("{", 8), "malformed"},
      {file_with("", 8), "malformed"},
      {file_with(header("<f4", "(2,)") + "x", 8), "text after"},
      {file_with(
           header("<f4", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), 4),
       "more than 32 dimensions"},
  };
  for (const auto& c : cases) {
    const std::string reason = refusal(c.file);
    EXPECT_NE(reason.find(c.reason), std::string::npos) << reason << "\nexpected: " << c.reason;
    EXPECT_EQ(reason.rfind("x.npy: ", 0), 0u) << reason;
  }
}

TEST(Npy, MessagesStayPrintable) {
  for (const char c : refusal(file_with("{'\x1b[31m\x01\xff': 1}", 0))) {
    EXPECT_TRUE(c >= ' ' && c <= '~');
  }
}

TEST(Npy, FilesThatAreNot) {
  const std::string missing = ::testing::TempDir() + "hipflash-no-such-folder/x.npy";
  EXPECT_THROW(read_npy(missing), FileError);
  EXPECT_THROW(read_npy("/tmp"), FileError);
  EXPECT_THROW(read_npy("/dev/null"), FileError);
  EXPECT_THROW(write_npy(missing, NpyType::f32, {0}, {}), FileError);
  EXPECT_NO_THROW(write_npy("/dev/null", NpyType::f32, {0}, {}));
  struct stat status;
  ASSERT_EQ(::stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

}  // namespace
}  // namespace hipflash::cli
