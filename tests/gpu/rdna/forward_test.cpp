// Runs the RDNA kernel text, compiled by hipRTC, on a device (a real or an emulated one) and holds
// output and log-sum-exp against float64: every mask, tail and feature on small shapes.
//
//   rdna_forward_test KERNEL_SOURCES [--family wmma|dot] [--only TEXT] [--skip N] [--list]
//
// One line a case: name, tile, largest error of the output beside the allowed one, largest error of
// the log-sum-exp, registers. The exit code is 1 if any case failed.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>

#include "cases.h"
#include "kernel.h"
#include "reference.h"

namespace rdna_test {
namespace {

using hipflash::AttentionArgs;
using hipflash::ElementType;
namespace rdna = hipflash::rdna;

// A strided device tensor (batch, head, row, dim) with everything between its rows left NaN.
class DeviceTensor {
 public:
  DeviceTensor(ElementType element, int batch, int heads, int rows, int dim, Layout layout)
      : size_(element == ElementType::f32 ? 4 : 2),
        element_(element),
        batch_(batch),
        heads_(heads),
        rows_(rows),
        dim_(dim) {
    const long long b = batch, h = heads, s = rows, d = dim;
    switch (layout) {
      case Layout::bhsd:
        stride_ = {h * s * d, d, s * d};
        break;
      case Layout::bshd:
        stride_ = {s * h * d, h * d, d};
        break;
      case Layout::padded:
        stride_ = {h * s * (d + 8), d + 8, s * (d + 8)};
        break;
      case Layout::odd:
        stride_ = {h * s * (d + 3) + 1, d + 3, s * (d + 3)};
        first_ = 1;
        break;
      case Layout::backward:
        stride_ = {h * s * d, -d, s * d};
        first_ = s > 0 ? (s - 1) * d : 0;
        break;
    }
    if (layout == Layout::bshd && d % 8 != 0) stride_ = {s * h * (d + 5), h * (d + 5), d + 5};
    long long last = first_;
    for (const long long step :
         {(b - 1) * stride_.batch, (h - 1) * stride_.head, (s - 1) * stride_.seq}) {
      if (step > 0) last += step;
    }
    elements_ = b && h && s ? static_cast<std::size_t>(last + d) : 0;
    host_.assign(elements_ * size_, 0xff);
    buffer_ = std::make_unique<DeviceBuffer>(elements_ * size_);
  }
  hipflash::RowStrides strides() const { return stride_; }
  void* data() const {
    return static_cast<char*>(buffer_->get()) + static_cast<std::size_t>(first_) * size_;
  }
  void write(const std::vector<float>& dense) {
    each([&](std::size_t at, std::size_t n) {
      if (size_ == 4) {
        std::memcpy(&host_[at], &dense[n], 4);
      } else {
        const std::uint16_t bits = to_bits(element_, dense[n]);
        std::memcpy(&host_[at], &bits, 2);
      }
    });
    buffer_->upload(host_.data(), host_.size());
  }
  // Also tells whether anything between the rows was written.
  std::vector<float> read(bool& clean) {
    std::vector<unsigned char> now(host_.size());
    buffer_->download(now.data(), now.size());
    std::vector<float> dense(static_cast<std::size_t>(batch_) * static_cast<std::size_t>(heads_) *
                             static_cast<std::size_t>(rows_) * static_cast<std::size_t>(dim_));
    each([&](std::size_t at, std::size_t n) {
      if (size_ == 4) {
        std::memcpy(&dense[n], &now[at], 4);
      } else {
        std::uint16_t bits;
        std::memcpy(&bits, &now[at], 2);
        dense[n] = from_bits(element_, bits);
      }
      std::memset(&now[at], 0xff, size_);
    });
    for (const unsigned char byte : now) clean = clean && byte == 0xff;
    return dense;
  }

