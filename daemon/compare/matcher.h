// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/chunk_store.h"
#include "storage/types.h"

namespace msitd::compare {

// A comparison over more pairs of rank and token is refused; narrow its filter.
inline constexpr size_t kGroupsMax = size_t{1} << 20;

// A rank and token with more tensors than this in one run is not compared.
// Bounds the memory of a comparison: some 400 bytes for each tensor of the two
// groups at hand.
inline constexpr size_t kGroupTensorsMax = size_t{1} << 17;

// One tensor with its counterpart, or either alone: one of the two is null at
// most.
struct TensorPair {
  const storage::TensorInfo* golden = nullptr;
  const storage::TensorInfo* target = nullptr;
};

// The tensors of both runs at one rank and token.
struct TensorGroup {
  int64_t token = 0;
  int32_t rank = 0;
  // Names the run that has more than kGroupTensorsMax tensors here; there are
  // no pairs then.
  std::string too_large_run;
  // Execution order of the golden run; what only the target has comes last, in
  // its own order. They point into the vectors below, which must not change.
  std::vector<TensorPair> pairs;
  // `key.run` and `parts` are left empty, to save memory.
  std::vector<storage::TensorInfo> golden;
  std::vector<storage::TensorInfo> target;
};

// Finds which tensor of one run belongs to which of another by name: rank,
// token, op, call, io and index are equal. Devices must be equal as well,
// unless each run has a single device for the rank.
//
// Thread-compatible; the store must outlive it. What appears in a run after
// Create at a new rank and token is not seen.
class ExactMatcher {
 public:
  // Errors: RESOURCE_EXHAUSTED above kGroupsMax; those of the store.
  static absl::StatusOr<ExactMatcher> Create(storage::ChunkStore& store,
                                             std::string golden_run,
                                             std::string target_run,
                                             storage::TensorSelector selector);

  // Groups are in the order of token, then rank.
  size_t group_count() const { return groups_.size(); }

  // Loads `index`, which is below group_count().
  absl::StatusOr<TensorGroup> Load(size_t index) const;

 private:
  struct GroupKey {
    int64_t token;
    int32_t rank;
    friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
  };
  struct RankDevices {
    std::vector<std::string> golden;
    std::vector<std::string> target;
  };

  ExactMatcher(storage::ChunkStore& store, std::string golden_run,
               std::string target_run, storage::TensorSelector selector)
      : store_(&store),
        golden_run_(std::move(golden_run)),
        target_run_(std::move(target_run)),
        selector_(std::move(selector)) {}

  absl::Status AddCoordinates(const std::string& run,
                              std::vector<std::string> RankDevices::*side);
  // Returns false if there are too many.
  absl::StatusOr<bool> LoadSide(const std::string& run, const GroupKey& key,
                                const std::vector<std::string>& devices,
                                std::vector<storage::TensorInfo>& out) const;
  static void MatchByName(bool with_device, TensorGroup& group);

  storage::ChunkStore* store_;
  std::string golden_run_;
  std::string target_run_;
  storage::TensorSelector selector_;
  std::vector<GroupKey> groups_;
  std::map<int32_t, RankDevices> devices_;
};

}  // namespace msitd::compare
