// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "daemon/compare/job/argument_difference.h"
#include "daemon/compare/job/choice_reader.h"
#include "daemon/compare/job/comparison_observer.h"
#include "daemon/compare/job/mapping_loader.h"
#include "daemon/compare/job/row_sum_reader.h"
#include "daemon/compare/job/stated_tolerances.h"
#include "daemon/compare/job/token_choice.h"
#include "daemon/compare/job/view_hints.h"
#include "daemon/compare/judge/idle_rules.h"
#include "daemon/compare/judge/pair_judge.h"
#include "daemon/compare/judge/pair_plan.h"
#include "daemon/compare/judge/policy.h"
#include "daemon/compare/judge/required_tolerances.h"
#include "daemon/compare/judge/row_metrics.h"
#include "daemon/compare/match/absent_ranks.h"
#include "daemon/compare/match/group_loader.h"
#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/match/group_set.h"
#include "daemon/compare/match/run_losses.h"
#include "daemon/compare/match/stream_watch.h"
#include "daemon/compare/measure/pair_measurer.h"
#include "daemon/compare/origin/bases.h"
#include "daemon/compare/origin/conditioning.h"
#include "daemon/compare/origin/findings.h"
#include "daemon/compare/origin/origin.h"
#include "daemon/compare/origin/pairing_hints.h"
#include "daemon/compare/origin/undecidable.h"
#include "daemon/compare/shard/layout_hint.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/status/mutex.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::compare {

// Returns true if the selector selects any kind of value.
bool TakesValues(const Selector& selector);

// A comparison whose stored rows are judged again.
struct JudgedSource {
  uint64_t id = 0;
  v1::Comparison comparison;
  Policy policy;  // That of `comparison`.
};

// The validated request for one comparison: which tensors of which runs to
// compare, how to pair them, and what passes.
struct ComparisonPlan {
  std::string golden_run;
  std::string target_run;
  Selector selector;
  Policy policy;
  MatchRules matching = {};
  // The attachment that contains the mapping of `matching`; nullopt if there is
  // no mapping.
  std::optional<MappingSource> mapping = {};
  // Compare until both runs are sealed; see v1.Comparison.follow and detach.
  bool follow = false;
  bool detach = false;
  std::vector<predicate::Predicate> watches = {};  // See WatchNames.
  // How the ranks of followed runs stream. If null, streams are ignored, and
  // only a seal ends a run.
  ActivitySource activity = {};
  std::chrono::milliseconds silence = kSilence;
  std::string owner = {};  // See v1.Comparison.owner.
  bool owner_is_admin = false;
  // Where the runs are stored; empty for the store of this daemon.
  std::string golden_source = {};
  std::string target_source = {};
  Reading reading = Reading::kBytes;
  // The expected ids of the runs, as returned by FindRunId. An empty id accepts
  // any run of that name.
  std::string golden_run_id = {};
  std::string target_run_id = {};
  // Ranks that the complete comparison must cover; see
  // v1.Comparison.golden_required_ranks.
  RankSet golden_required = {};
  RankSet target_required = {};
  // Set if the rows are those of another comparison, judged by `policy`. No run
  // is then read.
  std::shared_ptr<const JudgedSource> judged = {};

  storage::RunAddress golden() const { return {golden_source, golden_run}; }
  storage::RunAddress target() const { return {target_source, target_run}; }
};

// Maximum number of ranks to put in execution order. Only ranks that fail at
// the first token with a failure are considered.
inline constexpr size_t kOrderedRanksMax = 64;

// Maximum number of layouts that a comparison suggests.
inline constexpr int kLayoutHintsMax = 64;

// Maximum number of watches in a request.
inline constexpr int kWatchesMax = 16;

// Returns the names that a watch may use: MetricNames, target_nan_count,
// target_inf_count and failed. They live as long as the process.
std::span<const std::string_view> WatchNames();

