// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/match/cached_rows.h"
#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/request/request_join.h"
#include "daemon/compare/request/request_view.h"
#include "daemon/compare/request/row_plans.h"
#include "daemon/compare/request/token_caches.h"
#include "daemon/compare/view/shared_tensors.h"
#include "daemon/compare/view/tensor_view.h"

namespace msitd::compare {

// Loads a golden token request by request, with the target tokens that have the
// same positions. Target tokens stay in memory as long as the next request
// needs them, so that a batch is loaded once.
//
// Thread-compatible. Borrows the matcher.
class RequestReading {
 public:
  RequestReading(const GroupMatcher& matcher, GroupKey key)
      : matcher_(matcher), key_(key) {}

  // Returns the group of the next request. Must not be called after the last
  // one or after an error. Errors: as GroupMatcher::Load.
  absl::StatusOr<TensorGroup> Next(storage::StopCheck stop);

 private:
  // A golden group number and a target token.
  using TargetPlace = std::pair<int32_t, int64_t>;
  // How a tensor is compared.
  enum class Use : uint8_t {
    kRows,   // Its rows are those of requests.
    kMask,   // It describes the batch, and is only listed.
    kCache,  // It is a cache, which has all positions so far.
    kWhole,  // It belongs to a token, and not to one of its requests.
  };
  // Tensors of one run and token as they are seen.
  struct Loaded {
    SharedTensors tensors;
    std::vector<Use> uses;
    TokenCaches caches;
    ViewedGoldens goldens;           // Those that views by the mapping add.
    std::vector<std::string> names;  // See Names.

    // Sets the tensors and their uses. `caches` must be set.
    void Set(std::vector<LogicalTensor> seen);
    // Returns a name for each tensor that has rows; see NameOf. Only the
    // tensors of requests that several tokens process need one.
    const std::vector<std::string>& Names();
  };

  absl::Status Begin(storage::StopCheck stop);
  // Loads the target tensors that are compared as a whole.
  absl::Status LoadTargetOthers(storage::StopCheck stop);
  // Sees the golden tensors with the views that belong to the target tensors of
  // a part. Returns false if there are too many.
  bool ViewGoldens(const JoinedPart& part);
  // Loads and pairs the tensors of a part.
  absl::Status Compare(const JoinedPart& part, storage::StopCheck stop,
                       TensorGroup& group);
  // Loads the target tensors of a part, and drops others. Returns false if
  // there are too many.
  absl::StatusOr<bool> LoadTargets(const JoinedPart& part,
                                   storage::StopCheck stop, TensorGroup& group);
  void AddViews(const JoinedPart& part, TensorGroup& group);
  // Lists the tensors that have rows of ranges, in the order of the first token
  // that has them. `loaded_of` returns the tensors of the token of a range.
  static void CollectRows(
      std::span<const PieceRange> ranges,
      absl::FunctionRef<Loaded&(const PieceRange&)> loaded_of,
      std::vector<RequestTensor>& out);
  // Adds tensors that are compared as a whole.
  void AddOthers(TensorGroup& group);
  // Adds the caches of both runs.
  void AddCaches(const JoinedPart& part, TensorGroup& group);
  // Adds masks, which are listed but not compared.
  void AddMasks(const JoinedPart& part, TensorGroup& group) const;
  // Lets the views of each pair have the same positions.
  void FitPairs(TensorGroup& group);
  void FitPair(const RequestTensor& golden, const RequestTensor& target,
               TensorPair& pair, TensorGroup& group);
  // Returns a tensor of a group that pairs point to.
  static LogicalTensor& MutableOf(const LogicalTensor& tensor, bool is_golden,
                                  TensorGroup& group);
  static Use UseOf(const LogicalTensor& tensor, const TokenCaches& caches);
  // Returns a name that no other tensor of the run has at a token.
  static std::string NameOf(const LogicalTensor& tensor);
  static std::string NotComparedText(const JoinedPart& part);

  const GroupMatcher& matcher_;
  const GroupKey key_;
  std::optional<std::vector<JoinedPart>> parts_;
  std::deque<std::string> problems_;  // Not reported yet.
  size_t next_ = 0;
  // There are tensors for AddOthers that were not added yet.
  bool owes_others_ = false;
  bool fits_ = true;
  // The golden tensors as they were loaded. Empty if the mapping has no views,
  // so that their views do not depend on the target tensors.
  std::vector<LogicalTensor> golden_recorded_;
  Loaded golden_;
  std::vector<LogicalTensor> target_others_;
  ViewedGoldens goldens_of_others_;
  IncompleteTensors golden_incomplete_;
  std::map<TargetPlace, Loaded> targets_;
  // The tensors of the current part and the plans of their views.
  std::vector<RequestTensor> golden_tensors_;
  std::vector<RequestTensor> target_tensors_;
  RowPlans plans_;
  CachedRows cached_;
  // The tensors that the views of the current group are of.
  std::vector<std::pair<const TensorView*, const RequestTensor*>> viewed_;
};

}  // namespace msitd::compare
