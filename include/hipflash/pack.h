/// \file
/// Packs: one file of compiled kernels and tuning results for machines without a compiler.
///
/// ```
/// hipflash::pack::CreateOptions options;
/// options.archs = {"gfx90a", "gfx942"};
/// options.workload = hipflash::read_workload("recorded.jsonl");
/// hipflash::pack::create("app.hfpack", options);
/// ...
/// hipflash::ContextOptions deployed;
/// deployed.prebuilt = {"app.hfpack"};
/// hipflash::Context ctx(hipflash::parse_device("hip:0"), deployed);
/// ```
///
/// A pack is the same byte for byte when it is made from the same kernels and tuning results by one
/// version of hipflash. Its format is described in cache/pack_file.h of the sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hipflash/error.h"
#include "hipflash/export.h"
#include "hipflash/workload.h"

namespace hipflash::pack {

/// One kernel of a pack.
struct Kernel {
  std::string key;  ///< Hex.
  std::string family;
  std::string arch;
  std::string label;     ///< For people: dtype, head dimension, features, tile.
  std::string compiler;  ///< What made it.
  std::uint64_t code_bytes = 0;
  std::uint64_t stored_bytes = 0;  ///< In the pack.
};

/// What is in a pack.
struct Contents {
  std::vector<Kernel> kernels;
  std::vector<std::string> tuned;  ///< Names of tuning results.
  std::string signer;              ///< Public key in hex; empty: not signed.
  std::uint64_t file_bytes = 0;
};

/// What goes into a pack: for which architectures, which kernels and tuning results.
struct CreateOptions {
  /// "gfx942", "sm_90a", "cpu-avx2"; empty: those that the items of the workload name, and this
  /// machine's CPU architecture for `problems`.
  std::vector<std::string> archs;
  std::vector<WorkloadItem> workload;  ///< Made for their own architecture, or each of `archs`.
  std::vector<Problem> problems;       ///< Made for each architecture and any size of device.
  /// Also general kernels; on GPUs at the types, head dimensions and alignment of the problems.
  bool general = false;
  bool from_cache = false;  ///< Also what the user cache holds (of `archs`, if there are any).
  bool tuned = true;  ///< Also tuning results: those of the user's store and of `tuned_files`.
  std::vector<std::string> tuned_files;  ///< JSON documents, or folders of them.
  std::string sign_key;                  ///< File of a secret key; empty: not signed.
  unsigned threads = 0;                  ///< Compiles at once; 0: one per processor.
  /// Called from the calling thread for each finished kernel.
  std::function<void(std::size_t done, std::size_t total, const std::string& what)> progress;
};

/// Compiles what is not in the user cache and writes the pack; nothing is written if a kernel does
/// not compile. Replaces `path` at once, whatever happens meanwhile.
/// \throws Error InvalidArgument, NotSupported, CompileFailed; CacheUnusable if it cannot be
/// written.
HIPFLASH_EXPORT Contents create(const std::string& path, const CreateOptions& options);

/// Reads the index. A damaged file, or one that HIPFLASH_TRUSTED_KEYS does not allow, is an error.
/// \throws Error CacheUnusable naming the file and what is wrong.
HIPFLASH_EXPORT Contents list(const std::string& path);

/// Like list(), checking every byte.
HIPFLASH_EXPORT Contents verify(const std::string& path);

/// A kernel that a pack lacks.
struct Missing {
  std::string arch;
  std::string label;
  std::string command;  ///< What makes a pack of it.
};

/// The kernels of a workload that a pack lacks. Items without an architecture are looked for in
/// each of `archs`, or of those that the pack has.
/// \throws Error CacheUnusable for a pack that cannot be used; InvalidArgument for an architecture
///         or an item of the workload that breaks a rule; NotSupported naming the feature.
HIPFLASH_EXPORT std::vector<Missing> missing(const std::string& path,
                                             const std::vector<WorkloadItem>& workload,
                                             const std::vector<std::string>& archs = {});

/// Verifies a pack and copies it to where every program finds it: `folder`, or else beside the
/// library, or else, where that cannot be written, the user's data folder. Returns the new path.
/// \throws Error CacheUnusable for a pack that cannot be used, or if no folder can be written.
HIPFLASH_EXPORT std::string install(const std::string& path, const std::string& folder = {});

/// What two packs do not share, one line each: "- ..." only in `a`, "+ ..." only in `b`, "! ..."
/// differing.
/// \throws Error CacheUnusable for a pack that cannot be used.
HIPFLASH_EXPORT std::vector<std::string> diff(const std::string& a, const std::string& b);

/// One pack of several. Where they differ about one kernel or tuning result, the first counts.
/// \throws Error CacheUnusable for a pack that cannot be used, or if `path` cannot be written;
///         InvalidArgument for a secret key that cannot be used.
HIPFLASH_EXPORT Contents merge(const std::string& path, const std::vector<std::string>& packs,
                               const std::string& sign_key = {});

/// Makes a key pair for signing: `path` (secret) and `path`.pub. Returns the public key in hex.
/// \throws Error CacheUnusable if a file is there already or cannot be written.
HIPFLASH_EXPORT std::string make_key(const std::string& path);

}  // namespace hipflash::pack
