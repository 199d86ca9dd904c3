// The Compiler around a runtime compiler's library: found, identified and opened once.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/fail.h"
#include "jit/compiler.h"

namespace hipflash::jit {

// `Vendor` is one of the two libraries, opened by its constructor from a path:
//   static kKind, kSerial (one compile at a time), kProduct
//   static std::string find()                                        the path; throws if not there
//   static Identity identity(const std::string& memo_dir, const std::string& path)
//   std::vector<std::string> architectures() const                   what it compiles for
//   static std::string base_architecture(const std::string& arch)    as architectures() spells it
//   std::vector<std::byte> compile(const CompileJob& job) const
template <class Vendor>
class RtcCompiler : public Compiler {
 public:
  explicit RtcCompiler(std::string memo_dir) : memo_dir_(std::move(memo_dir)) {}

  CompilerKind kind() const noexcept override { return Vendor::kKind; }

  std::string tool() override {
    const std::scoped_lock lock(mutex_);
    return find();
  }

  Identity identify() override {
    const std::scoped_lock lock(mutex_);
    const std::string path = find();
    if (!identity_) identity_ = Vendor::identity(memo_dir_, path);
    return *identity_;
  }

  std::vector<std::byte> compile(const CompileJob& job) override {
    const Vendor& vendor = open(job.tool);
    std::unique_lock lock(mutex_, std::defer_lock);
    if (Vendor::kSerial) lock.lock();
    const auto known = vendor.architectures();
    const auto base = Vendor::base_architecture(job.arch);
    if (std::find(known.begin(), known.end(), base) == known.end()) {
      fail(ErrorCode::CompileFailed,
           "{}: architecture \"{}\" is not known to the installed {}, which knows {}", job.label,
           job.arch, Vendor::kProduct, fmt::join(known, ", "));
    }
    return vendor.compile(job);
  }

  std::vector<std::string> architectures() { return open("").architectures(); }

 private:
  const std::string& find() {
    if (path_.empty()) path_ = Vendor::find();
    return path_;
  }

  const Vendor& open(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    if (!vendor_) vendor_ = std::make_unique<Vendor>(path.empty() ? find() : path);
    return *vendor_;
  }

  const std::string memo_dir_;
  std::mutex mutex_;
  std::string path_;
  std::optional<Identity> identity_;
  std::unique_ptr<Vendor> vendor_;
};

}  // namespace hipflash::jit
