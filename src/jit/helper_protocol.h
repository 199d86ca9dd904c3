// What goes through the pipes between the library and hipflash-compile: one job in, one result out.
//
// A message is a magic word, then fields: each a 64-bit little-endian length and that many bytes.
// The magic word carries the version, so a helper of another build is refused with a clear
// sentence.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/compiler.h"

namespace hipflash::jit {

struct CompileResult {
  bool ok = false;
  std::vector<std::byte> object;  // when ok
  std::string sentence;           // when not
  std::string log;                // the compiler's words, if any
};

std::string encode(const CompileJob& job);
std::string encode(const CompileResult& result);

// Throw Error(Internal) naming what is wrong with the message.
CompileJob decode_job(std::string_view message);
CompileResult decode_result(std::string_view message);

}  // namespace hipflash::jit