 private:
  template <class F>
  void each(F f) const {
    std::size_t n = 0;
    for (int b = 0; b < batch_; b++)
      for (int h = 0; h < heads_; h++)
        for (int s = 0; s < rows_; s++)
          for (int d = 0; d < dim_; d++) {
            const long long at =
                first_ + b * stride_.batch + h * stride_.head + s * stride_.seq + d;
            f(static_cast<std::size_t>(at) * size_, n++);
          }
  }
  std::size_t size_, elements_ = 0;
  ElementType element_;
  int batch_, heads_, rows_, dim_;
  long long first_ = 0;
  hipflash::RowStrides stride_{};
  std::vector<unsigned char> host_;
  std::unique_ptr<DeviceBuffer> buffer_;
};

Problem make_problem(const Case& c) {
  Problem p;
  p.element = c.element;
  p.batch = c.batch, p.heads_q = c.heads_q, p.heads_kv = c.heads_kv;
  p.seq_q = c.seq_q, p.seq_k = c.seq_k, p.head_dim = c.head_dim, p.value_dim = c.value_dim;
  p.diagonal = c.top_left ? 0 : c.seq_k - c.seq_q;
  if (c.causal) p.window_right = 0;
  if (c.left >= 0) p.window_left = c.left;
  if (c.right >= 0) p.window_right = c.right;
  p.scale = std::isnan(c.scale) ? 1.0f / std::sqrt(static_cast<float>(c.head_dim)) : c.scale;
  p.softcap = c.softcap, p.alibi = c.alibi, p.bias = c.bias, p.mask = c.mask != Mask::none;
  std::mt19937 random(12345);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& to, int heads, int rows, int dim, float size) {
    to.resize(static_cast<std::size_t>(c.batch) * static_cast<std::size_t>(heads) *
              static_cast<std::size_t>(rows) * static_cast<std::size_t>(dim));
    for (float& x : to) x = rounded(c.element, normal(random) * size);
  };
  fill(p.q, c.heads_q, c.seq_q, c.head_dim, c.size);
  fill(p.k, c.heads_kv, c.seq_k, c.head_dim, c.size);
  fill(p.v, c.heads_kv, c.seq_k, c.value_dim, 1);
  for (float& x : p.q) x = rounded(c.element, x + c.q_offset);
  for (int h = 0; h < c.heads_q; h++) {
    p.slopes.push_back(
        std::exp2(-8.0f * static_cast<float>(h + 1) / static_cast<float>(c.heads_q)));
  }
  const std::size_t cells =
      static_cast<std::size_t>(p.cell(c.batch - 1, c.heads_q - 1, c.seq_q - 1, c.seq_k - 1)) + 1;
  if (p.bias) {
    p.bias_cells.resize(cells);
    for (float& x : p.bias_cells) x = rounded(c.bias_type, normal(random));
  }
  if (p.mask) {
    p.mask_cells.resize(cells);
    for (int b = 0; b < c.batch; b++)
      for (int h = 0; h < c.heads_q; h++)
        for (int i = 0; i < c.seq_q; i++)
          for (int j = 0; j < c.seq_k; j++) {
            bool sees = random() % 4 != 0 && i % 7 != 3;
            if (c.mask == Mask::padding) sees = j >= 5 && j < c.seq_k - 9;
            p.mask_cells[static_cast<std::size_t>(p.cell(b, h, i, j))] = sees;
          }
  }
  if (c.hidden_nan) {  // in K and V at keys that no query sees
    for (int b = 0; b < c.batch; b++)
      for (int kv = 0; kv < c.heads_kv; kv++)
        for (int j = 0; j < c.seq_k; j++) {
          bool seen = false;
          const int group = c.heads_q / c.heads_kv;
          for (int h = kv * group; h < (kv + 1) * group; h++)
            for (int i = 0; i < c.seq_q; i++) seen = seen || p.sees(b, h, i, j);
          if (seen) continue;
          const std::size_t row = static_cast<std::size_t>((b * c.heads_kv + kv) * c.seq_k + j);
          for (int d = 0; d < c.head_dim; d++)
            p.k[row * static_cast<std::size_t>(c.head_dim) + static_cast<std::size_t>(d)] = NAN;
          for (int d = 0; d < c.value_dim; d++)
            p.v[row * static_cast<std::size_t>(c.value_dim) + static_cast<std::size_t>(d)] = NAN;
        }
  }
  if (c.seen_nan) {  // in one query, and in K at the last key
    p.q[static_cast<std::size_t>(c.head_dim)] = NAN;
    p.k[static_cast<std::size_t>((c.seq_k - 1) * c.head_dim)] = NAN;
  }
  return p;
}

// Blocks, threads and text of a case for the family under test.
struct Kernel {
  std::string text, tile;
  long long blocks = 0;
  int threads = 0;
};

Kernel make_kernel(const Case& c, const std::string& folder, const std::string& arch, bool dot) {
  Facts f;
  f.element = c.element, f.head_dim = c.head_dim, f.value_head_dim = c.value_dim;
  f.window_left = c.left >= 0;
  f.window_right = c.causal || c.right >= 0;
  f.softcap = c.softcap > 0, f.alibi = c.alibi, f.bias = c.bias, f.mask = c.mask != Mask::none;
  f.split_keys = c.splits > 1;
  f.aligned = c.layout != Layout::odd && c.layout != Layout::backward && c.head_dim % 8 == 0 &&
              c.value_dim % 8 == 0;
  if (c.all_features) {
    f.window_left = f.window_right = f.softcap = f.alibi = f.bias = f.mask = true;
  }
  Kernel kernel;
  char tile_text[80];
  if (dot) {
    const rdna::DotTile tile =
        c.dot_tile.threads
            ? c.dot_tile
            : rdna::dot_default(c.element == ElementType::f32 ? 4 : 2, c.head_dim, c.value_dim);
    kernel.text = source_text(folder, "gpu/attention_forward_dot.hip", prologue(f, tile));
    kernel.blocks = rdna::dot_blocks(tile, c.batch, c.heads_q, c.seq_q, c.splits);
    kernel.threads = tile.threads;
    std::snprintf(tile_text, sizeof(tile_text), "%dt k%d c%d v%d", tile.threads, tile.tile_keys,
                  tile.dim_chunk, tile.value_chunk);
  } else {
    const int generation = rdna::wmma_generation(arch.c_str());
    const rdna::WmmaTile tile =
        c.wmma_tile.waves
            ? rdna::wmma_candidate(c.wmma_tile, generation, c.head_dim, c.value_dim)
            : rdna::wmma_default(generation, c.head_dim, c.value_dim, c.seq_q,
                                 f.softcap || f.alibi || f.bias || f.mask || !f.aligned);
    if (tile.waves == 0) return kernel;
    kernel.text = source_text(folder, "gpu/attention_forward_rdna.hip", prologue(f, tile));
    kernel.blocks = rdna::wmma_blocks(tile, c.batch, c.heads_q, c.seq_q, c.value_dim, c.splits);
    kernel.threads = rdna::wmma_threads(tile);
    std::snprintf(tile_text, sizeof(tile_text), "%dx%dx16 k%d%s v%d", tile.waves, tile.query_tiles,
                  tile.tile_keys, tile.query_shared ? " q-shared" : "", tile.value_slice);
  }
  kernel.tile = tile_text;
  return kernel;
}

bool run_case(const Case& c, const std::string& folder, const std::string& arch, bool dot) {
  const Kernel kernel = make_kernel(c, folder, arch, dot);
  if (kernel.threads == 0) {
    std::printf("skip %-8s %-44s this tile does not fit\n", arch.c_str(), c.name.c_str());
    return true;
  }
  const Module module(compile(kernel.text, arch));
  const Problem p = make_problem(c);

  DeviceTensor q(c.element, c.batch, c.heads_q, c.seq_q, c.head_dim, c.layout);
  DeviceTensor k(c.element, c.batch, c.heads_kv, c.seq_k, c.head_dim, c.layout);
  DeviceTensor v(c.element, c.batch, c.heads_kv, c.seq_k, c.value_dim, c.layout);
  DeviceTensor out(c.element, c.batch, c.heads_q, c.seq_q, c.value_dim, c.layout);
  q.write(p.q), k.write(p.k), v.write(p.v);
  const std::size_t rows = static_cast<std::size_t>(c.batch) * static_cast<std::size_t>(c.heads_q) *
                           static_cast<std::size_t>(c.seq_q);
  DeviceBuffer lse(rows * 4), bias(p.bias_cells.size() * 4), mask(p.mask_cells.size());
  DeviceBuffer slopes(p.slopes.size() * 4);
  const std::size_t parts = static_cast<std::size_t>(c.splits);
  DeviceBuffer part_out(rows * 4 * parts * static_cast<std::size_t>(c.value_dim));
  DeviceBuffer part_lse(rows * 4 * parts);

  AttentionArgs args = {};
  args.q = q.data(), args.k = k.data(), args.v = v.data(), args.out = out.data();
  args.q_stride = q.strides(), args.k_stride = k.strides(), args.v_stride = v.strides();
  args.out_stride = out.strides();
  args.lse = static_cast<float*>(lse.get());
  args.lse_stride = {static_cast<long long>(c.heads_q) * c.seq_q, 1, c.seq_q};
  const hipflash::CellStrides dense = {static_cast<long long>(c.heads_q) * c.seq_q * c.seq_k,
                                       static_cast<long long>(c.seq_q) * c.seq_k, c.seq_k, 1};
  if (p.bias) {
    if (c.bias_type == ElementType::f32) {
      bias.upload(p.bias_cells.data(), p.bias_cells.size() * 4);
    } else {
      std::vector<std::uint16_t> bits;
      for (const float x : p.bias_cells) bits.push_back(to_bits(c.bias_type, x));
      bias.upload(bits.data(), bits.size() * 2);
    }
    args.bias = bias.get(), args.bias_stride = dense, args.bias_type = c.bias_type;
  }
  if (p.mask) {
    mask.upload(p.mask_cells.data(), p.mask_cells.size());
    args.mask = static_cast<const unsigned char*>(mask.get()), args.mask_stride = dense;
  }
  if (p.alibi) {
    slopes.upload(p.slopes.data(), p.slopes.size() * 4);
    args.alibi = static_cast<const float*>(slopes.get()), args.alibi_head_stride = 1;
  }
  args.batch = c.batch, args.heads_q = c.heads_q, args.heads_kv = c.heads_kv;
  args.seq_q = c.seq_q, args.seq_k = c.seq_k;
  args.head_dim = c.head_dim, args.value_head_dim = c.value_dim;
  args.diagonal = p.diagonal, args.window_left = p.window_left;
  args.window_right = p.window_right, args.alibi_diagonal = c.seq_k - c.seq_q;
  args.scale = p.scale, args.softcap = p.softcap, args.splits = c.splits;
  args.partial_batch = c.batch, args.partial_seq = c.seq_q;
  args.partial_out = static_cast<float*>(part_out.get());
  args.partial_lse = static_cast<float*>(part_lse.get());
  module.launch("attention_forward", kernel.blocks, kernel.threads, args);
  if (c.splits > 1) {
    module.launch("attention_merge", rdna::merge_blocks(c.batch, c.heads_q, c.seq_q, c.value_dim),
                  rdna::kMergeThreads, args);
  }

  bool clean = true;
  const std::vector<float> got = out.read(clean);
  std::vector<float> got_lse(rows);
  lse.download(got_lse.data(), rows * 4);
  const Result exact = attention(p, false);
  const double allowed = allowed_error(p, exact);
  double error = 0, lse_error = 0;
  bool right = clean;
  for (std::size_t n = 0; n < got.size(); n++) {
    const double e = exact.out[n], g = static_cast<double>(got[n]);
    if (std::isfinite(e) && std::isfinite(g)) {
      error = std::max(error, std::abs(e - g));
    } else {
      right = right && std::isnan(e) == std::isnan(g);
    }
  }
  for (std::size_t n = 0; n < rows; n++) {
    const double e = exact.lse[n], g = static_cast<double>(got_lse[n]);
    if (std::isfinite(e) && std::isfinite(g)) {
      lse_error = std::max(lse_error, std::abs(e - g) / std::max(1.0, std::abs(e)));
    } else {
      right = right && (e == g || (std::isnan(e) && std::isnan(g)));
    }
  }
  right = right && error <= allowed && lse_error <= 2e-5;
  std::printf("%s %-8s %-44s %-22s out %.2e of %.2e lse %.1e%s\n", right ? "pass" : "FAIL",
              arch.c_str(), c.name.c_str(), kernel.tile.c_str(), error, allowed, lse_error,
              clean ? "" : " wrote outside of the rows");
  std::fflush(stdout);
  return right;
}

}  // namespace
}  // namespace rdna_test

