// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/judged_rows.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_header.h"
#include "daemon/compare/job/comparison_job.h"
#include "daemon/compare/job/comparison_name.h"
#include "daemon/compare/judge/idle_rules.h"
#include "daemon/compare/judge/required_tolerances.h"
#include "daemon/compare/judge/stored_row.h"
#include "daemon/compare/judge/stored_row_judge.h"
#include "daemon/compare/origin/findings.h"
#include "protos/base/check.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Number of rows that are judged at a time, and of batches of them that are
// judged while an earlier one is added, each on its own thread. To judge rows
// takes two to three times as long as to add them. Both bound the memory.
constexpr int64_t kRowsAtATime = 2048;
constexpr int64_t kBatchesAhead = 2;

absl::Status SourceDeleted(const v1::Comparison& source) {
  return WithReason(
      MakeStatus(absl::StatusCode::kNotFound,
                 "comparison {}, whose rows are judged, was deleted",
                 source.name()),
      ErrorReason::kComparisonNotFound);
}

// JudgedHeader has made all other fields equal.
bool HasSamePolicy(const v1::Comparison& a, const v1::Comparison& b) {
  return a.policy().SerializeAsString() == b.policy().SerializeAsString();
}

class StoredRows {
 public:
  StoredRows(storage::Comparisons& store, const ComparisonPlan& plan,
             ComparisonObserver& observer)
      : store_(store),
        plan_(plan),
        source_(plan.judged->comparison),
        observer_(observer),
        judge_(plan.judged->policy, plan.policy, source_.judge_context(),
               HasSamePolicy(source_, observer.header())),
        idle_rules_(plan.policy, plan.matching) {
    if (source_.judge_context().has_unknown_order()) {
      findings_.SetOrderUnknown(source_.golden_run());
    }
    for (const v1::ComparisonRow* const row : RowsInHeader(source_)) {
      shown_.emplace(row->row(), v1::ComparisonRow());
    }
  }

  absl::Status Run();

 private:
  // Returns the rows in the header that need the runs to be found again.
  static std::vector<const v1::ComparisonRow*> RowsInHeader(
      const v1::Comparison& header);
  // A row with its new verdict.
  struct JudgedRow {
    v1::ComparisonRow row;  // See StoredRow::row.
    std::string bytes;
    bool has_failed = false;  // By the earlier policy.
    StoredRowJudge::Outcome outcome = {};
  };
  // Consecutive rows. The objects are reused, so that their memory is.
  struct Batch {
    std::thread judging;  // Not joinable if no thread could be started.
    absl::Status status;
    size_t count = 0;
    std::vector<JudgedRow> rows;
    StoredRow stored;
  };
  // Reads and judges at most kRowsAtATime rows. The result for a row depends
  // only on the row, so this runs on other threads while previous rows are
  // added and stored.
  void Judge(int64_t first, Batch& out) const;
  // Returns false if the bytes are not the row with this number.
  bool JudgeRow(int64_t number, std::string bytes, StoredRow& stored,
                JudgedRow& out) const;
  // Add rows to the findings and pass them to the observer, in order.
  absl::Status AddBatch(Batch& batch);
  absl::Status AddRow(JudgedRow& judged);
  void AddBounds(const StoredRowJudge::Outcome& outcome,
                 const v1::ComparisonRow& row);
  // Shows the bounds with which all rows would pass, if they are known.
  void ShowBounds();
  void Finish();
  // Copies what the source has found, if the same row fails first.
  void TakeDivergence();
  void TakeMakers();
  void UpdateDoubts();

  storage::Comparisons& store_;
  const ComparisonPlan& plan_;
  const v1::Comparison& source_;
  ComparisonObserver& observer_;
  const StoredRowJudge judge_;
  IdleRules idle_rules_;
  RequiredTolerances required_tolerances_;
  Findings findings_;
  // The rows of the header of the source, by their numbers, as they are judged
  // now.
  std::map<int64_t, v1::ComparisonRow> shown_;
  // The first token with a row that fails now and did not before.
  int64_t first_new_failure_ = std::numeric_limits<int64_t>::max();
  bool are_bounds_known_ = true;
};

