// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/shard/assembly.h"

namespace msitd::compare {

// A rank and token with more tensors than this in one run is compared in
// windows (group_windows.h), or not at all if there is no rule by which it can
// be split; nor are more loaded at a time, shards included. Bounds the memory
// of a comparison: some 500 bytes for each tensor of the group at hand and of
// the next ones (GroupLoader), in both runs, and for each of these shards; some
// 1,500 for a tensor whose shards are not held (lean_shards.h).
inline constexpr size_t kGroupTensorsMax = size_t{1} << 17;

// Parts of tensors of several that a group remembers: those of 512 GiB. Others
// are looked up when they are read.
inline constexpr size_t kGroupPartsMax = size_t{1} << 17;

// One tensor with its counterpart, or either alone: one of the two is null at
// most. A golden tensor is in as many pairs as it has counterparts.
struct TensorPair {
  const LogicalTensor* golden = nullptr;
  const LogicalTensor* target = nullptr;
  // Why they belong together, empty if that follows from their names; or why
  // one has no counterpart, empty if there is nothing to say.
  std::string_view reason = {};
  // The number of the pair of TensorMapping that put them together, or that
  // left the one alone, as it should be.
  std::optional<uint32_t> mapped_pair = {};
};

// Tensors that were passed over because a part of them is missing.
struct IncompleteTensors {
  uint64_t count = 0;
  std::vector<int32_t> ranks = {};  // All ranks that were looked at; ascending.
};

// The tensors of both runs at one rank and token.
struct TensorGroup {
  TensorGroup() = default;
  TensorGroup(TensorGroup&&) = default;
  TensorGroup& operator=(TensorGroup&&) = default;

  int64_t token = 0;
  int32_t rank = 0;
  // Names the run that has more than kGroupTensorsMax tensors here; there are
  // no pairs then.
  std::string too_large_run;
  // Which window of the tensors this is, and whether it is the last one.
  size_t window = 0;
  bool is_last_window = true;
  // Execution order of the golden run; what only the target has comes last, in
  // its own order. They point into the vectors below, which must not change,
  // and which a copy would leave behind.
  std::vector<TensorPair> pairs;
  // `key.run` is left empty, to save memory, and so are `parts` of more than
  // one behind the first kGroupPartsMax of a run.
  std::vector<LogicalTensor> golden;
  std::vector<LogicalTensor> target;
  IncompleteTensors golden_incomplete;
  IncompleteTensors target_incomplete;
};

}  // namespace msitd::compare
