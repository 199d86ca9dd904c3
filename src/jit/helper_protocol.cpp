#include "jit/helper_protocol.h"

#include <cstring>

#include "core/fail.h"

namespace hipflash::jit {
namespace {

constexpr std::string_view kMagic = "HFCOMP02";

class Writer {
 public:
  void field(std::string_view bytes) {
    for (unsigned shift = 0; shift < 64; shift += 8) {
      text_ += static_cast<char>((static_cast<std::uint64_t>(bytes.size()) >> shift) & 0xff);
    }
    text_.append(bytes);
  }
  template <class Number>
  void number(Number value) {
    field(fmt::format("{}", value));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_{kMagic};
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {
    if (!text_.starts_with(kMagic)) {
      fail(ErrorCode::Internal,
           "a message of hipflash-compile does not start with {}: it is of another version of "
           "hipflash",
           kMagic);
    }
    text_.remove_prefix(kMagic.size());
  }

  std::string_view field() {
    std::uint64_t size = 0;
    if (text_.size() < 8) truncated();
    for (unsigned i = 0; i < 8; ++i) {
      size |= std::uint64_t{static_cast<unsigned char>(text_[i])} << (8 * i);
    }
    text_.remove_prefix(8);
    if (size > text_.size()) truncated();
    const std::string_view bytes = text_.substr(0, size);
    text_.remove_prefix(size);
    return bytes;
  }

  std::string text() { return std::string(field()); }

  double number() {
    const std::string digits = text();
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    if (digits.empty() || *end != '\0') {
      fail(ErrorCode::Internal, "a message of hipflash-compile has \"{}\" for a number", digits);
    }
    return value;
  }

  void finish() const {
    if (!text_.empty()) fail(ErrorCode::Internal, "a message of hipflash-compile is too long");
  }

 private:
  [[noreturn]] static void truncated() {
    fail(ErrorCode::Internal, "a message of hipflash-compile ends too early");
  }

  std::string_view text_;
};

}  // namespace

std::string encode(const CompileJob& job) {
  Writer writer;
  writer.number(static_cast<int>(job.compiler));
  writer.field(job.source);
  writer.field(job.arch);
  writer.field(job.label);
  writer.field(job.tool);
  writer.field(job.folder);
  writer.number(job.limits.seconds);
  writer.number(job.limits.memory_bytes);
  writer.number(job.options.size());
  for (const std::string& option : job.options) writer.field(option);
  return writer.take();
}

CompileJob decode_job(std::string_view message) {
  Reader reader(message);
  CompileJob job;
  const double kind = reader.number();
  if (kind != 0 && kind != 1 && kind != 2) {
    fail(ErrorCode::Internal, "a message of hipflash-compile names compiler {}", kind);
  }
  job.compiler = static_cast<CompilerKind>(static_cast<int>(kind));
  job.source = reader.text();
  job.arch = reader.text();
  job.label = reader.text();
  job.tool = reader.text();
  job.folder = reader.text();
  job.limits.seconds = reader.number();
  job.limits.memory_bytes = static_cast<std::uint64_t>(reader.number());
  const auto options = static_cast<std::uint64_t>(reader.number());
  for (std::uint64_t i = 0; i < options; ++i) job.options.push_back(reader.text());
  reader.finish();
  return job;
}

std::string encode(const CompileResult& result) {
  Writer writer;
  writer.number(result.ok ? 1 : 0);
  writer.field({reinterpret_cast<const char*>(result.object.data()), result.object.size()});
  writer.field(result.sentence);
  writer.field(result.log);
  return writer.take();
}

CompileResult decode_result(std::string_view message) {
  Reader reader(message);
  CompileResult result;
  result.ok = reader.number() != 0;
  const std::string_view object = reader.field();
  const auto* const begin = reinterpret_cast<const std::byte*>(object.data());
  result.object.assign(begin, begin + object.size());
  result.sentence = reader.text();
  result.log = reader.text();
  reader.finish();
  return result;
}

}  // namespace hipflash::jit
