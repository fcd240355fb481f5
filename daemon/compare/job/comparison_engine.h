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
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "daemon/compare/job/choice_reader.h"
#include "daemon/compare/job/comparison_observer.h"
#include "daemon/compare/job/mapping_loader.h"
#include "daemon/compare/job/pair_plan.h"
#include "daemon/compare/judge/idle_rules.h"
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
#include "daemon/compare/origin/conditioning.h"
#include "daemon/compare/origin/findings.h"
#include "daemon/compare/origin/origin.h"
#include "daemon/compare/shard/layout_hint.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/status/mutex.h"
#include "storage/face/run_reader.h"
#include "storage/face/types.h"

namespace msitd::compare {

// True if the selector asks for values of any kind.
bool TakesValues(const Selector& selector);

// What is compared, and what passes.
struct ComparisonPlan {
  std::string golden_run;
  std::string target_run;
  Selector selector;
  Policy policy;
  MatchRules matching = {};
  // Where the mapping is that `matching` is to have.
  std::optional<MappingSource> mapping = {};
  // Goes on until both runs are sealed; see v1.Comparison.follow and detach.
  bool follow = false;
  bool detach = false;
  std::vector<predicate::Predicate> watches = {};  // Over WatchNames.
  // Of runs that are followed. Null: nobody streams, and nothing ends but by a
  // seal.
  ActivitySource activity = {};
  std::chrono::milliseconds silence = kSilence;
  std::string owner = {};  // See v1.Comparison.owner.
  bool owner_is_admin = false;
  // Where the runs lie; empty for the store at hand.
  std::string golden_source = {};
  std::string target_source = {};
  Reading reading = Reading::kBytes;
  // Which runs are meant, see FindRunId; empty for those that have the names.
  std::string golden_run_id = {};
  std::string target_run_id = {};
  // Ranks that the whole answer has to cover; see
  // v1.Comparison.golden_required_ranks.
  std::vector<storage::RankRange> golden_required = {};
  std::vector<storage::RankRange> target_required = {};

  storage::RunAddress golden() const { return {golden_source, golden_run}; }
  storage::RunAddress target() const { return {target_source, target_run}; }
};

// Ranks of which the order is found out, of those that fail at the first token
// at which one does.
inline constexpr size_t kOrderedRanksMax = 64;

// Layouts that a comparison suggests.
inline constexpr int kLayoutHintsMax = 64;

// Watches beyond this are refused.
inline constexpr int kWatchesMax = 16;

// What a watch may name: MetricNames, target_nan_count, target_inf_count and
// failed. They live as long as the process.
std::span<const std::string_view> WatchNames();

// Makes the rows of one comparison. A tensor that cannot be read or compared
// gives a row that says so; the comparison goes on.
//
// Made for one comparison and used by one thread at a time, beside which a
// second one measures pairs ahead. However large the runs are, it holds four
// parts, what is read ahead (four batches of storage::kBatchBytesMax at most
// for each of PairMeasurer::kWindowsMax windows), and the tensors of one rank
// and token (kGroupTensorsMax) and of those behind it (GroupLoader); and
// between two calls of Run only what it has compared.
class ComparisonEngine {
 public:
  // All three must outlive the engine, which opens both runs when it runs
  // first. `plan.matching` has the mapping that it asks for, if the engine is
  // to run.
  ComparisonEngine(storage::RunReaders& readers, const ComparisonPlan& plan,
                   ComparisonObserver& observer)
      : readers_(readers),
        plan_(plan),
        observer_(observer),
        idle_rules_(plan.policy, plan.matching) {}

  // Compares what there is to compare. To be called again while waits(), once
  // HasNews().
  //
  // Errors: CANCELLED once the observer says so; NOT_FOUND with RUN_NOT_FOUND
  // if a run was deleted; those of the matcher, of the index and of the
  // observer.
  absl::Status Run();

