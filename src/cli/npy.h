// The .npy format of NumPy: one array with its type and shape. Files are not trusted: whatever the
// bytes are, the outcome is an array or a FileError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hipflash::cli {

// A file cannot be read, written or understood. The message names the file.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Element types as NumPy writes them, little-endian. `raw2` is how bfloat16 arrays of ml_dtypes are
// stored: two bytes without a meaning.
enum class NpyType { f32, f16, u16, u8, boolean, raw2, i32, i64 };

std::size_t size_of(NpyType type) noexcept;
const char* to_string(NpyType type) noexcept;  // "float32", "bool", ...

// Bytes that start on a multiple of 64, so that kernels may use wide accesses.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t size);  // zeroed; throws std::bad_alloc

  std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

struct NpyArray {
  NpyType type = NpyType::f32;
  std::vector<std::int64_t> shape;  // row-major; no dimensions: one element
  AlignedBytes data;

  std::int64_t elements() const noexcept;
  std::string shape_text() const;  // "(1, 12, 64)"
};

// What the first bytes of a file say, checked against the size of the whole file.
struct NpyHeader {
  NpyType type = NpyType::f32;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;
  std::size_t data_bytes = 0;
};

// `name` is for messages. Throws FileError for anything but a version 1 to 3 file that holds
// exactly the elements of its shape, little-endian and row-major. At most 32 dimensions.
NpyHeader parse_npy_header(std::string_view file_start, std::uint64_t file_bytes,
                           const std::string& name);

// A whole file in memory.
NpyArray parse_npy(std::string_view file, const std::string& name);

NpyArray read_npy(const std::string& path);

// Writes a temporary file beside `path` and renames it, so that `path` is never half-written.
// Something that exists and is not a regular file (a pipe, /dev/null) is written to instead.
void write_npy(const std::string& path, NpyType type, const std::vector<std::int64_t>& shape,
               std::span<const std::byte> data);

// The same for any bytes.
void write_file(const std::string& path, std::initializer_list<std::span<const std::byte>> parts);

// Throws if there is no such file that can be read.
void require_readable(const std::string& path);

// Throws as write_file() would, as far as that can be said without writing: before work that takes
// long and would be lost.
void require_writable(const std::string& path);

}  // namespace hipflash::cli