std::vector<const v1::ComparisonRow*> StoredRows::RowsInHeader(
    const v1::Comparison& header) {
  std::vector<const v1::ComparisonRow*> out;
  if (header.has_first_divergence()) out.push_back(&header.first_divergence());
  for (const auto& row : header.concurrent_divergences()) out.push_back(&row);
  for (const auto& maker : header.makers()) out.push_back(&maker.row());
  if (header.has_first_inequality()) out.push_back(&header.first_inequality());
  if (header.has_input_difference()) {
    out.push_back(&header.input_difference().row());
  }
  return out;
}

void StoredRows::Judge(int64_t first, Batch& out) const {
  const int64_t wanted = std::min(kRowsAtATime, RowCount(source_) - first);
  absl::StatusOr<std::vector<std::string>> bytes =
      store_.GetComparisonRows(plan_.judged->id, static_cast<uint64_t>(first),
                               static_cast<size_t>(wanted));
  out.count = 0;
  out.status = bytes.status();
  // A deleted comparison loses its rows before its document.
  if (absl::IsNotFound(out.status) ||
      (bytes.ok() && static_cast<int64_t>(bytes->size()) != wanted)) {
    out.status = SourceDeleted(source_);
  }
  if (!out.status.ok()) return;
  if (out.rows.size() < bytes->size()) out.rows.resize(bytes->size());
  for (std::string& row : *bytes) {
    const int64_t number = first + static_cast<int64_t>(out.count);
    if (!JudgeRow(number, std::move(row), out.stored, out.rows[out.count])) {
      out.status = MakeStatus(absl::StatusCode::kDataLoss,
                              "comparison {}: row {} cannot be read",
                              source_.name(), number);
      return;
    }
    ++out.count;
  }
}

bool StoredRows::JudgeRow(int64_t number, std::string bytes, StoredRow& stored,
                          JudgedRow& out) const {
  if (!stored.Parse(bytes) || stored.row().row() != number) return false;
  v1::ComparisonRow& row = stored.row();
  out.has_failed = row.verdict() == v1::FAIL;
  out.outcome = judge_.Judge(stored);
  // Watches are conditions of the source.
  const bool has_changed = !out.outcome.is_kept || row.watches_size() > 0;
  row.clear_watches();
  out.bytes = has_changed ? stored.Serialize() : std::move(bytes);
  out.row.Swap(&row);
  return true;
}

absl::Status StoredRows::Run() {
  const int64_t count = RowCount(source_);
  std::array<Batch, 1 + kBatchesAhead> batches;
  const auto batch_of = [&](int64_t first) -> Batch& {
    return batches[static_cast<size_t>(first / kRowsAtATime) % batches.size()];
  };
  int64_t next = 0;  // The first row that no thread was started for.
  absl::Status status;
  for (int64_t first = 0; first < count && status.ok(); first += kRowsAtATime) {
    const int64_t end =
        std::min(count, first + (1 + kBatchesAhead) * kRowsAtATime);
    for (; next < end; next += kRowsAtATime) {
      Batch& ahead = batch_of(next);
      ahead.judging = StartSpareThread(
          "judged rows", [this, next, &ahead] { Judge(next, ahead); });
    }
    Batch& batch = batch_of(first);
    if (batch.judging.joinable()) {
      batch.judging.join();
    } else {
      Judge(first, batch);
    }
    status = AddBatch(batch);
  }
  for (Batch& batch : batches) {
    if (batch.judging.joinable()) batch.judging.join();
  }
  MSITD_RETURN_IF_ERROR(status);
  Finish();
  return absl::OkStatus();
}

absl::Status StoredRows::AddBatch(Batch& batch) {
  MSITD_RETURN_IF_ERROR(observer_.Check());
  MSITD_RETURN_IF_ERROR(batch.status);
  for (size_t i = 0; i < batch.count; ++i) {
    MSITD_RETURN_IF_ERROR(AddRow(batch.rows[i]));
  }
  ShowBounds();
  return absl::OkStatus();
}

