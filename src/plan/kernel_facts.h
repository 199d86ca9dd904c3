// What the kernel text of every family gets to know about a Problem.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/attention_args.h"
#include "hipflash/problem.h"
#include "plan/mask_bounds.h"

namespace hipflash::plan {

// The compile-time facts common to all families: the first members of `struct Spec` in the text.
struct KernelFacts {
  ElementType element = ElementType::f32;
  int head_dim = 0;        // 0: taken from the arguments
  int value_head_dim = 0;  // likewise
  bool window_left = false, window_right = false;
  bool softcap = false, alibi = false, bias = false, mask = false, sinks = false, lse = false;
  bool ragged = false;  // sequences of their own lengths: common/sequence.h
  bool paged = false;   // keys and values in pages; implies ragged
  bool split_keys = false;
  bool aligned = false;
};

KernelFacts facts_of(const Problem& problem, const MaskBounds& bounds) noexcept;

// The facts of a family's general config, which serves any Problem of this element type.
KernelFacts general_facts(ElementType element) noexcept;

// The same for GPUs, where head dimensions, alignment and pages shape a kernel too much to be left
// open: those are the Problem's.
KernelFacts general_facts(const Problem& problem) noexcept;

// The members of `struct Spec`, one per line: the facts, then the tile config's numbers.
std::string spec_members(const KernelFacts& facts,
                         const std::vector<std::pair<std::string, int>>& tile);

// "f16 d128 causal lse": for people.
std::string describe(const KernelFacts& facts);

// Arguments that do not depend on the device: sizes, strides, mask, scale. Pointers are null.
AttentionArgs arguments_of(const Problem& problem, const MaskBounds& bounds) noexcept;

}  // namespace hipflash::plan