// Produces the rows of one comparison.
//
// Runs are larger than memory, but the cause of a difference is only found
// beside the tensors that a tensor was computed from. The engine therefore
// works on groups: all tensors of one rank and token. Single tensors would need
// less memory, but have no inputs to compare with. Whole runs would show every
// cause, but do not fit. A group that is itself too large is compared in
// windows, and causes are then found in the first window only.
//
// Reading takes longer than judging. While the calling thread judges a group,
// GroupLoader loads the next groups, and PairMeasurer reads and measures pairs
// ahead. The price is memory for more than one group. The memory in use does
// not depend on the size of the runs. It consists of the following:
// - Four parts of tensors.
// - Data that is read ahead. For each of PairMeasurer::kWindowsMax windows, at
//   most four batches of storage::kBatchBytesMax.
// - Pairs in any order: kAnyOrderBytesMax and about 100 bytes for each row, for
//   one pair of the process at a time, and 64 MiB for each other thread.
// - Tensor descriptors. For the current group, at most kGroupTensorsMax of each
//   run, in addition to those that GroupLoader has loaded ahead.
//
// Between two calls of Run, the engine holds only a record of the groups and
// pairs that it has compared.
//
// A tensor that cannot be read or compared results in a row with the reason.
// The comparison then continues.
//
// Thread-compatible.
class ComparisonEngine {
 public:
  // The arguments must outlive the engine. If `plan.mapping` is set,
  // `plan.matching` must have that mapping when Run is called. The first Run
  // opens both runs.
  ComparisonEngine(storage::RunReaders& readers, const ComparisonPlan& plan,
                   ComparisonObserver& observer)
      : readers_(readers),
        plan_(plan),
        observer_(observer),
        idle_rules_(plan.policy, plan.matching) {}

  // Compares everything that can be compared now. While waits() is true, the
  // caller must call it again once HasNews() returns true.
  //
  // Errors: CANCELLED if the observer returns it; NOT_FOUND with RUN_NOT_FOUND
  // if a run was deleted; those of the matcher, of the index and of the
  // observer.
  absl::Status Run();

  // True if the comparison follows runs that may still grow. Must not be called
  // during Run; the same applies to HasNews.
  bool waits() const { return waits_; }
  // True if a run has grown, was sealed or was deleted since the last Run.
  // Blocks on the store.
  bool HasNews() const;

 private:
  using Plans = std::vector<PairPlan>;  // One for each pair of a group.

  // A row that was emitted before its group was complete.
  struct EarlyRow {
    v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
    int64_t number = -1;
  };

  // The state of a run that determines whether there is something new to
  // compare.
  struct RunMark {
    bool sealed = false;
    uint64_t record_count = 0;
    uint64_t payload_bytes = 0;
    uint64_t conflict_count = 0;
    uint64_t left_out_count = 0;  // See v1.Comparison.golden_left_out_count.
    Outlook outlook = {};

    // Treats the run as complete only if it is sealed.
    GroupMatcher::Closed Sealed() const { return {sealed}; }
    // In addition, treats ranks as complete that have had no stream for a long
    // time (Outlook::closed).
    GroupMatcher::Closed Closed() const;
    // In addition, treats ranks as complete whose last token appears to be
    // complete (Outlook::stalled).
    GroupMatcher::Closed Stalled() const;

    friend bool operator==(const RunMark&, const RunMark&) = default;
  };

