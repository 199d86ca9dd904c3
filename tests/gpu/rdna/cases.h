// The cases of the RDNA kernel text's test: small shapes with every mask, tail and feature.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "common/attention_args.h"
#include "gpu/tiles_rdna.h"

namespace rdna_test {

// How the rows of Q, K, V and the output lie.
enum class Layout {
  bhsd,
  bshd,
  padded,    // aligned rows with a gap
  odd,       // unaligned rows, unaligned base
  backward,  // negative distance between rows
};

enum class Mask { none, scattered, padding };

struct Case {
  std::string name;
  hipflash::ElementType element = hipflash::ElementType::f16;
  int batch = 1, heads_q = 2, heads_kv = 1, seq_q = 80, seq_k = 113, head_dim = 64, value_dim = 64;
  bool causal = false, top_left = false;
  int left = -1, right = -1;
  float scale = NAN, softcap = 0.0f, size = 1.0f, q_offset = 0.0f;
  bool alibi = false, bias = false;
  hipflash::ElementType bias_type = hipflash::ElementType::f32;
  Mask mask = Mask::none;
  bool hidden_nan = false, seen_nan = false;
  bool all_features = false;  // compiled for all of them, whichever the call uses
  int splits = 1;
  Layout layout = Layout::bhsd;
  hipflash::rdna::WmmaTile wmma_tile = {};  // 0 waves: the default
  hipflash::rdna::DotTile dot_tile = {};
};

std::vector<Case> wmma_cases();
std::vector<Case> dot_cases();

}  // namespace rdna_test