absl::Status StoredRows::AddRow(JudgedRow& judged) {
  const v1::ComparisonRow& row = judged.row;
  if (row.has_golden()) idle_rules_.Meet(row.op(), /*is_golden=*/true);
  if (row.has_target() && !row.has_golden()) {
    idle_rules_.Meet(row.op(), /*is_golden=*/false);
  }
  AddBounds(judged.outcome, row);
  if (row.verdict() == v1::FAIL && !judged.has_failed) {
    first_new_failure_ = std::min(first_new_failure_, row.token());
  }
  // The first inequality does not depend on verdicts and is that of the source.
  findings_.AddRow(row, judged.bytes, /*has_equal_values=*/true);
  if (const auto shown = shown_.find(row.row()); shown != shown_.end()) {
    MSITD_CHECK(shown->second.ParseFromString(judged.bytes));
  }
  if (findings_.changed()) findings_.Show(observer_.header());
  return observer_.OnRow(row, std::move(judged.bytes));
}

void StoredRows::AddBounds(const StoredRowJudge::Outcome& outcome,
                           const v1::ComparisonRow& row) {
  const int64_t number = row.row();
  are_bounds_known_ = are_bounds_known_ && outcome.are_bounds_known;
  if (outcome.is_stated) return;
  if (outcome.has_bounds) {
    required_tolerances_.Add(outcome.verification, outcome.metrics, number);
  }
  if (row.verdict() == v1::FAIL) required_tolerances_.AddFailure(number);
}

void StoredRows::ShowBounds() {
  v1::Comparison& header = observer_.header();
  if (are_bounds_known_) {
    if (required_tolerances_.changed()) required_tolerances_.Show(header);
    return;
  }
  // With these bounds, rows would fail whose own ones are not known.
  header.clear_required_tolerances();
  header.clear_hopeless_count();
  header.set_first_hopeless_row(-1);
}

void StoredRows::Finish() {
  v1::Comparison& header = observer_.header();
  ShowBounds();
  findings_.Show(header);
  header.clear_first_inequality();
  if (source_.has_first_inequality()) {
    *header.mutable_first_inequality() =
        shown_.at(source_.first_inequality().row());
  }
  // A rule that names the op may accept other integers.
  if (source_.has_input_difference() &&
      shown_.at(source_.input_difference().row().row()).verdict() != v1::PASS) {
    *header.mutable_input_difference() = source_.input_difference();
    *header.mutable_input_difference()->mutable_row() =
        shown_.at(source_.input_difference().row().row());
  }
  TakeDivergence();
  UpdateDoubts();
  const std::vector<std::string> rules = idle_rules_.Texts();
  header.mutable_idle_rules()->Assign(rules.begin(), rules.end());
}

void StoredRows::TakeDivergence() {
  v1::Comparison& header = observer_.header();
  if (!header.has_first_divergence() || !source_.has_first_divergence()) return;
  const int64_t token = header.first_divergence().token();
  const v1::ComparisonRow& first = shown_.at(source_.first_divergence().row());
  // With other failing rows, another rank may be first.
  if (first.verdict() != v1::FAIL || first.token() != token ||
      first_new_failure_ <= token) {
    return;
  }
  *header.mutable_first_divergence() = first;
  header.clear_concurrent_divergences();
  for (const v1::ComparisonRow& row : source_.concurrent_divergences()) {
    const v1::ComparisonRow& now = shown_.at(row.row());
    if (now.verdict() == v1::FAIL) *header.add_concurrent_divergences() = now;
  }
  TakeMakers();
}

void StoredRows::TakeMakers() {
  v1::Comparison& header = observer_.header();
  header.clear_makers();
  header.clear_first_origin();
  const auto fails = [this](const v1::Maker& maker) {
    return shown_.at(maker.row().row()).verdict() == v1::FAIL;
  };
  // Without the first cause, another row would be one.
  if (source_.makers().empty() || !fails(source_.makers(0))) return;
  for (const v1::Maker& maker : source_.makers()) {
    if (!fails(maker)) continue;
    v1::Maker& out = *header.add_makers();
    out = maker;
    *out.mutable_row() = shown_.at(maker.row().row());
  }
  header.set_more_makers_count(source_.more_makers_count());
  if (source_.has_first_origin() && header.makers_size() > 0) {
    *header.mutable_first_origin() = header.makers(0).row();
  }
}

