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

// Maximum number of tensors of one run, including shards, that are loaded at a
// time. A rank and token with more tensors is compared in windows
// (group_windows.h), or not at all if it cannot be split.
//
// The limit bounds the memory of a comparison. A tensor or shard takes about
// 500 bytes, for both runs of the current group and of those that are loaded
// ahead (GroupLoader). A tensor whose shards were dropped (lean_shards.h) takes
// about 1,500 bytes.
inline constexpr size_t kGroupTensorsMax = size_t{1} << 17;

// Maximum number of parts that a group stores for tensors with several parts.
// They are enough for 512 GiB. Further parts are looked up when they are read.
inline constexpr size_t kGroupPartsMax = size_t{1} << 17;

// A golden tensor and its target tensor. One of them is null if the other has
// no counterpart. A golden tensor with several counterparts is in several
// pairs.
struct TensorPair {
  const LogicalTensor* golden = nullptr;
  const LogicalTensor* target = nullptr;
  // Why the tensors are a pair; empty if this follows from their names. For a
  // tensor without a counterpart, why it has none; may be empty.
  std::string_view reason = {};
  // The number of the pair of TensorMapping that is responsible: it names both
  // tensors, or it states that the tensor has no counterpart.
  std::optional<uint32_t> mapped_pair = {};
};

// Tensors that were ignored because one of their parts is missing.
struct IncompleteTensors {
  uint64_t count = 0;
  std::vector<int32_t> ranks = {};  // All ranks that were searched, ascending.
};

// The tensors of both runs at one rank and token.
struct TensorGroup {
  TensorGroup() = default;
  TensorGroup(TensorGroup&&) = default;
  TensorGroup& operator=(TensorGroup&&) = default;

  // Returns whether it has all tensors of the rank and token, or of a request.
  bool is_whole() const {
    return window == 0 && (is_last_window || !request.empty());
  }

  int64_t token = 0;
  int32_t rank = 0;
  // The name of the run that has more than kGroupTensorsMax tensors. Empty if
  // neither has. If set, there are no pairs.
  std::string too_large_run;
  // The number of this window, and whether it is the last one of the group.
  size_t window = 0;
  bool is_last_window = true;
  // If rows are compared by request, a group consists of several of these, each
  // of which is complete and has window 0. This is the id of the request in the
  // golden run; otherwise empty.
  std::string request;
  // Why something is not compared. If set, there are no pairs.
  std::string not_compared;
  // In the execution order of the golden run, followed by tensors that only the
  // target has, in its own order. Pairs point into the vectors below, which
  // must not change. The group can therefore be moved, but not copied.
  std::vector<TensorPair> pairs;
  // `key.run` is empty to save memory. After the first kGroupPartsMax parts of
  // a run, `parts` is also empty for tensors with several parts.
  std::vector<LogicalTensor> golden;
  std::vector<LogicalTensor> target;
  // Further tensors of `pairs` that are not to be paired. A pair has one of
  // them.
  std::vector<LogicalTensor> apart;
  IncompleteTensors golden_incomplete;
  IncompleteTensors target_incomplete;
};

}  // namespace msitd::compare
