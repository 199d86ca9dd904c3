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
//   static std::vector<std::string> identity_files(const std::string& path)
//                                                 what identity() depends on
//   static Identity identity(const std::string& path)                reads them whole
//   std::vector<std::string> architectures() const                   what it compiles for
//   static std::string base_architecture(const std::string& arch)    as architectures() spells it
//   static bool features_known(const std::string& arch)              of what follows the base
//   std::vector<std::byte> compile(const CompileJob& job) const
template <class Vendor>
class RtcCompiler : public Compiler {
 public:
  explicit RtcCompiler(std::string memo_dir) : memo_dir_(std::move(memo_dir)) {}

  CompilerKind kind() const noexcept override { return Vendor::kKind; }

  std::string tool() override {
    const std::scoped_lock lock(mutex_);
    forget_replaced();
    return find();
  }

  Identity identify() override {
    const std::scoped_lock lock(mutex_);
    forget_replaced();
    return ask();
  }

  std::optional<Identity> known() override {
    const std::scoped_lock lock(mutex_);
    forget_replaced();
    try {
      if (!identity_) identity_ = memo_now().read();
    } catch (const Error&) {  // there is no compiler
    }
    return identity_;
  }

  std::vector<std::byte> compile(const CompileJob& job) override {
    const Vendor& vendor = open(job.tool);
    std::unique_lock lock(serial_, std::defer_lock);
    if (Vendor::kSerial) lock.lock();
    const auto known = vendor.architectures();
    const auto base = Vendor::base_architecture(job.arch);
    if (std::find(known.begin(), known.end(), base) == known.end()) {
      fail(ErrorCode::CompileFailed, "{}: architecture \"{}\" is not known to the installed {}{}{}",
           job.label, job.arch, Vendor::kProduct, kWhichKnows, fmt::join(known, ", "));
    }
    if (!Vendor::features_known(job.arch)) {
      fail(ErrorCode::CompileFailed,
           "{}: architecture \"{}\": behind {} may follow :sramecc and :xnack, in this order and "
           "each with a + or -, and nothing else",
           job.label, job.arch, base);
    }
    return vendor.compile(job);
  }

  std::vector<std::string> architectures() { return open("").architectures(); }

 private:
  // A library that this process opened stays what it was. The helper process opens what lies at the
  // path then, so one that was upgraded in place is another compiler.
  void forget_replaced() {
    if (vendor_ || (identity_ && fingerprint_of(files_) == seen_)) return;
    identity_.reset();
    path_.clear();
  }

  const Identity& ask() {
    if (identity_) return *identity_;
    const IdentityMemo memo = memo_now();
    identity_ = memo.read();
    if (!identity_) {
      identity_ = Vendor::identity(path_);
      memo.write(*identity_);
    }
    return *identity_;
  }

  IdentityMemo memo_now() {
    files_ = Vendor::identity_files(find());
    seen_ = fingerprint_of(files_);
    return {memo_dir_, files_};
  }

  const std::string& find() {
    if (path_.empty()) path_ = Vendor::find();
    return path_;
  }

  const Vendor& open(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    if (vendor_) return *vendor_;
    // The identity stays from here on, so it must be that of what is opened.
    const bool asked = identity_.has_value();
    forget_replaced();
    if (asked) ask();
    vendor_ = std::make_unique<Vendor>(path.empty() ? find() : path);
    return *vendor_;
  }

  const std::string memo_dir_;
  std::mutex serial_;  // held for a whole compile where Vendor::kSerial
  std::mutex mutex_;   // guards what follows; not held while compiling
  std::string path_;
  std::optional<Identity> identity_;
  std::vector<std::string> files_;  // that identity_ is of
  std::string seen_;                // fingerprint_of() them
  std::unique_ptr<Vendor> vendor_;
};

}  // namespace hipflash::jit
