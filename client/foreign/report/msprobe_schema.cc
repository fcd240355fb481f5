// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <variant>

#include "client/ask/report/schema/row_fields.h"
#include "client/ask/text/ignored_reason.h"
#include "client/ask/text/maker_text.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/foreign/report/msprobe_doubt.h"
#include "client/foreign/report/msprobe_leaf_name.h"
#include "client/foreign/report/msprobe_side.h"
#include "client/foreign/report/msprobe_statistics.h"
#include "client/foreign/report/msprobe_value.h"
#include "client/foreign/report/msprobe_verdict.h"
#include "client/foreign/trees/msprobe/msprobe_index.h"
#include "protos/base/resource_name.h"
#include "protos/base/shape.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::report {
namespace {

using Headings = std::vector<std::string>;

constexpr std::string_view kAbsent = "N/A";
constexpr std::string_view kUnsupported = "unsupported";
constexpr std::string_view kShapeUnmatched = "shape unmatched";
constexpr std::string_view kNoFile = "-1";

// The number of metrics of MsprobeMode::kAll.
constexpr size_t kMetricColumns = 6;

Headings MetricHeadings(MsprobeMode mode) {
  switch (mode) {
    case MsprobeMode::kAll:
      return {"Cosine",
              "EucDist",
              "MaxAbsErr",
              "MaxRelativeErr",
              "One Thousandth Err Ratio",
              "Five Thousandths Err Ratio"};
    case MsprobeMode::kSummary:
      return {"Max diff",        "Min diff",       "Mean diff",
              "L2norm diff",     "MaxRelativeErr", "MinRelativeErr",
              "MeanRelativeErr", "NormRelativeErr"};
    case MsprobeMode::kMd5:
      break;
  }
  return {"NPU MD5", "BENCH MD5"};
}

Headings HeadingsOf(MsprobeMode mode, bool has_stacks,
                    const v1::Comparison& comparison) {
  Headings out = {"NPU Name",          "Bench Name",
                  "NPU Dtype",         "Bench Dtype",
                  "NPU Tensor Shape",  "Bench Tensor Shape",
                  "NPU Requires_grad", "Bench Requires_grad"};
  const auto add = [&out](const Headings& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  add(MetricHeadings(mode));
  if (mode != MsprobeMode::kMd5) {
    add({"NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max",
         "Bench min", "Bench mean", "Bench l2norm"});
  }
  add({"Requires_grad Consistent", "Result", "Err_message"});
  if (has_stacks) add({"NPU_Stack_Info"});
  if (mode == MsprobeMode::kAll) add({"Data_name"});
  ask::AddCustomHeadings(comparison, out);
  return out;
}

ask::Cell Text(std::string_view text) { return std::string(text); }

ask::Cell Number(std::optional<double> value) {
  return ask::Real{value.value_or(std::nan("")), ask::RealStyle::kMsprobe};
}

std::optional<double> Rounded(std::optional<double> value) {
  if (value.has_value()) value = ask::RoundDecimals(*value, 12);
  return value;
}

ask::Cell Decimals(std::optional<double> value) {
  return Number(Rounded(value));
}

ask::Cells Repeated(std::string_view text) {
  return ask::Cells(kMetricColumns, Text(text));
}

// Returns true for a tensor that is in a table of receive buffers and scratch.
bool IsIgnored(const v1::ComparisonRow& row) {
  return row.verdict() == v1::SKIPPED &&
         row.reason().find(ask::kIgnoredReason) != std::string::npos;
}

bool ShapesDiffer(const v1::ComparisonRow& row, bool squeezed) {
  std::vector<int64_t> target(row.target().shape().begin(),
                              row.target().shape().end());
  std::vector<int64_t> golden(row.golden().shape().begin(),
                              row.golden().shape().end());
  if (squeezed) {
    std::erase(target, 1);
    std::erase(golden, 1);
  }
  return target != golden;
}

// A row whose verdict depends on the other rows of its entry.
struct WaitingRow {
  int part = 0;
  bool is_written = true;
  // Name, dtype, shape and requires_grad of both sides.
  ask::Cells names;
  std::string gradients_agree;
  ask::Cells metrics;
  std::string stack;  // The stack of the call.
  ask::Cells tail;    // The cells after the stack.
};

struct Entry {
  size_t last_place = 0;
  std::vector<std::pair<WaitingRow, MsprobeRow>> rows;
};

class MsprobeSchema final : public ask::TableSchema {
 public:
  explicit MsprobeSchema(MsprobeReport report)
      : report_(std::move(report)), mode_(report_.mode) {}

  std::vector<std::string> Begin(const v1::Comparison& comparison) override {
    comparison_ = comparison;
    return HeadingsOf(mode_, has_stacks(), comparison);
  }

  absl::Status Add(const v1::ComparisonRow& row,
                   ask::TableSink& table) override {
    if (!row.has_target()) {
      left_out_ += IsWritten(row) ? 1 : 0;
      return absl::OkStatus();
    }
    const std::pair<int64_t, int32_t> group = {row.token(), row.rank()};
    if (group != group_ || row_count_ == kGroupRowsMax) {
      MSITD_RETURN_IF_ERROR(WriteEntries(table));
      group_ = group;
    }
    MsprobeSide target = SideOf(row, /*is_golden=*/false);
    // A container that is empty on one side only is a difference.
    const bool is_difference =
        !report_.is_compat && row.has_golden() && row.verdict() != v1::PASS &&
        !SideOf(row, /*is_golden=*/true).is_empty_container;
    if (target.is_empty_container && !is_difference) {
      empty_ += IsWritten(row) ? 1 : 0;
      return absl::OkStatus();
    }
    const LeafName name = NameOf(row, row.target());
    Entry& entry = entries_[name.entry];
    // Rows that only the target has follow the others, out of their order.
    if (row.has_golden() || entry.rows.empty()) entry.last_place = row_count_;
    ++row_count_;
    MSITD_ASSIGN_OR_RETURN(auto made, MakeRow(row, name, std::move(target)));
    entry.rows.push_back(std::move(made));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Finish(ask::TableSink& table) override {
    MSITD_RETURN_IF_ERROR(WriteEntries(table));
    std::vector<std::string> notes;
    if (left_out_ > 0) {
      notes.push_back(fmt::format(
          "{} rows that only the golden run has are left out, as msprobe does",
          left_out_));
    }
    if (unmatched_ > 0 && mode_ != MsprobeMode::kMd5) {
      notes.push_back(fmt::format(
          "{} rows without a counterpart, or with a counterpart of a type that "
          "msprobe does not compare, count as passed, as in msprobe",
          unmatched_));
    }
    if (empty_ > 0) {
      notes.push_back(fmt::format(
          "{} rows of empty lists and dicts are left out, as msprobe does",
          empty_));
    }
    const std::string left_out = ask::LeftOutText(comparison_);
    if (!left_out.empty()) {
      notes.push_back(fmt::format(
          "the report lacks rows that msprobe has, which can also change the "
          "results of others: the comparison does not contain {}",
          left_out));
    }
    if (unknown_gradients_ > 0 && mode_ != MsprobeMode::kMd5) {
      notes.push_back(
          fmt::format("{} rows have requires_grad on one side only, which {}",
                      unknown_gradients_,
                      report_.is_compat ? "msprobe treats as a difference"
                                        : "is not judged"));
    }
    if (ignored_ > 0) {
      notes.push_back(fmt::format(
          "{} rows are ignored: receive buffers and scratch memory", ignored_));
    }
    if (unsqueezed_ > 0) {
      notes.push_back(
          fmt::format("{} rows have no metrics because their shapes differ in "
                      "dimensions of 1. msprobe treats such shapes as equal; "
                      "to do so too, compare with --shapes squeeze",
                      unsqueezed_));
    }
    return fmt::format("{}", fmt::join(notes, "; "));
  }

 private:
  // Twice the number of tensors of one rank and token that the daemon compares.
  static constexpr size_t kGroupRowsMax = 262144;

  bool has_stacks() const {
    if (report_.target_dump != nullptr) {
      return report_.target_dump->has_stacks();
    }
    return report_.stacks != nullptr && !report_.stacks->empty();
  }

  bool IsWritten(const v1::ComparisonRow& row) const {
    const std::vector<v1::Verdict>& verdicts = report_.verdicts;
    return verdicts.empty() || std::find(verdicts.begin(), verdicts.end(),
                                         row.verdict()) != verdicts.end();
  }

  // Writes entries in the order in which the calls ended, as dump.json does.
  absl::Status WriteEntries(ask::TableSink& table) {
    std::vector<Entry*> entries;
    for (auto& [name, entry] : entries_) entries.push_back(&entry);
    std::sort(entries.begin(), entries.end(),
              [](const Entry* a, const Entry* b) {
                return a->last_place < b->last_place;
              });
    for (Entry* const entry : entries) {
      MSITD_RETURN_IF_ERROR(WriteEntry(*entry, table));
    }
    entries_.clear();
    row_count_ = 0;
    return absl::OkStatus();
  }

  absl::Status WriteEntry(Entry& entry, ask::TableSink& table) {
    std::stable_sort(entry.rows.begin(), entry.rows.end(),
                     [](const auto& a, const auto& b) {
                       return a.first.part < b.first.part;
                     });
    std::vector<MsprobeRow> rows;
    for (auto& [waiting, row] : entry.rows) rows.push_back(std::move(row));
    std::vector<MsprobeVerdict> verdicts =
        JudgeEntry(rows, mode_, report_.rules);
    for (size_t i = 0; i < rows.size(); ++i) {
      WaitingRow& waiting = entry.rows[i].first;
      // Only the first row of an entry has the stack.
      if (i > 0 || waiting.stack.empty()) waiting.stack = kAbsent;
      if (!waiting.is_written) continue;
      if (report_.on_row != nullptr) report_.on_row(rows[i]);
      MSITD_RETURN_IF_ERROR(
          table.Add(CellsOf(waiting, rows[i], std::move(verdicts[i]))));
    }
    return absl::OkStatus();
  }

  ask::Cells CellsOf(WaitingRow& waiting, const MsprobeRow& row,
                     MsprobeVerdict verdict) const {
    ask::Cells cells = std::move(waiting.names);
    const auto add = [&cells](ask::Cells& more) {
      std::move(more.begin(), more.end(), std::back_inserter(cells));
    };
    add(waiting.metrics);
    if (mode_ != MsprobeMode::kMd5) {
      for (const MsprobeStatistics* side : {&row.target, &row.golden}) {
        for (const MsprobeStatistic& statistic : *side) {
          cells.push_back(statistic.cell);
        }
      }
    }
    cells.emplace_back(std::move(waiting.gradients_agree));
    cells.emplace_back(std::move(verdict.result));
    cells.emplace_back(std::move(verdict.messages));
    if (has_stacks()) cells.emplace_back(std::move(waiting.stack));
    add(waiting.tail);
    return cells;
  }

  // Returns what the dump of a side has of a tensor; null if it has nothing or
  // is not known.
  const trees::MsprobeIndex::Leaf* LeafOf(const v1::ComparisonRow& row,
                                          bool is_golden) const {
    const auto* const dump =
        is_golden ? report_.golden_dump : report_.target_dump;
    if (dump == nullptr) return nullptr;
    const TensorKey key = KeyOf(row, is_golden ? row.golden() : row.target());
    return dump->Find({key.op, key.call, key.io, key.index});
  }

  MsprobeSide SideOf(const v1::ComparisonRow& row, bool is_golden) const {
    const v1::ComparedTensor& side = is_golden ? row.golden() : row.target();
    const std::string index = KeyOf(row, side).index;
    const auto* const leaf = LeafOf(row, is_golden);
    if (leaf == nullptr || leaf->statistics.empty() || !IsTensor(side)) {
      return MsprobeSideOf(side, index, report_.is_compat);
    }
    v1::ComparedTensor recorded = side;
    recorded.set_kind(v1::RECORD_KIND_STATISTICS);
    recorded.set_value(leaf->statistics);
    return MsprobeSideOf(recorded, index, report_.is_compat);
  }

  std::string StackOf(const v1::ComparisonRow& row,
                      const std::string& entry) const {
    if (report_.target_dump != nullptr) {
      return std::string(report_.target_dump->StackOf(entry));
    }
    return report_.stacks->Find(KeyOf(row, row.target()));
  }

  // Returns the names of both sides: of their files, if the dumps are known.
  std::string DataNames(const v1::ComparisonRow& row, bool is_matched) const {
    if (report_.target_dump == nullptr) {
      return fmt::format(
          "[{}, {}]", PythonText(row.target().name()),
          PythonText(is_matched ? row.golden().name() : kAbsent));
    }
    const auto file = [&](bool is_golden) {
      const auto* const leaf = LeafOf(row, is_golden);
      const bool has_file = leaf != nullptr && !leaf->file.empty();
      return PythonText(has_file ? std::string_view(leaf->file) : kNoFile);
    };
    return fmt::format("[{}, {}]", file(false),
                       is_matched ? file(true) : PythonText(kAbsent));
  }

  // Returns the values by which a row is judged, except for its statistics and
  // metrics.
  MsprobeRow JudgedOf(const v1::ComparisonRow& row, bool is_matched,
                      const MsprobeSide& target,
                      const MsprobeSide& golden) const {
    MsprobeRow out;
    out.is_matched = is_matched;
    out.is_ignored = IsIgnored(row);
    out.target_hash = target.checksum.text;
    out.golden_hash = golden.checksum.text;
    if (!is_matched) {
      // None has no hash on either side, so msprobe passes it.
      if (report_.is_compat && out.target_hash == kAbsent) {
        out.golden_hash = kAbsent;
      }
      return out;
    }
    out.has_two_kinds_of_hash = golden.checksum.kind != target.checksum.kind;
    out.dtypes_differ = target.dtype != golden.dtype;
    out.shapes_differ = target.shape != golden.shape;
    out.requires_grads_differ =
        target.requires_grad != golden.requires_grad &&
        (report_.is_compat ||
         (target.has_requires_grad() && golden.has_requires_grad()));
    out.scalars_differ =
        target.IsScalar() && golden.IsScalar() &&
        ValuesDiffer(target.statistics[0], golden.statistics[0]);
    return out;
  }

  // Returns the cell `Requires_grad Consistent`.
  std::string GradientsAgree(const MsprobeSide& target,
                             const MsprobeSide& golden) const {
    const bool is_unknown =
        !target.has_requires_grad() || !golden.has_requires_grad();
    // In a dump, a value has none, which is equal on both sides.
    const bool is_known_absence = report_.target_dump != nullptr &&
                                  target.requires_grad == golden.requires_grad;
    if (!report_.is_compat && is_unknown && !is_known_absence) {
      return std::string(kAbsent);
    }
    return target.requires_grad == golden.requires_grad ? "True" : "False";
  }

  // Counts a row for the notes.
  void Count(const WaitingRow& waiting, const MsprobeRow& judged,
             const MsprobeSide& target, const MsprobeSide& golden) {
    if (!waiting.is_written) return;
    if (judged.is_ignored) {
      ++ignored_;
    } else if (!judged.is_matched && report_.is_compat) {
      ++unmatched_;
    }
    if (judged.is_matched &&
        target.has_requires_grad() != golden.has_requires_grad()) {
      ++unknown_gradients_;
    }
  }

  absl::StatusOr<std::pair<WaitingRow, MsprobeRow>> MakeRow(
      const v1::ComparisonRow& row, const LeafName& name, MsprobeSide target) {
    MsprobeSide golden;
    golden.dtype = golden.shape = kAbsent;
    bool is_matched = false;
    if (row.has_golden()) {
      MsprobeSide side = SideOf(row, /*is_golden=*/true);
      is_matched = report_.pairs_all_dtypes ||
                   row.pairing() == ask::kDataMappingReason ||
                   TypesMatch(target, side);
      if (is_matched) golden = std::move(side);
    }
    MsprobeRow judged = JudgedOf(row, is_matched, target, golden);
    judged.name = name.leaf;
    WaitingRow waiting;
    waiting.part = name.part;
    waiting.is_written = IsWritten(row);
    Count(waiting, judged, target, golden);
    waiting.names = {
        name.leaf,
        is_matched ? NameOf(row, row.golden()).leaf : std::string(kAbsent),
        target.dtype,
        golden.dtype,
        target.shape,
        golden.shape,
        target.requires_grad,
        golden.requires_grad};
    waiting.gradients_agree = GradientsAgree(target, golden);
    judged.target = std::move(target.statistics);
    judged.golden = std::move(golden.statistics);
    if (!report_.is_compat) SetDoubt(row, mode_, report_.trusts_rules, judged);
    MSITD_ASSIGN_OR_RETURN(waiting.metrics, MetricCells(row, judged));
    if (has_stacks()) waiting.stack = StackOf(row, name.entry);
    if (mode_ == MsprobeMode::kAll) {
      waiting.tail.emplace_back(DataNames(row, is_matched));
    }
    ask::AddCustomCells(comparison_, row, ask::RealStyle::kMsprobe,
                        waiting.tail);
    return std::pair(std::move(waiting), std::move(judged));
  }

  // Returns the cells, and stores the values that are judged in `judged`.
  absl::StatusOr<ask::Cells> MetricCells(const v1::ComparisonRow& row,
                                         MsprobeRow& judged) {
    switch (mode_) {
      case MsprobeMode::kAll:
        return TensorCells(row, judged);
      case MsprobeMode::kSummary:
        return SummaryCells(judged);
      case MsprobeMode::kMd5:
        break;
    }
    const auto hash = [](const std::string& text) {
      return text.empty() ? Text(kAbsent) : ask::Cell(text);
    };
    return ask::Cells{hash(judged.target_hash), hash(judged.golden_hash)};
  }

  absl::StatusOr<ask::Cells> TensorCells(const v1::ComparisonRow& row,
                                         MsprobeRow& judged) {
    const uint64_t elements = ElementCount(row.target().shape());
    // The metrics of statistics and values are not those of elements.
    if (!judged.is_matched || elements == 0 || !IsTensor(row.target()) ||
        !IsTensor(row.golden())) {
      return Repeated(kUnsupported);
    }
    if (ShapesDiffer(row, true)) return Repeated(kShapeUnmatched);
    if (row.metrics_size() == 0) {
      // The bytes are missing, or the policy requires that dimensions of 1 are
      // equal.
      if (judged.shapes_differ) ++unsqueezed_;
      return Repeated(judged.shapes_differ ? kShapeUnmatched : kUnsupported);
    }
    const auto absolute = ask::MetricOf(row, "msprobe_max_abs");
    const auto relative = ask::MetricOf(row, "msprobe_max_rel");
    // A scalar has neither if it is NaN.
    if (elements == 1 && HasSomeMetric(row)) {
      judged.max_abs = absolute;
      const ask::Cell none = Text(kUnsupported);
      return ask::Cells{none, none, Decimals(absolute), Decimals(relative),
                        none, none};
    }
    if (!absolute.has_value()) {
      if (PositionsDiffer(row)) return Repeated(kAbsent);
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "row {} has no msprobe metrics; compare the runs with "
                        "--metrics msprobe or --preset msprobe",
                        row.row());
    }
    judged.max_abs = absolute;
    judged.within_1_permille =
        Rounded(ask::MetricOf(row, "msprobe_within_1_permille"));
    judged.cosine = Rounded(ask::MetricOf(row, "msprobe_cosine"));
    if (judged.cosine > 0.9999) {
      judged.cosine = ask::RoundDecimals(*judged.cosine, 6);
    }
    return ask::Cells{
        Number(judged.cosine),
        Number(ask::MetricOf(row, "msprobe_euclid")),
        Decimals(absolute),
        Decimals(relative),
        Decimals(judged.within_1_permille),
        Decimals(ask::MetricOf(row, "msprobe_within_5_permille"))};
  }

  // Returns true if the comparison computed these metrics, which can be missing
  // for a NaN.
  static bool HasSomeMetric(const v1::ComparisonRow& row) {
    return ask::MetricOf(row, "msprobe_max_abs").has_value() ||
           ask::MetricOf(row, "within_1_permille").has_value();
  }

  static bool PositionsDiffer(const v1::ComparisonRow& row) {
    return ask::MetricOf(row, "nan_mismatch_count").value_or(0) > 0 ||
           ask::MetricOf(row, "inf_mismatch_count").value_or(0) > 0;
  }

  static ask::Cells SummaryCells(MsprobeRow& judged) {
    ask::Cells differences;
    ask::Cells ratios;
    for (size_t i = 0; i < judged.target.size(); ++i) {
      StatisticsDifference d = DifferenceOf(judged.target[i], judged.golden[i]);
      judged.norm_relative = ask::TextOf(d.relative);
      differences.push_back(std::move(d.difference));
      ratios.push_back(std::move(d.relative));
    }
    std::move(ratios.begin(), ratios.end(), std::back_inserter(differences));
    return differences;
  }

  const MsprobeReport report_;
  const MsprobeMode mode_;
  v1::Comparison comparison_;
  // The entries of one rank and token.
  std::pair<int64_t, int32_t> group_;
  std::map<std::string, Entry> entries_;
  size_t row_count_ = 0;
  int64_t left_out_ = 0;
  int64_t unmatched_ = 0;
  int64_t ignored_ = 0;
  int64_t empty_ = 0;
  int64_t unknown_gradients_ = 0;
  int64_t unsqueezed_ = 0;
};

}  // namespace

std::unique_ptr<ask::TableSchema> MakeMsprobeSchema(MsprobeReport report) {
  return std::make_unique<MsprobeSchema>(std::move(report));
}

}  // namespace msitd::report
