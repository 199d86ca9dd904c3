// Compiles the default configs of the RDNA kernel text by hipRTC, without a GPU, and prints what
// each takes; fails if any spills or uses scratch up to a head dim of 256.
//
//   rdna_resources KERNEL_SOURCES [--family wmma|dot] [--queries N] [--out FOLDER] [--only TEXT]
//                 ARCH...
//
// --out keeps the code objects, for tools that read them.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "kernel.h"

namespace rdna_test {
namespace {

using hipflash::ElementType;
namespace rdna = hipflash::rdna;

// A number of the AMDGPU metadata note (MessagePack) of the kernel attention_forward.
unsigned metadata(const std::vector<char>& code, const std::string& key) {
  const std::string text(code.begin(), code.end());
  const std::size_t kernel = text.find(".symbol");
  if (kernel == std::string::npos) throw std::runtime_error("no metadata");
  // Keys of one kernel are sorted, and attention_forward comes first.
  const std::size_t at = text.find(key, text.find(".args"));
  if (at == std::string::npos) throw std::runtime_error("no " + key + " in the metadata");
  const unsigned char* p = reinterpret_cast<const unsigned char*>(&text[at + key.size()]);
  if (p[0] < 0x80) return p[0];
  if (p[0] == 0xcc) return p[1];
  if (p[0] == 0xcd) return static_cast<unsigned>(p[1] << 8 | p[2]);
  return static_cast<unsigned>(p[1]) << 24 | static_cast<unsigned>(p[2] << 16 | p[3] << 8 | p[4]);
}

struct Variant {
  const char* name;
  Facts facts;
};

std::vector<Variant> variants() {
  std::vector<Variant> all;
  const auto add = [&](const char* name, auto change) {
    Variant v = {name, {}};
    change(v.facts);
    all.push_back(v);
  };
  add("full", [](Facts&) {});
  add("causal", [](Facts& f) { f.window_right = true; });
  add("window", [](Facts& f) { f.window_left = f.window_right = true; });
  add("split", [](Facts& f) { f.window_right = f.split_keys = true; });
  add("softcap-alibi", [](Facts& f) { f.window_right = f.softcap = f.alibi = true; });
  add("bias", [](Facts& f) { f.bias = true; });
  add("mask", [](Facts& f) { f.mask = true; });
  add("everything", [](Facts& f) {
    f.window_left = f.window_right = f.softcap = f.alibi = f.bias = f.mask = true;
  });
  add("unaligned", [](Facts& f) { f.window_right = true, f.aligned = false; });
  return all;
}

}  // namespace
}  // namespace rdna_test

int main(int argc, char** argv) {
  using namespace rdna_test;
  std::string folder, out, only;
  bool dot = false;
  int queries = 4096;
  std::vector<std::string> archs;
  for (int n = 1; n < argc; n++) {
    const std::string word = argv[n];
    if (word == "--family" && n + 1 < argc) {
      dot = std::strcmp(argv[++n], "dot") == 0;
    } else if (word == "--out" && n + 1 < argc) {
      out = argv[++n];
    } else if (word == "--queries" && n + 1 < argc) {
      queries = std::stoi(argv[++n]);
    } else if (word == "--only" && n + 1 < argc) {
      only = argv[++n];
    } else if (folder.empty()) {
      folder = word;
    } else {
      archs.push_back(word);
    }
  }
  int failed = 0, compiled = 0;
  for (const std::string& arch : archs) {
    for (const ElementType element : {ElementType::f16, ElementType::bf16, ElementType::f32}) {
      if (!dot && element == ElementType::f32) continue;
      const char* names[] = {"f16", "bf16", "f32"};
      for (const int dim : {32, 64, 80, 96, 128, 160, 192, 224, 256, 512}) {
        for (const Variant& variant : variants()) {
          const std::string name = std::string(names[static_cast<int>(element)]) + "-d" +
                                   std::to_string(dim) + "-" + variant.name;
          if (!only.empty() && name.find(only) == std::string::npos) continue;
          Facts facts = variant.facts;
          facts.element = element, facts.head_dim = facts.value_head_dim = dim;
          std::string text;
          if (dot) {
            text = source_text(
                folder, "gpu/attention_forward_dot.hip",
                prologue(facts, rdna::dot_default(element == ElementType::f32 ? 4 : 2, dim, dim)));
          } else {
            const int generation = rdna::wmma_generation(arch.c_str());
            text = source_text(
                folder, "gpu/attention_forward_rdna.hip",
                prologue(facts, rdna::wmma_default(generation, dim, dim, queries,
                                                   facts.softcap || facts.alibi || facts.bias ||
                                                       facts.mask || !facts.aligned)));
          }
          try {
            const std::vector<char> code = compile(text, arch);
            const unsigned spills = metadata(code, ".vgpr_spill_count");
            const unsigned scratch = metadata(code, ".private_segment_fixed_size");
            std::printf("%-8s %-24s %3u VGPRs, %u spilled, %u bytes of scratch, %.1f KB shared\n",
                        arch.c_str(), name.c_str(), metadata(code, ".vgpr_count"), spills, scratch,
                        metadata(code, ".group_segment_fixed_size") / 1024.0);
            if (dim <= 256 && (spills || scratch)) failed++;
            compiled++;
            if (!out.empty()) {
              std::ofstream(out + "/" + arch + "-" + name + ".co", std::ios::binary)
                  .write(code.data(), static_cast<std::streamsize>(code.size()));
            }
          } catch (const std::exception& error) {
            std::printf("%-8s %-24s FAIL %s\n", arch.c_str(), name.c_str(), error.what());
            failed++;
          }
          std::fflush(stdout);
        }
      }
    }
  }
  std::printf("%d compiled, %d spill, use scratch or fail\n", compiled, failed);
  return failed ? 1 : 0;
}
