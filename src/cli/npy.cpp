#include "cli/npy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

#include "core/fail.h"

namespace hipflash::cli {
namespace {

static_assert(std::endian::native == std::endian::little,
              "arrays are used as they lie in the file");

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kMaxHeader = std::size_t{1} << 16;
constexpr std::size_t kMaxDimensions = 32;

template <class... Args>
[[noreturn]] void refuse(const std::string& name, fmt::format_string<Args...> format,
                         Args&&... args) {
  throw FileError(name + ": " + fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void refuse_errno(const std::string& name, const char* action) {
  refuse(name, "{}: {}", action, std::strerror(errno));
}

// Text of a file in a message: short and printable.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > 40 ? "...'" : "'");
}

// The header's dictionary: a Python literal with string keys and values that are strings, booleans
// or tuples of integers.
class Dictionary {
 public:
  Dictionary(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;

  void parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr") {
        once(descr, key);
        // Structured types are lists of fields.
        if (peek() == '[') refuse(name_, "arrays of structures are not supported");
        descr = string();
      } else if (key == "fortran_order") {
        once(fortran_order, key);
        fortran_order = boolean();
      } else if (key == "shape") {
        once(shape, key);
        shape = tuple();
      } else {
        refuse(name_, "unknown key {} in the .npy header", quoted(key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) refuse(name_, "text after the dictionary of the .npy header");
    if (!descr || !fortran_order || !shape) {
      refuse(name_, "the .npy header lacks {}",
             !descr           ? "'descr'"
             : !fortran_order ? "'fortran_order'"
                              : "'shape'");
    }
  }

 private:
  template <class T>
  void once(const std::optional<T>& value, std::string_view key) const {
    if (value) refuse(name_, "key {} appears twice in the .npy header", quoted(key));
  }

  void skip_space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n'))
      rest_.remove_prefix(1);
  }

  char peek() {
    skip_space();
    return rest_.empty() ? '\0' : rest_.front();
  }

  bool accept(char c) {
    if (peek() != c || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!accept(c)) refuse(name_, "malformed .npy header: '{}' expected at {}", c, quoted(rest_));
  }

  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') {
      refuse(name_, "malformed .npy header: a string expected at {}", quoted(rest_));
    }
    rest_.remove_prefix(1);
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) refuse(name_, "malformed .npy header: a string has no end");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool boolean() {
    skip_space();
    for (const auto& [word, value] :
         {std::pair{std::string_view("True"), true}, std::pair{std::string_view("False"), false}}) {
      if (rest_.substr(0, word.size()) == word) {
        rest_.remove_prefix(word.size());
        return value;
      }
    }
    refuse(name_, "malformed .npy header: True or False expected at {}", quoted(rest_));
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      if (values.size() == kMaxDimensions) refuse(name_, "more than {} dimensions", kMaxDimensions);
      values.push_back(integer());
      accept('L');  // Python 2
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::int64_t integer() {
    skip_space();
    std::int64_t value = 0;
    std::size_t digits = 0;
    for (; digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9'; ++digits) {
      const std::int64_t digit = rest_[digits] - '0';
      if (value > (std::numeric_limits<std::int64_t>::max() - digit) / 10) {
        refuse(name_, "a dimension is larger than any array: {}", quoted(rest_));
      }
      value = value * 10 + digit;
    }
    if (digits == 0) refuse(name_, "malformed .npy header: a size expected at {}", quoted(rest_));
    rest_.remove_prefix(digits);
    return value;
  }

  std::string_view rest_;
  const std::string& name_;
};

NpyType type_of(std::string_view descr, const std::string& name) {
  static constexpr struct {
    std::string_view descr;
    NpyType type;
  } kTypes[] = {{"<f4", NpyType::f32},  {"<f2", NpyType::f16},     {"<u2", NpyType::u16},
                {"|u1", NpyType::u8},   {"|b1", NpyType::boolean}, {"|V2", NpyType::raw2},
                {"<V2", NpyType::raw2}, {"<i4", NpyType::i32},     {"<i8", NpyType::i64}};
  for (const auto& known : kTypes) {
    if (descr == known.descr) return known.type;
  }
  if (!descr.empty() && descr.front() == '>') {
    refuse(name, "type {} is big-endian; save the array as little-endian", quoted(descr));
  }
  refuse(name,
         "type {} is not supported; use float32, float16, or uint16 for bfloat16, and int32 or "
         "int64 for lengths, offsets and tables",
         quoted(descr));
}

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

const char* descr_of(NpyType type) noexcept {
  switch (type) {
    case NpyType::f32:
      return "<f4";
    case NpyType::f16:
      return "<f2";
    case NpyType::u16:
      return "<u2";
    case NpyType::u8:
      return "|u1";
    case NpyType::boolean:
      return "|b1";
    case NpyType::i32:
      return "<i4";
    case NpyType::i64:
      return "<i8";
    case NpyType::raw2:
      break;
  }
  return "|V2";
}

std::string encode_header(NpyType type, const std::vector<std::int64_t>& shape) {
  std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", descr_of(type));
  for (const std::int64_t size : shape) dictionary += fmt::format("{}, ", size);
  if (shape.size() > 1) dictionary.resize(dictionary.size() - 2);
  dictionary += "), }";
  // The data starts on a multiple of 64.
  const std::size_t start = (kMagic.size() + 4 + dictionary.size() + 1 + 63) / 64 * 64;
  const std::size_t length = start - kMagic.size() - 4;
  dictionary.resize(length - 1, ' ');
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return header + dictionary + '\n';
}

// Closes on destruction.
struct File {
  explicit File(int fd_in) : fd(fd_in) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  int fd;
};

// Reads up to `size` bytes; fewer only at the end of the file.
std::size_t read_fully(int fd, char* out, std::size_t size, const std::string& name) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(fd, out + done, std::min(size - done, std::size_t{1} << 30));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_errno(name, "cannot read");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void write_fully(int fd, std::span<const std::byte> bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), std::min(bytes.size(), std::size_t{1} << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) refuse_errno(name, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

}  // namespace

std::size_t size_of(NpyType type) noexcept {
  switch (type) {
    case NpyType::i64:
      return 8;
    case NpyType::f32:
    case NpyType::i32:
      return 4;
    case NpyType::f16:
    case NpyType::u16:
    case NpyType::raw2:
      return 2;
    case NpyType::u8:
    case NpyType::boolean:
      break;
  }
  return 1;
}

const char* to_string(NpyType type) noexcept {
  switch (type) {
    case NpyType::f32:
      return "float32";
    case NpyType::f16:
      return "float16";
    case NpyType::u16:
      return "uint16";
    case NpyType::u8:
      return "uint8";
    case NpyType::boolean:
      return "bool";
    case NpyType::i32:
      return "int32";
    case NpyType::i64:
      return "int64";
    case NpyType::raw2:
      break;
  }
  return "2-byte void";
}

AlignedBytes::AlignedBytes(std::size_t size) : size_(size) {
  const std::size_t rounded = std::max<std::size_t>((size + 63) / 64 * 64, 64);
  if (rounded < size) throw std::bad_alloc();
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
  if (!data_) throw std::bad_alloc();
  std::memset(data_.get(), 0, rounded);
}

void AlignedBytes::Free::operator()(std::byte* bytes) const noexcept {
  std::free(bytes);
}

std::int64_t NpyArray::elements() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;  // checked when it was read
  return count;
}

std::string NpyArray::shape_text() const {
  return fmt::format("({})", fmt::join(shape, ", "));
}

NpyHeader parse_npy_header(std::string_view file, std::uint64_t file_bytes,
                           const std::string& name) {
  if (file.substr(0, kMagic.size()) != kMagic) refuse(name, "not a .npy file");
  if (file.size() < kMagic.size() + 2) refuse(name, "truncated: no .npy version");
  const int version = static_cast<unsigned char>(file[kMagic.size()]);
  if (version < 1 || version > 3) refuse(name, ".npy version {} is not supported", version);
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  const std::size_t start = kMagic.size() + 2 + length_bytes;
  if (file.size() < start) refuse(name, "truncated: no .npy header");
  const std::size_t length = little_endian(file.substr(kMagic.size() + 2, length_bytes));
  if (length > kMaxHeader) refuse(name, "the .npy header claims {} bytes", length);
  if (file.size() - start < length) refuse(name, "truncated within the .npy header");

  Dictionary dictionary(file.substr(start, length), name);
  dictionary.parse();
  NpyHeader header;
  header.type = type_of(*dictionary.descr, name);
  header.shape = std::move(*dictionary.shape);
  header.data_offset = start + length;
  if (*dictionary.fortran_order && header.shape.size() > 1) {
    refuse(name, "the array is in Fortran order; save numpy.ascontiguousarray(array)");
  }

  // An empty dimension makes the array empty, but the other sizes must still be ones that can be
  // multiplied: strides are computed from them.
  std::uint64_t bytes = size_of(header.type);
  bool empty = false;
  for (const std::int64_t size : header.shape) {
    if (size == 0) empty = true;
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    if (bytes > (std::uint64_t{1} << 62) / factor) {
      refuse(name, "the shape ({}) is larger than any memory", fmt::join(header.shape, ", "));
    }
    bytes *= factor;
  }
  if (empty) bytes = 0;
  const std::uint64_t present = file_bytes - header.data_offset;
  if (present != bytes) {
    refuse(name, "{}: the shape ({}) of {} takes {} bytes, the file has {}",
           present < bytes ? "truncated" : "too long", fmt::join(header.shape, ", "),
           to_string(header.type), bytes, present);
  }
  header.data_bytes = static_cast<std::size_t>(bytes);
  return header;
}

NpyArray parse_npy(std::string_view file, const std::string& name) {
  NpyHeader header = parse_npy_header(file, file.size(), name);
  NpyArray array{header.type, std::move(header.shape), AlignedBytes(header.data_bytes)};
  if (header.data_bytes > 0) {
    std::memcpy(array.data.data(), file.data() + header.data_offset, header.data_bytes);
  }
  return array;
}

NpyArray read_npy(const std::string& path) {
  // O_NONBLOCK: opening a FIFO would wait for a writer.
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) refuse_errno(path, "cannot open");
  struct stat status;
  if (::fstat(file.fd, &status) != 0) refuse_errno(path, "cannot read");
  if (!S_ISREG(status.st_mode)) refuse(path, "not a regular file");
  const auto bytes = static_cast<std::uint64_t>(status.st_size);

