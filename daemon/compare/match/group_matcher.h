// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/match/group_set.h"
#include "daemon/compare/match/group_windows.h"
#include "daemon/compare/match/match_rules.h"
#include "daemon/compare/match/rank_ranges.h"
#include "daemon/compare/match/side_loader.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/shard/mesh.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::compare {

enum class CallPairing : uint8_t;

// Finds which tensor of one run belongs to which of another: rank, token, op,
// call, io and index are equal, once the rules have made golden names of those
// of the target. Devices must be equal as well, unless each run has a single
// device for the rank. Calls of an op that one run calls more often are paired
// by their place in the execution order: see CallAlignment.
//
// Before that, tensors are paired that a mapping names, and if the rules are
// fuzzy, what is left over is paired once more: see PairingsOf.
//
// Where the matching has layouts, or the shards say how they lie, those of all
// ranks of a group are put together before, and have the group number
// for a rank. Devices do not count for them, nor for what they are
// compared with.
//
// If the runs have different numbers of ranks, tensors that say nothing beside
// others that do are taken for copies of one, of those ranks of their mesh that
// have them: of the smallest mesh of several ranks that their rank is in.
//
// Ranks and tokens of the selector are those of the golden run; its op patterns
// match golden names.
//
// Thread-compatible; both readers must outlive it. What appears in a run after
// Create at a new rank and token, or on a new mesh, is not seen.
class GroupMatcher {
 public:
  // `looks_ahead` has IsComplete know of tokens behind those of the selector.
  // `stop` is asked now and then.
  //
  // Errors: RESOURCE_EXHAUSTED above kGroupRunsMax; INVALID_ARGUMENT for a
  // filter by device where shards lie on meshes; those of `stop` and of the
  // store.
  static absl::StatusOr<GroupMatcher> Create(
      storage::RunReader& golden, storage::RunReader& target, Selector selector,
      MatchRules matching, bool looks_ahead, storage::StopCheck stop);
  static absl::StatusOr<GroupMatcher> Create(storage::RunReader& golden,
                                             storage::RunReader& target,
                                             Selector selector,
                                             MatchRules matching) {
    return Create(golden, target, std::move(selector), std::move(matching),
                  /*looks_ahead=*/false, [] { return absl::OkStatus(); });
  }

  // What there is to compare, in coordinates of the golden run.
  const GroupSet& groups() const { return groups_; }

  // Pairs the calls of these groups by their numbers, except for those of torch
  // functions, which have no rows before their group is complete. Rows of a
  // group that is not complete remain valid only if later calls cannot change
  // the pairs. Not called while groups are loaded.
  void KeepPairsOf(const GroupSet& groups) { has_early_rows_ = groups; }

  // True if devices tell tensors of this rank apart, at all tokens that are
  // asked for; `rank` is that of a group. A part of these tokens may have one
  // device alone.
  bool HasSeveralDevices(int32_t rank) const;

  // What of a run has come to its end.
  struct Closed {
    bool is_sealed = false;
    // Of an active run: ranks of which the last token has, or all but those of
    // which it has not.
    std::set<int32_t> ranks = {};
    bool is_all_but = false;

    bool Has(int32_t rank) const { return ranks.contains(rank) != is_all_but; }

    friend bool operator==(const Closed&, const Closed&) = default;
  };

  // True if no more tensors of the group are to be expected: each run has a
  // later token of the rank, and of all ranks of the groups with its number, or
  // is closed. Both are from before Create.
  bool IsComplete(const GroupKey& group, const Closed& golden,
                  const Closed& target) const;

  // What is compared of some ranks of a run.
  struct Compared {
    RankRanges ranks;  // Those that are asked for.
    RankRanges
        group_numbers;  // Of the golden run, at which they may have tensors.
  };
  Compared ComparedOf(bool is_target, const RankRanges& ranks) const;

  // True if ranks that are not there may have all of the tensor of one run that
  // belongs to `other`, the tensor of the other run with a group number of
  // the golden run. False if one that is there would have to have a part of it.
  bool MayBeOn(const RankRanges& absent, bool is_target,
               const LogicalTensor& other, int32_t golden_number) const;

  // The last token that a run has for a group number of the golden run, in its
  // own tokens and whichever are asked for; nothing if it has none. Looks at
  // the run if not all tokens are asked for.
  //
  // Errors: those of the reader.
  absl::StatusOr<std::optional<int64_t>> LastToken(bool is_target,
                                                   int32_t golden_number) const;

  // The group numbers, in the golden run, that tensors of a rank may have, of
  // those that are compared; none if the rank is not asked for.
  std::vector<int32_t> GroupNumbersOf(bool is_target, int32_t rank) const;
  int64_t token_offset() const { return matching_.token_offset(); }
  RankCount golden_ranks() const { return golden_ranks_; }
  RankCount target_ranks() const { return target_ranks_; }

  // As RunReader::is_far, of either run.
  bool is_far() const { return golden_->is_far() || target_->is_far(); }

  // Loads one of groups(). Reads the descriptors of all ranks of its groups.
  // Thread-safe. Errors: that of `stop`, which is asked now and then; those of
  // the store.
  absl::StatusOr<TensorGroup> Load(const GroupKey& group,
                                   storage::StopCheck stop) const;