  // True if runs are followed that may grow. Called while Run is not, like
  // HasNews.
  bool waits() const { return waits_; }
  // True if a run has grown, was sealed or has gone since Run looked at it.
  bool HasNews() const;

 private:
  using Plans = std::vector<PairPlan>;  // By pair of a group.

  // A row that was made before the group was complete.
  struct EarlyRow {
    v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
    int64_t number = -1;
  };

  // What of a run changes when there is something new to compare.
  struct RunMark {
    bool sealed = false;
    uint64_t record_count = 0;
    uint64_t payload_bytes = 0;
    uint64_t conflict_count = 0;
    uint64_t left_out_count = 0;  // See v1.Comparison.golden_left_out_count.
    Outlook outlook = {};

    // Nothing more comes.
    GroupMatcher::Closed Sealed() const { return {sealed}; }
    // The same, or nothing has come for so long that nothing more may.
    GroupMatcher::Closed Closed() const;
    // The same, or that is how it looks.
    GroupMatcher::Closed Stalled() const;

    friend bool operator==(const RunMark&, const RunMark&) = default;
  };

  // As Check of the observer, which is for the thread of the comparison alone.
  absl::Status CheckFromAnyThread() const;
  absl::Status OpenRuns();
  // Finds out whether the golden run knows the order of its tensors.
  absl::Status FindOrder();
  // Fails if a run is another one than the plan means.
  absl::Status CheckRunIds(const storage::WaitCheck& wait);
  absl::StatusOr<RunMark> Mark(storage::RunReader& run) const;
  absl::StatusOr<uint64_t> CountGolden();
  // Tells the observer what the hooks of the runs did not record.
  absl::Status CountNotRecorded();
  // Tells the observer what clients reported as lost.
  absl::Status FindLosses(const GroupMatcher& matcher);
  // Adds what a group lacks that is compared for the last time.
  void CountIncomplete(const TensorGroup& group);
  // Compares the groups that may be, and that `done_` has not.
  absl::Status CompareReady(GroupMatcher& matcher);
  // Whether a group may be compared: all of it, or the pairs that are there.
  enum class Readiness { kNot, kPairs, kAll };
  Readiness ReadinessOf(const GroupMatcher& matcher, const GroupKey& key);
  // Adds the numbers of the watches that hold.
  void Watch(const RowMetrics& metrics, v1::ComparisonRow& row) const;
  std::vector<PairBasis> BasesOf(const TensorGroup& group);
  // See PastType.
  DType PastTypeOf(const TensorGroup& group);
  // Plans the pairs of a group and has those measured that must be, in their
  // order. Called on the thread that loaded it.
  void Plan(const TensorGroup& group);
  // Of the first group that Plan was called with and this was not.
  Plans TakePlans();
  absl::Status CompareNext(GroupLoader& loader);
  absl::Status CompareGroup(const TensorGroup& group, const Plans& plans);
  absl::Status ComparePairs(const TensorGroup& group, const Plans& plans);
  // Marks the rules that apply to a pair as used.
  void FindRules(const TensorPair& pair);
  // Takes a pair that has its row already.
  absl::Status PassOver(const TensorPair& pair, const PairPlan& plan,
                        const EarlyRow& row);
  // True if the row of a pair can be final before its group is complete.
  static bool MayComeEarly(const TensorPair& pair);
  // True if the pair must wait even so, until its ranks have had no stream for
  // long.
  bool WaitsForCalls(const GroupKey& key, const TensorPair& pair) const;
  // Tells the golden tensors of a group apart.
  static std::string EarlyName(const LogicalTensor& golden);
  // Judges a tensor that one run has alone.
  void JudgeAlone(const TensorPair& pair, v1::ComparisonRow& row) const;
  // Judges a pair that is not measured.
  void Judge(const TensorPair& pair, const PairPlan& plan,
             v1::ComparisonRow& row, RowMetrics& metrics);
  // Judges a pair of which the bytes are not kept.
  void JudgeBySummaries(const TensorPair& pair,
                        const Verification& verification,
                        v1::ComparisonRow& row);
  // Judges a pair of which a side is statistics.
  void JudgeByStatistics(const TensorPair& pair, const PairPlan& plan,
                         v1::ComparisonRow& row, RowMetrics& metrics);
  // Fails the row if shards that should be copies are not, whatever the first
  // of them is worth, and whether or not there is a counterpart.
  static void JudgeCopies(const TensorPair& pair, v1::ComparisonRow& row);
  // True if the default policy takes a measured pair for equal masks.
  static bool IsEqualMask(const TensorPair& pair, const PairPlan& plan,
                          const RowMetrics& metrics);
  // Says by which type a pair was judged, where that is not its own.
  static void AddBasis(const TensorGroup& group, const PairBasis& basis,
                       v1::ComparisonRow& row);
  // Says what is odd about a row that passes.
  static void AddRemarks(const TensorPair& pair, v1::ComparisonRow& row);
  // If what the index knows of the whole tensors proves that the predicate does
  // not hold, of a pair whose bytes are not all known: sets `proven_metrics_`.
  // `known` has the metrics as far as they were measured.
  void ProveBySummaries(const TensorPair& pair,
                        const Verification& verification,
                        const RowMetrics& known);
  // Passes a row that violates the default policy if ill-conditioned ops
  // explain its error. Returns whether they do.
  bool IsExplained(const PairPlan& plan, const RowMetrics& metrics,
                   v1::ComparisonRow& row);
  // Adds the pair of `row_`, which has its verdict.
  void AddToConditioning(const TensorPair& pair, const PairBasis& basis,
                         const RowMetrics& metrics);
  // CANCELLED and SOURCE_FAILED, after which nothing more can be read, are the
  // only errors; everything else becomes a verdict.
  absl::Status Measure(const TensorPair& pair, const PairPlan& plan,
                       v1::ComparisonRow& row, RowMetrics& metrics);
  // Numbers the row and hands it on. `group` is null if the row is of no pair.
  absl::Status EmitRow(const RowMetrics& metrics, const TensorGroup* group,
                       v1::ComparisonRow& row);
  // True if no element of the pair differs, as far as it was compared.
  static bool HasEqualValues(const v1::ComparisonRow& row,
                             const RowMetrics& metrics);
  // What integers of a row are that differ, in a few words.
  std::string DifferenceOf(const v1::ComparisonRow& row) const;
  // True if a row, with its verdict, is of integers that the model is given and
  // that differ, unless it passes by a rule that names the op.
  bool HasOtherIntegers(const TensorGroup& group, size_t pair,
                        const Verification& verification,
                        const v1::ComparisonRow& row, bool has_equal_values);
  // Fails such a row whatever the tolerance is, unless a rule names its op.
  void JudgeModelInput(const TensorGroup& group, size_t pair,
                       const Verification& verification, bool has_equal_values,
                       v1::ComparisonRow& row);
  // Finds out whether integers that differ were chosen by scores. By default,
  // the row passes if these explain it and pass.
  absl::Status JudgeChoice(const TensorGroup& group, size_t pair,
                           const PairPlan& plan, const RowMetrics& metrics,
                           v1::ComparisonRow& row);
  void PassAsFlip(size_t pair, const PairPlan& plan, std::string reason,
                  int64_t count, v1::ComparisonRow& row);
  // The same of rows that code has selected for an op, as a router does for an
  // expert. They fail all the same, as they have other values or shapes.
  static bool MayBeSelection(const TensorGroup& group, size_t pair,
                             const PairPlan& plan,
                             const v1::ComparisonRow& row);
  absl::Status JudgeSelection(const TensorGroup& group, size_t pair,
                              v1::ComparisonRow& row);
  // Finds out where the difference of row_ comes from, which is of the next
  // pair of the group.
  void JudgeOrigin(const TensorGroup& group, const PairBasis& basis,
                   const RowMetrics& metrics);
  // True if the filter may leave out ops that the code of a maker calls, or
  // what they return. `row` is the tensor that it made.
  bool HidesPartsOf(const v1::Maker& maker, const TensorKey& row) const;
  // Finds out who made the difference of a row that fails.
  void FindMaker(const TensorGroup& group, const v1::ComparisonRow& row,
                 const std::string& bytes);
  // Adds in which arguments the call of a maker differs that are no tensors. If
  // an op without parts is the maker, it is its caller then.
  void BlameArguments(const TensorGroup& group, const FoundMaker& found,
                      v1::Maker& maker);
  // Puts the ranks that fail first in order, if there are several.
  absl::Status OrderRanks(const GroupMatcher& matcher);

