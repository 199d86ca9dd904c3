// What the functions of the C API share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "core/fail.h"
#include "hipflash/c.h"
#include "hipflash/context.h"
#include "hipflash/tensor.h"

struct hipflash_context {
  hipflash::Context context;
};

namespace hipflash::api {

// Keeps the sentence and the log for hipflash_last_error().
hipflash_status failed(ErrorCode code, const char* message, const std::string& log = {}) noexcept;

Tensor tensor_of(const hipflash_tensor* given, const char* name);

// Runs a call and turns whatever it throws into a status: no exception crosses the C boundary.
template <class F>
hipflash_status guarded(F&& call) noexcept {
  try {
    std::forward<F>(call)();
    return HIPFLASH_OK;
  } catch (const Error& error) {
    return failed(error.code(), error.what(), error.log());
  } catch (const std::bad_alloc&) {
    return failed(ErrorCode::OutOfMemory, "host memory is exhausted");
  } catch (const std::exception& error) {
    return failed(ErrorCode::Internal, error.what());
  } catch (...) {
    return failed(ErrorCode::Internal, "unknown exception");
  }
}

template <class T>
const T& require(const T* pointer, const char* name) {
  if (!pointer) fail(ErrorCode::InvalidArgument, "{} = NULL must point to a {}", name, name);
  return *pointer;
}

// The caller's struct, which may be of an older or newer header than this library's. `least` is
// what the first header had and no call makes sense without.
template <class T>
T versioned(const T* given, const char* name, const T& defaults, std::size_t least) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (!given) fail(ErrorCode::InvalidArgument, "{} = NULL must point to a struct", name);
  constexpr std::size_t most = 4096;
  const std::size_t size = given->struct_size;
  if (size < least || size > most || size % alignof(T) != 0) {
    fail(ErrorCode::InvalidArgument, "{}.struct_size = {} must be the size of the struct, {} here",
         name, size, sizeof(T));
  }
  T known = defaults;
  std::memcpy(&known, given, std::min(size, sizeof(T)));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      fail(ErrorCode::NotSupported,
           "{}: byte {} is set, but this version of hipflash knows only {} bytes", name, i,
           sizeof(T));
    }
  }
  return known;
}

inline void require_unused(std::int64_t reserved, const char* name) {
  if (reserved != 0) fail(ErrorCode::InvalidArgument, "{} = {} must be 0", name, reserved);
}

}  // namespace hipflash::api