  std::string start(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, kMaxHeader + 16)),
                    '\0');
  start.resize(read_fully(file.fd, start.data(), start.size(), path));
  NpyHeader header = parse_npy_header(start, bytes, path);
  if (::lseek(file.fd, static_cast<off_t>(header.data_offset), SEEK_SET) < 0) {
    refuse_errno(path, "cannot read");
  }
  NpyArray array{header.type, std::move(header.shape), AlignedBytes(header.data_bytes)};
  if (read_fully(file.fd, reinterpret_cast<char*>(array.data.data()), header.data_bytes, path) !=
      header.data_bytes) {
    refuse(path, "truncated while it was read");
  }
  return array;
}

void write_file(const std::string& path, std::initializer_list<std::span<const std::byte>> parts) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    const File file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.fd < 0) refuse_errno(path, "cannot write");
    for (const auto part : parts) write_fully(file.fd, part, path);
    return;
  }
  // Permissions and ownership of a file that exists are those of the new one; so only a file that
  // may be written is replaced.
  if (::access(path.c_str(), F_OK) == 0 && ::access(path.c_str(), W_OK) != 0) {
    refuse_errno(path, "cannot write");
  }
  std::string temporary = path + ".XXXXXX";
  const File file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.fd < 0) refuse_errno(path, "cannot write");
  try {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    for (const auto part : parts) write_fully(file.fd, part, path);
    if (::fchmod(file.fd, 0666 & ~mask) != 0 || ::fsync(file.fd) != 0 ||
        ::rename(temporary.c_str(), path.c_str()) != 0) {
      refuse_errno(path, "cannot write");
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void require_readable(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0) refuse_errno(path, "cannot read");
}

void require_writable(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) errno = EISDIR;
    if (S_ISDIR(status.st_mode) || ::access(path.c_str(), W_OK) != 0) {
      refuse_errno(path, "cannot write");
    }
    if (!S_ISREG(status.st_mode)) return;
  }
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) refuse_errno(path, "cannot write");
}

void write_npy(const std::string& path, NpyType type, const std::vector<std::int64_t>& shape,
               std::span<const std::byte> data) {
  const std::string header = encode_header(type, shape);
  write_file(path, {std::as_bytes(std::span(header.data(), header.size())), data});
}

}  // namespace hipflash::cli