  storage::RunReaders& readers_;
  const ComparisonPlan& plan_;
  ComparisonObserver& observer_;
  // From the first Run on. Either may borrow the other.
  std::unique_ptr<storage::RunReader> golden_;
  std::unique_ptr<storage::RunReader> target_;
  IdleRules idle_rules_;
  RequiredTolerances required_tolerances_;
  bool has_order_ = true;  // HasKnownOrder of the golden run.
  OriginFinder origins_;
  Conditioning conditioning_;
  Findings findings_;
  // Of the pairs of the group at hand so far; -1 if there is none.
  std::vector<int64_t> row_numbers_;
  // Reasons of rows that may be shown as those of makers, by pair.
  std::map<size_t, std::string> reasons_;
  // The metrics of the row at hand as far as they are proven, if summaries show
  // that it fails.
  std::optional<RowMetrics> proven_metrics_;
  // See Verification.
  bool is_by_basis_ = false;
  // The largest difference of the row at hand between integers, in words.
  std::string difference_;
  ChoiceBudget choice_budget_;       // Of the group at hand.
  bool has_other_integers_ = false;  // See HasOtherIntegers.
  bool waits_ = false;
  bool is_counted_ = false;
  RunMark golden_mark_;
  RunMark target_mark_;
  std::optional<AbsentSides> absent_;  // Once Run has looked at the runs.
  RunLosses golden_losses_;
  RunLosses target_losses_;
  IncompleteCounter golden_incomplete_;
  IncompleteCounter target_incomplete_;
  // The groups that were compared, while following.
  GroupSet done_;
  // Of groups of which nothing came for long: rows that were made all the same,
  // by the golden tensor, and their verdicts.
  std::map<GroupKey, std::map<std::string, EarlyRow>> early_;
  // Groups at hand of which only pairs are compared. Does not change while
  // groups are loaded.
  std::set<GroupKey> partial_;
  // All groups that ever were partial. The rows of their pairs remain, so later
  // calls must not change the pairs.
  GroupSet early_groups_;
  // Partial groups whose ranks have had no stream for long: tensors that they
  // lack count as missing once the runs are sealed. Does not change while
  // groups are loaded.
  std::set<GroupKey> settled_;
  std::pair<GroupMatcher::Closed, GroupMatcher::Closed> settled_for_;
  RankCounts ranks_;
  std::map<int32_t, DType> past_types_;  // By rank; of Plan alone.
  int64_t row_count_ = 0;
  // One for all pairs: it keeps its memory. Without metrics: those of equal
  // bytes are the same for most pairs, and encoded once.
  v1::ComparisonRow row_;
  v1::ComparisonRow metrics_row_;
  RowMetrics last_metrics_;
  std::string last_metrics_bytes_;
  Mutex plans_mu_;
  // Of the groups that are loaded and not yet compared.
  std::deque<Plans> plans_ ABSL_GUARDED_BY(plans_mu_);
  // During Run. Behind all that its threads look at.
  std::optional<PairMeasurer> measurer_;
};

// Adds a row, as ComparisonObserver::OnRow is given it, to the counts of
// `comparison`.
void AccountRow(const v1::ComparisonRow& row, v1::Comparison& comparison);

}  // namespace msitd::compare
