/// \file
/// Errors: one exception type with a code and a sentence that names the argument, its value and the
/// rule.
#pragma once

#include <stdexcept>
#include <string>

#include "hipflash/export.h"

namespace hipflash {

/// What kind of failure an Error reports. The numeric values are those of `hipflash_status` in c.h.
enum class ErrorCode : int {
  InvalidArgument = 1,  ///< An argument breaks a documented rule; the message names it.
  NotSupported = 2,   ///< The request is well formed but not built; the message names the feature.
  NoDevice = 3,       ///< The device asked for does not exist or its runtime cannot be opened.
  CompileFailed = 4,  ///< A kernel did not compile; Error::log() holds the compiler's words.
  CacheUnusable = 5,  ///< A cache, pack, key or tuning store that was named cannot serve.
  LaunchFailed = 6,   ///< The device refused or failed a kernel.
  OutOfMemory = 7,    ///< Host or device memory is exhausted.
  Internal = 8,       ///< A fault of hipflash itself.
};

/// The code's name, for example "InvalidArgument".
HIPFLASH_EXPORT const char* to_string(ErrorCode code) noexcept;

/// Thrown by every function of the C++ API that fails.
///
/// ```
/// try {
///   hipflash::attention_forward(ctx, q, k, v, out);
/// } catch (const hipflash::Error& error) {
///   std::cerr << to_string(error.code()) << ": " << error.what() << "\n" << error.log();
/// }
/// ```
class HIPFLASH_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string log = {});
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;

  ErrorCode code() const noexcept { return code_; }
  /// The compiler's output for CompileFailed, else empty.
  const std::string& log() const noexcept { return log_; }

 private:
  ErrorCode code_;
  std::string log_;
};

}  // namespace hipflash