int main(int argc, char** argv) {
  using namespace rdna_test;
  std::string folder, only;
  bool dot = false, list = false;
  int skip = 0;
  for (int n = 1; n < argc; n++) {
    const std::string word = argv[n];
    if (word == "--family" && n + 1 < argc) {
      dot = std::strcmp(argv[++n], "dot") == 0;
    } else if (word == "--only" && n + 1 < argc) {
      only = argv[++n];
    } else if (word == "--skip" && n + 1 < argc) {
      skip = std::stoi(argv[++n]);
    } else if (word == "--list") {
      list = true;
    } else {
      folder = word;
    }
  }
  hipDeviceProp_t device = {};
  if (hipGetDeviceProperties(&device, 0) != hipSuccess) {
    std::fprintf(stderr, "no AMD device\n");
    return 2;
  }
  std::string arch = device.gcnArchName;
  arch = arch.substr(0, arch.find(':'));
  int passed = 0, failed = 0;
  for (const Case& c : dot ? dot_cases() : wmma_cases()) {
    if (skip-- > 0) continue;
    if (!only.empty() && c.name.find(only) == std::string::npos) continue;
    if (list) {
      std::printf("%s\n", c.name.c_str());
      continue;
    }
    try {
      (run_case(c, folder, arch, dot) ? passed : failed)++;
    } catch (const std::exception& error) {
      std::printf("FAIL %-8s %-44s %s\n", arch.c_str(), c.name.c_str(), error.what());
      failed++;
    }
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}
