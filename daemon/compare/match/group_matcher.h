// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/match/group_set.h"
#include "daemon/compare/match/group_windows.h"
#include "daemon/compare/match/mapping_views.h"
#include "daemon/compare/match/match_rules.h"
#include "daemon/compare/match/side_loader.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/request/request_book.h"
#include "daemon/compare/request/request_join.h"
#include "daemon/compare/request/token_caches.h"
#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/shard/mesh.h"
#include "protos/base/rank_set.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::compare {

enum class CallPairing : uint8_t;

// Finds the tensors of two runs that belong together.
//
// Two tensors belong together if they have the same rank, token, op, call, io
// and index, after the rules have translated those of the target run to golden
// ones. Devices must also be equal, unless each run has a single device for the
// rank. If one run calls an op more often than the other, its calls are paired
// by their positions in the execution order; see CallAlignment. A mapping takes
// precedence over names, and fuzzy matching pairs tensors that have no partner
// after that; see Pairing.
//
// Shards are assembled before they are paired, if there is a layout rule for
// them or they have a recorded placement. The assembled tensor has a group
// number in place of a rank. Devices are ignored for it and for its
// counterpart.
//
// If the runs have different numbers of ranks and a run has placements, a
// tensor without placement is considered to be a copy that each rank of a mesh
// computes for itself. The mesh is the smallest one of several ranks that
// contains the rank of the tensor. Not all ranks of the mesh need to have a
// copy.
//
// The matcher never holds all tensors of a run. Create lists the ranks and
// tokens of both runs. The pairs of one of them, a group, are then loaded on
// request, and groups that are too large are split into windows. The cost is
// that tensors can be paired only within one rank and token.
//
// Ranks and tokens of the selector are those of the golden run, and its op
// patterns match golden names. Ranks, tokens and meshes that are added to a run
// after Create are ignored.
//
// Thread-compatible. Both readers must outlive the matcher.
class GroupMatcher {
 public:
  // If `looks_ahead`, later tokens than those of the selector are listed as
  // well, for IsComplete. `stop` is called regularly.
  //
  // Errors: RESOURCE_EXHAUSTED above kGroupRunsMax; INVALID_ARGUMENT for a
  // filter by device if shards are on meshes; those of `stop` and of the store.
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

  // The groups to compare, with ranks and tokens of the golden run.
  const GroupSet& groups() const { return groups_; }

  // Pairs the calls of these groups by their numbers, except for those of torch
  // functions, which have no rows before their group is complete. This keeps
  // rows of incomplete groups valid, because later calls cannot change the
  // pairs. Must not be called while groups are loaded.
  void KeepPairsOf(const GroupSet& groups) { has_early_rows_ = groups; }

  // Returns whether a run has several devices for a rank, so that tensors are
  // paired by device. `rank` is that of a group. All selected tokens are
  // considered; some of them may have only one device.
  bool HasSeveralDevices(int32_t rank) const;

  // The parts of a run to which no more tensors will be added.
  struct Closed {
    bool is_sealed = false;
    // For an active run: the ranks whose last token is complete or, if
    // `is_all_but`, the ranks whose last token is not complete.
    std::set<int32_t> ranks = {};
    bool is_all_but = false;

    bool Has(int32_t rank) const { return ranks.contains(rank) != is_all_but; }

    friend bool operator==(const Closed&, const Closed&) = default;
  };

  // Returns whether no more tensors of the group are expected. For each run,
  // one of these must be true:
  // - The run is sealed.
  // - All ranks that can have tensors of the group have a later token, or are
  //   closed and have this token as their last one.
  //
  // `golden` and `target` must have been determined before Create.
  bool IsComplete(const GroupKey& group, const Closed& golden,
                  const Closed& target) const;

  // The part of some ranks of a run that is compared.
  struct Compared {
    RankSet ranks;  // The selected ranks.
    // Golden group numbers of tensors that may be on these ranks.
    RankSet group_numbers;
  };
  Compared ComparedOf(bool is_target, const RankSet& ranks) const;

  // Returns whether the counterpart of `other` may be entirely on absent ranks
  // of a run. `other` is a tensor of the other run, with the golden group
  // number `golden_number`. Returns false if a rank that is present would have
  // to hold a part of the counterpart.
  bool MayBeOn(const RankSet& absent, bool is_target,
               const LogicalTensor& other, int32_t golden_number) const;

