#include "jit/rtc_program.h"

#include <algorithm>

#include "core/fail.h"

namespace hipflash::jit {

RtcPrograms::RtcPrograms(const RtcDialect& dialect, const std::string& path)
    : dialect_(dialect), library_(path) {
  const auto require = [&](const std::string& name, auto& function) {
    library_.require((dialect_.prefix + name).c_str(), function);
  };
  require("CreateProgram", create_);
  require("CompileProgram", compile_);
  require("DestroyProgram", destroy_);
  require("GetProgramLogSize", log_size_);
  require("GetProgramLog", log_);
  require(fmt::format("Get{}Size", dialect_.code), code_size_);
  require(fmt::format("Get{}", dialect_.code), code_);
  require("GetErrorString", error_string_);
}

std::vector<std::byte> RtcPrograms::compile(const CompileJob& job) const {
  void* program = nullptr;
  check(job, "CreateProgram",
        create_(&program, job.source.c_str(), dialect_.file, 0, nullptr, nullptr));
  struct Destroyer {
    const RtcPrograms& programs;
    void** program;
    ~Destroyer() { programs.destroy_(program); }
  } const destroyer{*this, &program};

  std::vector<std::string> options = {dialect_.architecture_option + job.arch};
  options.insert(options.end(), job.options.begin(), job.options.end());
  std::vector<const char*> pointers;
  pointers.reserve(options.size());
  for (const auto& option : options) pointers.push_back(option.c_str());
  const int result = compile_(program, static_cast<int>(pointers.size()), pointers.data());
  check(job, "CompileProgram", result, result == 0 ? "" : log_of(program));

  std::size_t size = 0;
  check(job, "GetCodeSize", code_size_(program, &size));
  if (size == 0) {
    throw Error(
        ErrorCode::CompileFailed,
        fmt::format("{}: {} reported success and made no code", job.label, dialect_.product),
        log_of(program));
  }
  std::vector<std::byte> code(size);
  check(job, "GetCode", code_(program, reinterpret_cast<char*>(code.data())));
  return code;
}

std::string RtcPrograms::log_of(void* program) const {
  std::size_t size = 0;
  std::string log;
  if (log_size_(program, &size) == 0 && size > 1) {
    log.resize(size);
    if (log_(program, log.data()) != 0) log.clear();
    log.resize(std::min(log.size(), log.find('\0')));
  }
  return log.empty() ? fmt::format("({} gave no message)", dialect_.product) : log;
}

void RtcPrograms::check(const CompileJob& job, const char* function, int result,
                        const std::string& log) const {
  if (result == 0) return;
  const char* const meaning = error_string_(result);
  throw Error(ErrorCode::CompileFailed,
              fmt::format("{}: {}{} failed for {} with {} ({})", job.label, dialect_.prefix,
                          function, job.arch, result, meaning ? meaning : "no meaning given"),
              log);
}

}  // namespace hipflash::jit