void StoredRows::UpdateDoubts() {
  v1::Comparison& header = observer_.header();
  UpdatePartial(header);
  const bool lacks_ranks =
      header.golden_ranks().partial() || header.target_ranks().partial();
  // The first token of the missing ranks is not known here.
  UpdateMayDivergeBefore(
      lacks_ranks ? std::optional(std::numeric_limits<int64_t>::min())
                  : std::nullopt,
      header);
}

}  // namespace

v1::Comparison JudgedHeader(const v1::Comparison& source,
                            const v1::Policy& policy) {
  v1::Comparison out = source;
  out.clear_name();
  for (const auto clear : {&v1::Comparison::clear_pass_count,
                           &v1::Comparison::clear_fail_count,
                           &v1::Comparison::clear_unmatched_count,
                           &v1::Comparison::clear_skipped_count,
                           &v1::Comparison::clear_not_compared_count,
                           &v1::Comparison::clear_for_want_of_ranks_count,
                           &v1::Comparison::clear_allowed_unmatched_count,
                           &v1::Comparison::clear_layout_hint_row_count,
                           &v1::Comparison::clear_sampled_count,
                           &v1::Comparison::clear_both_non_finite_count,
                           &v1::Comparison::clear_statistics_count,
                           &v1::Comparison::clear_statistics_in_part_count,
                           &v1::Comparison::clear_unread_count,
                           &v1::Comparison::clear_flipped_count,
                           &v1::Comparison::clear_explained_count,
                           &v1::Comparison::clear_watched_count,
                           &v1::Comparison::clear_hopeless_count,
                           &v1::Comparison::clear_more_makers_count,
                           &v1::Comparison::clear_read_bytes,
                           &v1::Comparison::clear_stored_size_bytes}) {
    (out.*clear)();
  }
  for (const auto clear : {&v1::Comparison::clear_first_divergence,
                           &v1::Comparison::clear_concurrent_divergences,
                           &v1::Comparison::clear_makers,
                           &v1::Comparison::clear_first_origin,
                           &v1::Comparison::clear_first_inequality,
                           &v1::Comparison::clear_first_non_finite,
                           &v1::Comparison::clear_first_both_non_finite,
                           &v1::Comparison::clear_first_unmatched,
                           &v1::Comparison::clear_first_skipped,
                           &v1::Comparison::clear_first_not_compared,
                           &v1::Comparison::clear_input_difference,
                           &v1::Comparison::clear_required_tolerances,
                           &v1::Comparison::clear_layout_hints,
                           &v1::Comparison::clear_view_hints,
                           &v1::Comparison::clear_idle_rules,
                           &v1::Comparison::clear_watches,
                           &v1::Comparison::clear_follow,
                           &v1::Comparison::clear_detach,
                           &v1::Comparison::clear_end_time,
                           &v1::Comparison::clear_restored_from,
                           &v1::Comparison::clear_may_diverge_before}) {
    (out.*clear)();
  }
  out.set_judged_comparison(source.name());
  out.mutable_judge_context()->set_is_judged(true);
  v1::Policy& own = *out.mutable_policy();
  own = policy;
  *own.mutable_metric_sets() = source.policy().metric_sets();
  *own.mutable_allow_unmatched() = source.policy().allow_unmatched();
  own.set_top_k(source.policy().top_k());
  if (own.ByteSizeLong() == 0) out.clear_policy();
  out.set_first_hopeless_row(-1);
  out.set_state(v1::Comparison::PENDING);
  UpdatePartial(out);
  return out;
}

absl::Status JudgeStoredRows(storage::Comparisons& store,
                             const ComparisonPlan& plan,
                             ComparisonObserver& observer) {
  return StoredRows(store, plan, observer).Run();
}

}  // namespace msitd::compare