  // Returns the last token that a run has for a golden group number, as a token
  // of this run, even if it is not selected. Returns nothing if there is none.
  // Reads from the run unless all tokens are selected.
  //
  // Errors: those of the reader.
  absl::StatusOr<std::optional<int64_t>> LastToken(bool is_target,
                                                   int32_t golden_number) const;

  // Returns the golden group numbers of the tensors that a rank may have, among
  // those that are compared. Returns none if the rank is not selected.
  std::vector<int32_t> GroupNumbersOf(bool is_target, int32_t rank) const;
  int64_t token_offset() const { return matching_.token_offset(); }
  RankCount golden_ranks() const { return golden_ranks_; }
  RankCount target_ranks() const { return target_ranks_; }

  // Returns whether RunReader::is_far is true for one of the runs.
  bool is_far() const { return golden_->is_far() || target_->is_far(); }

  // Loads and pairs the tensors of one of groups(). Reads the index entries of
  // all ranks that can have tensors of the group. If the group is too large,
  // returns it without pairs and with `too_large_run`.
  //
  // Thread-safe. Errors: that of `stop`, which is called regularly; those of
  // the store.
  absl::StatusOr<TensorGroup> Load(const GroupKey& group,
                                   storage::StopCheck stop) const;

  // Splits a group that was too large for Load. Returns nothing if pairs do not
  // depend on names only, because any two tensors could then be a pair, or if
  // the group is too large even for windows.
  //
  // Thread-safe. Errors: as Load.
  absl::StatusOr<std::optional<GroupWindows>> Split(
      const GroupKey& group, storage::StopCheck stop) const;

  const std::string& golden_name() const { return golden_->name(); }
  const std::string& target_name() const { return target_->name(); }

  // If rows are compared by request: the requests that the runs have in common.
  // Otherwise null.
  const RequestJoin* request_join() const { return request_join_.get(); }

  // For the first of groups(): what cannot be joined, each of which is a row.
  // Otherwise empty.
  std::deque<std::string> RequestProblems(const GroupKey& group) const;

  // Returns the number of tokens of a golden rank without known rows of
  // requests; they are not compared. `groups` has the first of these tokens.
  uint64_t TokensWithoutRequests(int32_t golden_number) const;

  // Appends the tensors of one run that belong to a group. Returns false if
  // there are too many. Thread-safe. Errors: as Load.
  absl::StatusOr<bool> LoadTensors(bool is_target, const GroupKey& group,
                                   storage::StopCheck stop,
                                   std::vector<LogicalTensor>& tensors,
                                   IncompleteTensors& incomplete) const;

  // See tensors that LoadTensors returned as the rules and the mapping state.
  // Views of golden tensors by the mapping depend on target tensors, and are
  // passed in `goldens`. Return false if there would be too many tensors.
  // Thread-safe.
  bool ViewTargets(std::vector<LogicalTensor>& tensors,
                   ViewedGoldens& goldens) const;
  bool ViewGoldens(const ViewedGoldens& goldens,
                   std::vector<LogicalTensor>& tensors) const;

  // Returns the caches of one run at a group, whose token is that of the run.
  // Thread-safe. Errors: as TokenCaches::Read.
  absl::StatusOr<TokenCaches> LoadCaches(bool is_target, const GroupKey& group,
                                         storage::StopCheck stop) const;

  // Returns whether lines of the mapping have views.
  bool has_mapping_views() const {
    return matching_.is_mapped() && matching_.mapping()->has_views();
  }

  // Pairs tensors of both runs that belong to a group. Calls are paired by
  // their numbers. Thread-safe.
  void Pair(TensorGroup& group) const;

  // Loads and pairs the tensors of one of these windows. Sets `too_large_run`
  // if the run has grown beyond the window.
  //
  // Thread-safe. Errors: as Load.
  absl::StatusOr<TensorGroup> LoadWindow(const GroupKey& group,
                                         const GroupWindows& windows,
                                         size_t number,
                                         storage::StopCheck stop) const;

 private:
  // The ranks and devices of one run that may have tensors with a group number.
  struct Holders {
    // Devices of all these ranks, and those of the rank that equals the group
    // number.
    std::set<std::string> devices;
    std::set<std::string> own_devices;
    // The last token of each rank, as a token of the golden run.
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

