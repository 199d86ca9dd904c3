// The CDNA kernel text compiled by hipRTC for the device at hand, a real or an emulated one
// (gfx908, gfx90a, gfx942, gfx950), with the default tile of each combination, against float64.
//
// HIPFLASH_KERNEL_SOURCES names the folder kernel_sources/. HIPFLASH_TEST_DIMS, such as
// "128,40/72", chooses other head dims.
#define __HIP_PLATFORM_AMD__ 1
#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>

#include "../rdna/kernel.h"
#include "gpu/tiles_cdna.h"
#include "problem.h"

namespace cdna_test {
namespace {

using hipflash::ElementType;
namespace cdna = hipflash::cdna;

std::string architecture() {
  hipDeviceProp_t properties;
  if (hipGetDeviceProperties(&properties, 0) != hipSuccess) return "";
  return properties.gcnArchName;
}

const char* name_of(ElementType element) {
  const char* names[] = {"f16", "bf16", "f32"};
  return names[static_cast<int>(element)];
}

struct Config {
  ElementType element;
  int head_dim, value_dim;
  bool general;  // head dims from the arguments, every feature
};

std::string spec_of(const Config& config, const Needs& need, const cdna::Tile& tile, int dies) {
  std::ostringstream out;
  const auto number = [&](const char* name, int value) {
    out << "  static constexpr int " << name << " = " << value << ";\n";
  };
  const auto flag = [&](const char* name, bool value) {
    out << "  static constexpr bool " << name << " = " << (value ? "true" : "false") << ";\n";
  };
  out << "  static constexpr ElementType element = ElementType::" << name_of(config.element)
      << ";\n";
  number("head_dim", config.general ? 0 : config.head_dim);
  number("value_head_dim", config.general ? 0 : config.value_dim);
  flag("window_left", config.general || need.window_left);
  flag("window_right", config.general || need.window_right);
  flag("softcap", config.general || need.softcap);
  flag("alibi", config.general || need.alibi);
  flag("bias", config.general || need.bias);
  flag("mask", config.general || need.mask);
  flag("split_keys", config.general || need.split_keys);
  flag("aligned", !config.general && need.aligned);
  flag("sinks", false);
  flag("ragged", false);
  flag("paged", false);
  flag("lse", true);
  number("waves", tile.waves);
  number("mma_rows", tile.mma_rows);
  number("tile_keys", tile.tile_keys);
  number("waves_per_simd", tile.waves_per_simd);
  number("read_ahead", tile.read_ahead);
  number("dies", dies);
  number("pack_heads", 0);
  number("largest_head_dim", 512);
  return out.str();
}

// Runs one case and returns its fault. Modules are kept: many cases share one.
std::string run(const Case& c, const Config& config) {
  static const std::string arch = architecture();
  static std::map<std::string, std::unique_ptr<rdna_test::Module>> modules;
  const int element_bytes = config.element == ElementType::f32 ? 4 : 2;
  Needs need = needs(c);
  // The kernel reads whole chunks of rows only where it may.
  need.aligned =
      need.aligned && (c.layout == Layout::gaps || (config.head_dim * element_bytes % 16 == 0 &&
                                                    config.value_dim * element_bytes % 16 == 0));
  const bool plain =
      !config.general && need.aligned && !need.softcap && !need.alibi && !need.bias && !need.mask;
  const cdna::Card card = cdna::card_of(arch.c_str());
  const cdna::Tile tile = config.general ? cdna::default_tile(card, element_bytes, 512, 512, false)
                                         : cdna::default_tile(card, element_bytes, config.head_dim,
                                                              config.value_dim, plain);
  const std::string spec = spec_of(config, need, tile, cdna::dies_of(card));
  auto& module = modules[spec];
  if (!module) {
    const char* folder = std::getenv("HIPFLASH_KERNEL_SOURCES");
    module = std::make_unique<rdna_test::Module>(
        rdna_test::compile(rdna_test::source_text(folder ? folder : "kernel_sources",
                                                  "gpu/attention_forward.hip", spec),
                           arch, {std::begin(cdna::kOptions), std::end(cdna::kOptions)}));
  }

  Problem problem(c, config.element, config.head_dim, config.value_dim);
  hipflash::AttentionArgs args = problem.args();
  std::vector<std::unique_ptr<rdna_test::DeviceBuffer>> buffers;
  const auto memory = problem.memory(args);
  for (const Problem::Memory& m : memory) {
    buffers.push_back(std::make_unique<rdna_test::DeviceBuffer>(m.bytes));
    buffers.back()->upload(m.data, m.bytes);
    const auto offset = static_cast<const char*>(*m.argument) - static_cast<const char*>(m.data);
    *m.argument = static_cast<const char*>(buffers.back()->get()) + offset;
  }
  module->launch("attention_forward",
                 cdna::blocks(tile, args.batch, args.heads_q, args.seq_q, args.splits),
                 cdna::threads(tile), args);
  if (args.splits > 1) {
    module->launch("attention_merge",
                   cdna::merge_blocks(args.batch, args.heads_q, args.seq_q, args.value_head_dim),
                   cdna::kMergeThreads, args);
  }
  for (std::size_t i = 0; i < memory.size(); i++) {
    buffers[i]->download(memory[i].data, memory[i].bytes);
  }
  const std::string fault = problem.fault();
  std::cout << "  " << c.name << ": largest error " << problem.largest_error() << ", LSE "
            << problem.largest_lse_error() << "\n";
  return fault;
}

std::vector<Config> configs() {
  std::vector<Config> all;
  if (const char* dims = std::getenv("HIPFLASH_TEST_DIMS")) {
    std::stringstream list(dims);
    for (std::string item; std::getline(list, item, ',');) {
      const int head_dim = std::atoi(item.c_str());
      const auto slash = item.find('/');
      const int value_dim =
          slash == std::string::npos ? head_dim : std::atoi(item.c_str() + slash + 1);
      for (auto element : {ElementType::f16, ElementType::bf16, ElementType::f32}) {
        all.push_back({element, head_dim, value_dim, false});
      }
    }
    return all;
  }
  for (auto element : {ElementType::f16, ElementType::bf16, ElementType::f32}) {
    all.push_back({element, 64, 64, false});
  }
  all.push_back({ElementType::f16, 128, 128, false});
  all.push_back({ElementType::bf16, 96, 40, false});
  all.push_back({ElementType::f16, 59, 33, false});
  all.push_back({ElementType::f16, 111, 64, true});
  all.push_back({ElementType::f32, 24, 80, true});
  return all;
}

class Device : public ::testing::TestWithParam<Config> {};

TEST_P(Device, AgreesWithFloat64) {
  const std::string arch = architecture();
  if (cdna::card_of(arch.c_str()) == cdna::Card::none) GTEST_SKIP() << "no CDNA device: " << arch;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(run(c, GetParam()), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Cdna, Device, ::testing::ValuesIn(configs()), [](const auto& info) {
  const Config& c = info.param;
  return std::string(name_of(c.element)) + "_d" + std::to_string(c.head_dim) + "_" +
         std::to_string(c.value_dim) + (c.general ? "_general" : "");
});

}  // namespace
}  // namespace cdna_test