  // Splits a group that Load found too large. Nothing if its tensors do not
  // belong together by their own names, so that any two may be a pair, or if it
  // is too large even so. Thread-safe, like LoadWindow; errors as Load.
  absl::StatusOr<std::optional<GroupWindows>> Split(
      const GroupKey& group, storage::StopCheck stop) const;

  // Loads one of these windows. `too_large_run` is set if the run has grown
  // beyond it.
  absl::StatusOr<TensorGroup> LoadWindow(const GroupKey& group,
                                         const GroupWindows& windows,
                                         size_t number,
                                         storage::StopCheck stop) const;

 private:
  // What one run has for a group number.
  struct Holders {
    // Of all ranks, and of the rank that is the number itself.
    std::set<std::string> devices;
    std::set<std::string> own_devices;
    // The last token of every rank, in tokens of the golden run.
    std::map<int32_t, int64_t> last_tokens;
  };
  struct BothHolders {
    Holders golden;
    Holders target;
  };
  GroupMatcher(storage::RunReader& golden, storage::RunReader& target,
               Selector selector, MatchRules matching, bool looks_ahead)
      : golden_(&golden),
        target_(&target),
        selector_(std::move(selector)),
        matching_(std::move(matching)),
        looks_ahead_(looks_ahead) {}

  // Finds out on which meshes shards of a run lie.
  absl::StatusOr<MeshSet> FindMeshes(storage::RunReader& run,
                                     const LayoutRules& layouts,
                                     size_t& placement_count) const;
  // Looks where both runs have tensors. Returns false if a placement has come
  // meanwhile, so that it has to be done again.
  absl::StatusOr<bool> FindGroups(storage::StopCheck stop);
  // Adds those groups for which a run has tensors.
  absl::Status AddCoordinates(bool is_target, storage::StopCheck stop,
                              GroupCollector& groups);
  // The selector of a run with, if this looks ahead, later tokens than are
  // asked for.
  Selector LookingAhead(Selector selector) const;
  // A rank and device of a run, with its tokens in those of the golden run:
  // those that are asked for, and the last of all.
  struct Place {
    int32_t rank = 0;
    std::string device;
    TokenRuns tokens = {};
    int64_t last_token = 0;
  };
  // Takes note of it for the group numbers of its rank.
  absl::Status AddPlace(bool is_target,
                        const std::vector<int32_t>& group_numbers,
                        const Place& place, GroupCollector& groups);
  // True if the ranks that the user asks for have this group number of the
  // golden run.
  bool IsSelected(int32_t group_number) const;
  bool IsSelectedToken(int64_t token) const;
  // The golden group number that stands for one of either run; nothing if it is
  // not to be compared.
  std::optional<int32_t> GoldenNumberOf(bool is_target,
                                        int32_t group_number) const;
  bool HasCopies() const;
  RunSide GoldenSide() const;
  // The selector in the terms of the target run.
  RunSide TargetSide() const;
  static bool IsComplete(const LayoutRules& layouts, const MeshSet& meshes,
                         int32_t group_number, RankCount ranks,
                         const Holders& holders, const Closed& closed,
                         int64_t token);
  // A side of a group, narrowed to the ranks that hold tensors of it, with the
  // group number in the terms of its run. Nothing if the run has none of them.
  struct GroupSide {
    RunSide side;
    int32_t group_number = 0;
  };
  std::optional<GroupSide> SideOf(bool is_target, const GroupKey& group) const;
  // Loads the tensors of a group. Returns false if there are too many.
  absl::StatusOr<bool> LoadSide(bool is_target, const GroupKey& group,
                                storage::StopCheck stop,
                                const SideLoader::TakesTensor& takes,
                                TensorGroup& out) const;
  // Loads both sides, and pairs what they have.
  absl::StatusOr<TensorGroup> LoadSome(
      const GroupKey& key, storage::StopCheck stop,
      const SideLoader::TakesTensor& takes_golden,
      const SideLoader::TakesTensor& takes_target) const;
  // What a tensor and its counterpart have in common.
  std::string NameOf(bool is_target, const TensorKey& key) const;
  // Fills in the pairs.
  void Match(bool with_device, CallPairing calls, TensorGroup& group) const;
  // True for what the op patterns select by its golden name.
  bool IsSelected(const storage::TensorInfo& target) const;
  // As LastToken, from the run itself.
  absl::StatusOr<std::optional<int64_t>> FindLastToken(
      bool is_target, int32_t golden_number) const;
  // The group numbers that are asked for, if not all are.
  std::vector<int32_t> SelectedGroupNumbers() const;
  const LayoutRules& LayoutsOf(bool is_target) const {
    return is_target ? matching_.target_layouts() : matching_.golden_layouts();
  }
  const MeshSet& MeshesOf(bool is_target) const {
    return is_target ? target_meshes_ : golden_meshes_;
  }
  RankCount RanksOf(bool is_target) const {
    return is_target ? target_ranks_ : golden_ranks_;
  }

  storage::RunReader* golden_;
  storage::RunReader* target_;
  Selector selector_;
  MatchRules matching_;
  bool looks_ahead_;
  bool has_order_ = false;  // HasKnownOrder of both runs.
  GroupSet groups_;
  GroupSet has_early_rows_;
  std::map<int32_t, BothHolders> holders_;  // By golden group number.
  MeshSet golden_meshes_;
  MeshSet target_meshes_;
  RankCount golden_ranks_;
  RankCount target_ranks_;
};

}  // namespace msitd::compare