  // Finds the meshes of the shards of a run. Sets `placement_count` to the
  // number of recorded placements, or to 0 if placements are ignored.
  absl::StatusOr<MeshSet> FindMeshes(storage::RunReader& run,
                                     const LayoutRules& layouts,
                                     size_t& placement_count) const;
  // Determines the groups of both runs. Returns false if a placement was
  // recorded in the meantime; the caller must then repeat the call.
  absl::StatusOr<bool> FindGroups(storage::StopCheck stop);
  // Joins the requests of the runs. The groups are then the golden tokens that
  // have requests, and the first one of each rank that has none.
  absl::Status JoinRequests(storage::StopCheck stop);
  // Returns the requests of a run by golden group number.
  RequestJoin::Requests RequestsByNumber(bool is_target,
                                         const RequestBook& book) const;
  // Adds the groups for which a run has tensors.
  absl::Status AddCoordinates(bool is_target, storage::StopCheck stop,
                              GroupCollector& groups);
  // Returns the selector, extended by all later tokens if `looks_ahead_`.
  Selector LookingAhead(Selector selector) const;
  // A rank and device of a run, with the selected tokens and the last of all
  // tokens. Tokens are those of the golden run.
  struct DeviceTokens {
    int32_t rank = 0;
    std::string device;
    TokenRuns tokens = {};
    int64_t last_token = 0;
  };
  // Adds the tokens of a place to the group numbers of its rank.
  absl::Status AddPlace(bool is_target,
                        const std::vector<int32_t>& group_numbers,
                        const DeviceTokens& place, GroupCollector& groups);
  // Returns whether the selected ranks include this golden group number.
  bool IsSelected(int32_t group_number) const;
  bool IsSelectedToken(int64_t token) const;
  // Returns the golden group number for a group number of either run, or
  // nothing if it is not compared.
  std::optional<int32_t> GoldenNumberOf(bool is_target,
                                        int32_t group_number) const;
  bool HasCopies() const;
  RunSide GoldenSide() const;
  // Returns the target run with the selector translated to its ranks and
  // tokens.
  RunSide TargetSide() const;
  static bool IsComplete(const LayoutRules& layouts, const MeshSet& meshes,
                         int32_t group_number, RankCount ranks,
                         const Holders& holders, const Closed& closed,
                         int64_t token);
  // A side of a group. The selector is limited to ranks and devices that may
  // have tensors of the group. The group number is that of the run.
  struct GroupSide {
    RunSide side;
    int32_t group_number = 0;
  };
  std::optional<GroupSide> SideOf(bool is_target, const GroupKey& group) const;
  // Loads the tensors of one side of a group. Returns false if there are too
  // many.
  absl::StatusOr<bool> LoadSide(bool is_target, const GroupKey& group,
                                storage::StopCheck stop,
                                const SideLoader::TakesTensor& takes,
                                std::vector<LogicalTensor>& tensors,
                                IncompleteTensors& incomplete) const;
  // Loads both sides of a group and pairs their tensors.
  absl::StatusOr<TensorGroup> LoadSome(
      const GroupKey& key, storage::StopCheck stop,
      const SideLoader::TakesTensor& takes_golden,
      const SideLoader::TakesTensor& takes_target) const;
  // Returns the name that a tensor and its counterpart share.
  std::string NameOf(bool is_target, const TensorKey& key) const;
  // Sorts the tensors of `group` by execution order and pairs them.
  void Match(bool with_device, CallPairing calls, TensorGroup& group) const;
  // Return whether the op patterns select a tensor that was loaded regardless
  // of them: a golden tensor by the name of its view, a target tensor by its
  // golden name.
  bool IsSelectedGolden(const storage::TensorInfo& golden) const;
  bool IsSelectedTarget(const storage::TensorInfo& target) const;
  // Returns LastToken by reading from the run.
  absl::StatusOr<std::optional<int64_t>> FindLastToken(
      bool is_target, int32_t golden_number) const;
  // Returns the selected golden group numbers. Must not be called if all are
  // selected.
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
  bool has_order_ = false;  // HasKnownOrder is true for both runs.
  GroupSet groups_;
  GroupSet has_early_rows_;
  std::map<int32_t, BothHolders> holders_;  // By golden group number.
  MeshSet golden_meshes_;
  MeshSet target_meshes_;
  RankCount golden_ranks_;
  RankCount target_ranks_;
  std::shared_ptr<const RequestJoin> request_join_;
  std::deque<std::string> request_problems_;
  std::map<int32_t, uint64_t> tokens_without_requests_;
  // Whether a run has documents of caches, by LoadCaches' `is_target`.
  std::array<bool, 2> has_caches_ = {};
};

}  // namespace msitd::compare