  // Returns CANCELLED if the comparison was stopped. Thread-safe, unlike the
  // Check of the observer.
  absl::Status CheckFromAnyThread() const;
  absl::Status OpenRuns();
  // Determines whether the execution order of the golden run is known.
  // Also determines whether the golden run states tolerances.
  absl::Status FindOrder();
  // Returns an error if a run does not have the id in the plan.
  absl::Status CheckRunIds(const storage::WaitCheck& wait);
  absl::StatusOr<RunMark> Mark(storage::RunReader& run) const;
  absl::StatusOr<uint64_t> CountGolden();
  // Counts the records that the hooks of the runs skipped.
  absl::Status CountNotRecorded();
  // Counts the tensors that the clients reported as lost.
  absl::Status FindLosses(const GroupMatcher& matcher);
  void ShowLossesOfRuns();
  // Counts the incomplete tensors of a group that is compared for the last
  // time.
  void CountIncomplete(const TensorGroup& group);
  // Compares the groups that are ready and not yet in `done_`.
  absl::Status CompareReady(GroupMatcher& matcher);
  // The part of a group that can be compared now: nothing, its complete pairs,
  // or everything.
  enum class Readiness { kNot, kPairs, kAll };
  Readiness ReadinessOf(const GroupMatcher& matcher, const GroupKey& key);
  // Adds the numbers of the watches that hold to the row.
  void Watch(const RowMetrics& metrics, v1::ComparisonRow& row) const;
  std::vector<PairBasis> BasesOf(const TensorGroup& group);
  StatedTolerances StatedTolerancesOf(const TensorGroup& group);
  // Returns the coarsest type that differs at earlier tokens of the rank; see
  // PastType. Reads the runs once for each rank.
  DType PastTypeOf(const TensorGroup& group);
  // Plans the pairs of a group and queues those that must be measured, in
  // order. Called on the thread that loaded the group.
  void Plan(const TensorGroup& group);
  // Returns the plans of the first group that was passed to Plan and whose
  // plans have not been taken yet.
  Plans TakePlans();
  absl::Status CompareNext(GroupLoader& loader);
  absl::Status CompareGroup(const TensorGroup& group, const Plans& plans);
  absl::Status ComparePairs(const TensorGroup& group, const Plans& plans);
  // Adds the pair of `row_`, which must have its verdict, to the hints: if it
  // lacks a side that no other rank may have, or if it fails and one side may
  // be a rearrangement of the other. Reads the elements of the latter. Errors:
  // CANCELLED; SOURCE_FAILED.
  absl::Status AddToHints(const TensorPair& pair, const PairPlan& plan);
  // Marks the rules that apply to a pair as used.
  void MarkRulesUsed(const TensorPair& pair);
  // Processes a pair whose row was emitted early. The row stays as it is.
  absl::Status PassOver(const TensorPair& pair, const PairPlan& plan,
                        const EarlyRow& row);
  // True if the row of the pair may be emitted before its group is complete.
  static bool MayComeEarly(const TensorPair& pair);
  // True if the pair must nevertheless wait until its ranks are closed.
  bool WaitsForCalls(const GroupKey& key, const TensorPair& pair) const;
  // Returns a key that identifies a golden tensor within its group.
  static std::string EarlyName(const LogicalTensor& golden);
  // Judges the next pair of the group, by its next measurement if it has one.
  //
  // Errors: CANCELLED; SOURCE_FAILED, after which a run can no longer be read.
  // Any other error of the measurement becomes a verdict.
  absl::StatusOr<Judgment> Judge(const TensorGroup& group, const PairPlan& plan,
                                 v1::ComparisonRow& row);
  // Adds what the row was compared with to `required_tolerances_`.
  void AddBounds(const PairPlan& plan, const Judgment& judgment);
  // Adds `row_`, which must have its verdict, to `required_tolerances_` if it
  // fails.
  void AddFailure(const PairPlan& plan);
  // Returns the reason to pass the next pair of the group although it violates
  // the default bounds: ill-conditioned ops explain its error. Otherwise
  // nullopt. Errors: those of ExplainByRowSums.
  absl::StatusOr<std::optional<std::string>> Excuse(const TensorGroup& group,
                                                    const PairPlan& plan,
                                                    const RowMetrics& metrics);
  // Stores in `row_` how its pair was computed, as far as a verdict depends on
  // it.
  void DescribeBasis(const TensorGroup& group, size_t pair,
                     const PairPlan& plan, const Judgment& judgment,
                     bool has_equal_values);
  // Adds the type by which a pair was judged to the reason, if it is not the
  // type of the pair itself.
  static void AddBasis(const TensorGroup& group, const PairBasis& basis,
                       v1::ComparisonRow& row);
  // Returns the reason why the next pair of the group passes if its error
  // follows from the sums of the rows of its input; otherwise nullopt. Errors:
  // SOURCE_FAILED; CANCELLED if the observer returns it.
  absl::StatusOr<std::optional<std::string>> ExplainByRowSums(
      const TensorGroup& group, const PairPlan& plan,
      const RowMetrics& metrics);
  // The same if it is the gradient of a function such as ReLU, and elements of
  // the forward input have another sign (CountChangedSigns).
  absl::StatusOr<std::optional<std::string>> ExplainByKink(
      const TensorGroup& group, const RowMetrics& metrics);
  // The same if it is the gradient of a bias, or one that was accumulated, and
  // both the sum over all rows and its error are no larger than the errors of
  // the rows. That is so for the keys of an attention: a softmax ignores what
  // all scores of a row have in common.
  std::optional<std::string> ExplainAsZero(const TensorGroup& group,
                                           const PairPlan& plan,
                                           const RowMetrics& metrics);
  // Returns the only floating-point tensor of a call with this io, if it is
  // before the next pair.
  std::optional<size_t> OnlyTensorOf(const TensorGroup& group,
                                     const TensorKey& call, Io io);
  // Adds the pair of `row_`, which must have its verdict, to `conditioning_`.
  void AddToConditioning(const TensorPair& pair, const PairBasis& basis,
                         const RowMetrics& metrics);
  // Numbers the row and passes it to the findings and the observer. `group` is
  // null if the row does not belong to a pair. `input_difference` describes
  // integers that the model was given and that differ; otherwise empty.
  absl::Status EmitRow(const RowMetrics& metrics, const TensorGroup* group,
                       const v1::InputDifference& input_difference,
                       v1::ComparisonRow& row);
  // Forgets the state of the pairs of the last group.
  void ForgetPairs();
  // Adds to the reason of the unmatched `row_` why a side may be missing.
  absl::Status ExplainUnmatched(const TensorPair& pair, int32_t rank);
  // Shows how else the runs could be compared.
  void ShowHints(v1::Comparison& header);
  // Returns whether tensors have different shapes and both runs state which
  // rows belong to which request.
  bool WouldCompareByRequest();
  // Emits `row_`, which belongs to a pair of the group and has its verdict.
  absl::Status EmitPair(const TensorGroup& group, size_t pair,
                        const Verification& verification,
                        const Judgment& judgment, bool has_equal_values);
  // Describes the integers of a pair that the model was given and that differ.
  //
  // Errors: CANCELLED if the observer returns it.
  absl::StatusOr<v1::InputDifference> DescribeInputs(
      const TensorPair& pair, const std::string& difference);
  // True if no element of the pair differs, as far as its elements were
  // compared.
  static bool HasEqualValues(const v1::ComparisonRow& row,
                             const RowMetrics& metrics);
  // Describes in a few words how the integers of a row differ. `difference` is
  // that of its Judgment.
  static std::string DifferenceOf(const v1::ComparisonRow& row,
                                  const std::string& difference);
  // True if the row is for integers that the model receives as input and that
  // differ. False if the row passes by a rule that names the op. The row must
  // have its verdict.
  bool HasOtherIntegers(const TensorGroup& group, size_t pair,
                        const Verification& verification,
                        const std::string& difference,
                        const v1::ComparisonRow& row, bool has_equal_values);
  // As HasOtherIntegers, without regard to the rules of the policy.
  bool IsOtherModelInput(const TensorGroup& group, size_t pair,
                         const std::string& difference,
                         const v1::ComparisonRow& row, bool has_equal_values);
  // Fails a row for which HasOtherIntegers is true, even if it is within its
  // tolerance.
  void JudgeModelInput(const TensorGroup& group, size_t pair,
                       const Verification& verification,
                       const std::string& difference, bool has_equal_values,
                       v1::ComparisonRow& row);
  // Determines whether different integers were chosen by scores, as by top-k.
  // By default, the row passes if the scores explain the choices and pass
  // themselves.
  absl::Status JudgeChoice(const TensorGroup& group, size_t pair,
                           const PairPlan& plan, const RowMetrics& metrics,
                           v1::ComparisonRow& row);
  void PassAsFlip(size_t pair, const PairPlan& plan, std::string reason,
                  int64_t count, v1::ComparisonRow& row);
  // Handle rows of a tensor that code selected as the input of an op, as a
  // router does for an expert. If scores explain a different selection, the
  // reason says so. The row still fails, because its values or its shape
  // differ.
  static bool MayBeSelection(const TensorGroup& group, size_t pair,
                             const PairPlan& plan,
                             const v1::ComparisonRow& row);
  absl::Status JudgeSelection(const TensorGroup& group, size_t pair,
                              v1::ComparisonRow& row);
  // Skips `row_` if it follows from a choice that differs as its scores do, and
  // fails by the default policy or is unmatched. Such a row is neither right
  // nor wrong: the runs computed different things. The comparison is then
  // partial, so that nothing passes that was not compared. Returns whether the
  // row was skipped.
  bool JudgeFlipped(const TensorPair& pair, const PairPlan& plan);
  bool IsByDefault(const TensorPair& pair, const PairPlan& plan) const;
  // Sets the origin of `row_`, which is the row of the next pair of the group.
  void JudgeOrigin(const TensorGroup& group, const PairPlan& plan,
                   const Judgment& judgment);
  // Skips `row_` if it fails by a preset and is Undecidable. Returns whether
  // the row was skipped.
  bool LeaveOutUndecidable(const TensorGroup& group, const PairPlan& plan);
  // True if the filter may exclude ops that the code of a cause calls, or the
  // results of these ops. `row` is the tensor that the cause produced.
  bool HidesPartsOf(const v1::Maker& maker, const TensorKey& row) const;
  // Determines the cause of a row that fails.
  void FindMaker(const TensorGroup& group, const v1::ComparisonRow& row,
                 const std::string& bytes);
  // Adds the non-tensor arguments that differ between the calls of a cause. If
  // they certainly differ and the cause is an op without parts, its caller
  // becomes the cause. Returns the arguments that are other numbers.
  std::vector<NumberDifference> BlameArguments(const TensorGroup& group,
                                               const FoundMaker& found,
                                               v1::Maker& maker);
  // If the cause is a softmax that is correct in both runs (AreOfOwnScores),
  // replaces it by an unknown one and returns true.
  bool IsOfOwnScores(const TensorGroup& group, size_t pair, v1::Maker& maker);
  // Adds the simple mistakes that explain the difference of a cause, whose
  // tensor is that of `pair`. Reads its elements. Leaves out factors and
  // constants that are only the difference of an argument.
  void ExplainMaker(const TensorGroup& group, size_t pair,
                    const std::vector<NumberDifference>& arguments,
                    v1::Maker& maker);
  // Puts the ranks that fail first in execution order, if there are several.
  absl::Status OrderRanks(const GroupMatcher& matcher);

  storage::RunReaders& readers_;
  const ComparisonPlan& plan_;
  ComparisonObserver& observer_;
  // Set by the first Run. Either reader may borrow from the other.
  std::unique_ptr<storage::RunReader> golden_;
  std::unique_ptr<storage::RunReader> target_;
  IdleRules idle_rules_;
  PairingHints pairing_hints_;
  ViewHints view_hints_;
  RequiredTolerances required_tolerances_;
  bool has_order_ = true;           // HasKnownOrder of the golden run.
  bool states_tolerances_ = false;  // StatesTolerances of the golden run.
  OriginFinder origins_;
  Conditioning conditioning_;
  Findings findings_;
  TokenChoices token_choices_;
  // The first pair whose shapes differ.
  struct KeysOfPair {
    TensorKey golden;
    TensorKey target;
  };
  std::optional<KeysOfPair> shape_difference_;
  // The row number of each pair of the current group so far; -1 for a pair
  // without a row.
  std::vector<int64_t> row_numbers_;
  // By pair: reasons of rows that may be shown as causes.
  std::map<size_t, std::string> reasons_;
  ChoiceBudget choice_budget_;   // For the current group.
  RowSumBudget row_sum_budget_;  // For the current group.
  // For the current group, once a row has failed: what says nothing, and the
  // floating-point tensors of each call by op, number and io.
  std::optional<Undecidable> undecidable_;
  std::map<std::tuple<std::string_view, int32_t, Io>, std::vector<size_t>>
      tensors_of_calls_;
  // The slopes of errors by row sums, by rank, op, call and index.
  std::map<std::tuple<int32_t, std::string, int32_t, std::string>, RowSlopes>
      slopes_;
  size_t slope_count_ = 0;  // The total of all ops.
  int examined_ops_ = 0;    // See kExaminedOpsMax.
  bool waits_ = false;
  bool is_counted_ = false;
  RunMark golden_mark_;
  RunMark target_mark_;
  std::optional<AbsentSides> absent_;  // Set by Run.
  // See UpdateMayDivergeBefore.
  std::optional<int64_t> first_absent_token_;
  RunLosses golden_losses_;
  RunLosses target_losses_;
  IncompleteCounter golden_incomplete_;
  IncompleteCounter target_incomplete_;
  // Groups that were compared completely. Used only while following runs.
  GroupSet done_;
  // Rows that were emitted before their groups were complete, by group and
  // EarlyName.
  std::map<GroupKey, std::map<std::string, EarlyRow>> early_;
  // Groups of this Run of which only complete pairs are compared. Does not
  // change while groups are loaded.
  std::set<GroupKey> partial_;
  // All groups that have ever been in `partial_`. The rows of their pairs are
  // final, so calls that are recorded later must not change the pairs.
  GroupSet early_groups_;
  // Groups that were compared in part and whose ranks are closed. They are not
  // compared again until the runs are sealed, when missing tensors become
  // unmatched. Valid only for the closed ranks in `settled_for_`. Does not
  // change while groups are loaded.
  std::set<GroupKey> settled_;
  std::pair<GroupMatcher::Closed, GroupMatcher::Closed> settled_for_;
  RankCounts ranks_;
  // The coarsest type that differs at earlier tokens.
  struct EarlierType {
    DType coarsest = DType::kUnspecified;
    bool is_read = false;  // Also from the runs.
  };
  std::map<int32_t, EarlierType> past_types_;  // By rank. Used only by Plan.
  // By rank. Used only by Plan.
  std::map<int32_t, ReceivedTypes> received_types_;
  int64_t row_count_ = 0;
  // A member so that its memory is reused. Metrics are encoded apart from the
  // row: most pairs have equal bytes and therefore the same metrics, which are
  // encoded only once.
  v1::ComparisonRow row_;
  RowMetrics last_metrics_;
  std::string last_metrics_bytes_;
  Mutex plans_mu_;
  // Plans of the groups that are loaded and not yet compared.
  std::deque<Plans> plans_ ABSL_GUARDED_BY(plans_mu_);
  // Set during Run. Declared last, because its threads use the other members.
  std::optional<PairMeasurer> measurer_;
};

// Adds a row, as passed to ComparisonObserver::OnRow, to the counts of
// `comparison`.
void AccountRow(const v1::ComparisonRow& row, v1::Comparison& comparison);

}  // namespace msitd::compare
