// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/level_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "client/ask/report/table/sinks.h"
#include "client/foreign/match/torch/module_pairs.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/msit/compare/coverage.h"
#include "client/msit/compare/custom_columns.h"
#include "client/msit/compare/folder_problems.h"
#include "client/msit/compare/level_side.h"
#include "client/msit/compare/rope_slices.h"
#include "client/msit/compare/row_spool.h"
#include "client/msit/compare/run_pair.h"
#include "client/msit/compare/statistics_schema.h"
#include "client/msit/table/output_file.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/resource_name.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

using match::ModuleLevel;

struct Level {
  std::string_view name;
  ModuleLevel level;
};
constexpr std::array kLevels = {Level{"layer", ModuleLevel::kLayer},
                                Level{"module", ModuleLevel::kModule},
                                Level{"api", ModuleLevel::kApi}};

// Less than any character of a name.
constexpr std::string_view kKeySeparator = "\x01";

// A part of a comparison: the graph of the golden side that is compared, or all
// graphs, and the tokens that it produced.
struct Phase {
  std::optional<size_t> graph;
  int64_t first_token = 0;
  int64_t last_token = kTokenMax;
  // The prefix of messages.
  std::string_view name;
};

// Passes the row of a pair to a table, and adds the columns of user functions.
class RowSink final : public ask::TableSink {
 public:
  // Borrows everything except the reason, which is added to that of the row.
  // `columns` is null if there are none.
  RowSink(const TensorPlace& golden, const TensorPlace& my,
          CustomColumns* columns, std::string reason, ask::TableSink& table)
      : golden_(golden),
        my_(my),
        columns_(columns),
        reason_(std::move(reason)),
        table_(table) {}
  absl::Status Begin(const std::vector<std::string>&) override {
    return absl::OkStatus();
  }
  absl::Status Add(const ask::Cells& cells) override {
    if (columns_ == nullptr) return table_.Add(cells);
    ask::Cells more = cells;
    AddReason(reason_, more);
    MSITD_RETURN_IF_ERROR(columns_->AddCells(golden_, my_, more));
    return table_.Add(more);
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const TensorPlace& golden_;
  const TensorPlace& my_;
  CustomColumns* const columns_;
  const std::string reason_;
  ask::TableSink& table_;
};

// The daemon's names for layouts of copies, and for tensors that do not match.
constexpr std::string_view kCopies = "replicated";
constexpr std::string_view kUnfit = "fit";

// Returns the message about the cards of a row: that they do not form the
// tensor of the other side, or that one of several copies differs. Empty if
// there is nothing to report.
std::string ReasonOfCards(const v1::ComparisonRow& row) {
  if (row.verdict() != v1::FAIL) return "";
  for (const auto& [side, word] : {std::pair(&row.golden(), "golden"),
                                   std::pair(&row.target(), "target")}) {
    if (side->layout() == kUnfit) return row.reason();
    const std::string copies = fmt::format("{} {} of rank", word, kCopies);
    const size_t begin = row.reason().find(copies);
    if (side->layout() != kCopies || begin == std::string::npos) continue;
    return row.reason().substr(begin, row.reason().find("; ", begin) - begin);
  }
  return "";
}

// Returns everything that a row has to report in addition to its metrics.
std::string ReasonOf(const v1::ComparisonRow& row) {
  const bool is_complex = IsComplex(static_cast<DType>(row.golden().dtype())) &&
                          IsComplex(static_cast<DType>(row.target().dtype()));
  std::string out = ReasonOfCards(row);
  if (!is_complex || row.metrics_size() == 0) return out;
  return out.empty() ? report::kRealPartsReason
                     : out + " " + report::kRealPartsReason;
}

class LevelComparison {
 public:
  LevelComparison(const LevelOptions& options, ask::Interrupts& interrupts,
                  Logger& log)
      : options_(options),
        interrupts_(interrupts),
        log_(log),
        golden_(options.golden, options.is_compat),
        my_(options.my, options.is_compat),
        columns_(*options.algorithms, options.is_compat) {}

  absl::Status Run();

 private:
  // Returns false if there is nothing to compare.
  bool ChooseTokens();
  absl::Status Import();
  absl::Status ImportSide(const std::string& run, LevelSide& side);
  absl::StatusOr<std::string> Save();
  absl::Status CompareLevel(const Level& level, ask::TableSchema& schema,
                            ask::TableSink& table);
  std::vector<Phase> Phases() const;
  // Returns the pairs of tensors; nothing if tensors are paired by name.
  absl::StatusOr<std::optional<match::Mapping>> MatchPhase(
      const Level& level, const Phase& phase, const std::string& prefix);
  // Finds the tables of which ropes use a part.
  void FindRopes(const match::Mapping& mapping, const Phase& phase,
                 RopeSlices& ropes) const;
  // Requests that the cards of each side are joined.
  void FitCards(v1::Comparison& comparison) const;
  absl::Status ComparePhase(const Level& level, const Phase& phase,
                            Coverage& coverage, RowSpool& rows);
  std::string OrderOf(const v1::ComparisonRow& row, const Level& level) const;
  report::MsitSide About(const v1::ComparedTensor& tensor,
                         bool is_golden) const;
  std::unique_ptr<ask::TableSchema> MakeSchema() const;
  absl::Status AddRow(const v1::ComparisonRow& row, ask::TableSchema& schema,
                      ask::TableSink& table);
  bool IsOfLevel(const v1::ComparisonRow& row, const Level& level) const;
  bool has_cards() const {
    return golden_.about.cards.size() > 1 || my_.about.cards.size() > 1;
  }
  bool has_atb() const {
    return golden_.about.kind == trees::TreeKind::kAtb ||
           my_.about.kind == trees::TreeKind::kAtb;
  }

  const LevelOptions& options_;
  ask::Interrupts& interrupts_;
  Logger& log_;
  LevelSide golden_;
  LevelSide my_;
  CustomColumns columns_;
  std::unique_ptr<RunPair> runs_;
  // Each with the name of the level as the prefix of its messages.
  std::vector<std::pair<std::string, Coverage>> coverages_;
};

bool LevelComparison::ChooseTokens() {
  const bool has_warm_ups = golden_.has_warm_up && my_.has_warm_up;
  if (has_warm_ups) {
    golden_.tokens.insert(0);
    my_.tokens.insert(0);
  }
  std::set<int64_t> common;
  std::set_intersection(golden_.tokens.begin(), golden_.tokens.end(),
                        my_.tokens.begin(), my_.tokens.end(),
                        std::inserter(common, common.end()));
  if (!common.empty()) {
    golden_.Keep(common, has_warm_ups);
    my_.Keep(common, has_warm_ups);
    return true;
  }
  // Two tokens that the user specifies are compared in any case.
  if (golden_.about.token.has_value() && my_.about.token.has_value() &&
      golden_.tokens.size() == 1 && my_.tokens.size() == 1) {
    golden_.Keep(golden_.tokens, has_warm_ups);
    my_.Keep(my_.tokens, has_warm_ups);
    golden_.batch->CallToken(*my_.tokens.begin());
    return true;
  }
  const auto list = [](const LevelSide& side) {
    std::string out = side.has_warm_up ? "warmup" : "";
    for (const int64_t token : side.tokens) {
      out += fmt::format("{}{}", out.empty() ? "" : ", ", token);
    }
    return "[" + out + "]";
  };
  log_.Error(
      fmt::format("my tokens is {} and golden tokens is {}. The two "
                  "cannot be matched.",
                  list(my_), list(golden_)));
  return false;
}

absl::Status LevelComparison::ImportSide(const std::string& run,
                                         LevelSide& side) {
  side.batch->BeginBatch(std::numeric_limits<int64_t>::max());
  MSITD_RETURN_IF_ERROR(
      runs_->Import(run, *side.batch, side.about.folder, log_));
  MSITD_RETURN_IF_ERROR(side.batch->status());
  // As a document, it belongs to token 0, which may not be compared.
  const std::string tree = ModelTreeText(side.about);
  if (tree.empty()) return absl::OkStatus();
  return runs_->Attach(run, kModelTree, "application/json", tree);
}

absl::Status LevelComparison::Import() {
  MSITD_ASSIGN_OR_RETURN(runs_, RunPair::Start(interrupts_));
  MSITD_RETURN_IF_ERROR(ImportSide(kMyRun, my_));
  return ImportSide(kGoldenRun, golden_);
}

report::MsitSide LevelComparison::About(const v1::ComparedTensor& tensor,
                                        bool is_golden) const {
  const LevelSide& side = is_golden ? golden_ : my_;
  const TensorPlace place = side.PlaceOf(tensor);
  std::string path = place.file.path;
  const bool is_named = !place.key.op.empty();
  if (path.empty() && is_named && side.about.kind == trees::TreeKind::kMsit) {
    path = StatisticsPath(side.about, place.key, options_.is_compat);
  }
  return {path.empty() ? tensor.name() : path, side.types.TypeOf(place.key.op)};
}

// Two torch models have no mapping that distinguishes the levels. Modules above
// the APIs are compared by their outputs. msit compares all levels in this way,
// because it uses only the tree.
bool LevelComparison::IsOfLevel(const v1::ComparisonRow& row,
                                const Level& level) const {
  const bool is_argument =
      row.io() == v1::IO_INPUT || row.io() == v1::IO_OUTPUT;
  if (has_atb() || options_.compares_statistics || !is_argument) {
    return is_argument;
  }
  const bool is_api = level.level == ModuleLevel::kApi;
  if (is_api && !options_.is_compat) return true;
  if (row.io() != v1::IO_OUTPUT) return false;
  if (is_api) return my_.types.Has(row.op()) || golden_.types.Has(row.op());
  return my_.types.IsOf(row.op(), level.level) ||
         golden_.types.IsOf(row.op(), level.level);
}

// Orders rows by my operations, then by their tensors, then by the golden ones.
std::string LevelComparison::OrderOf(const v1::ComparisonRow& row,
                                     const Level& level) const {
  const auto key_of = [](const v1::ComparedTensor& side) {
    return ParseTensorName(side.name()).value_or(TensorKey());
  };
  const TensorKey my = key_of(row.target());
  const TensorKey golden = key_of(row.golden());
  const std::vector<std::string> parts = {
      my_.types.OrderOf(my.op, level.level),
      fmt::format("{}", static_cast<int>(my.io)),
      NaturalKey(my.index),
      fmt::format("{}", my.call),
      golden_.types.OrderOf(golden.op, level.level),
      NaturalKey(golden.index)};
  return fmt::format("{}", fmt::join(parts, kKeySeparator));
}

// A tensor of mine has one golden tensor. If the golden side has two graphs and
// mine has one, a tensor has another golden tensor in later tokens.
std::vector<Phase> LevelComparison::Phases() const {
  if (golden_.about.graph_count <= 1 || my_.about.graph_count > 1) {
    return {Phase()};
  }
  return {{.graph = 0, .last_token = 0, .name = "prefill: "},
          {.graph = 1, .first_token = 1, .name = "decode: "}};
}

absl::StatusOr<std::optional<match::Mapping>> LevelComparison::MatchPhase(
    const Level& level, const Phase& phase, const std::string& prefix) {
  match::MatchOptions options;
  options.is_compat = options_.is_compat;
  options.level = level.level;
  options.graph = phase.graph;
  options.joins_ranks = has_cards();
  options.op_mapping = options_.op_mapping;
  std::optional<match::Mapping> out;
  if (has_atb()) {
    MSITD_ASSIGN_OR_RETURN(
        out,
        runs_->Match(kGoldenRun, kMyRun, match::Matcher::kTorchAtb, options));
    TellOfMapping(*out, /*self_compared_count=*/0, prefix, log_);
    return out;
  }
  MSITD_ASSIGN_OR_RETURN(const bool have_same_ops,
                         runs_->HaveSameOps(kGoldenRun, kMyRun));
  if (have_same_ops) return out;
  MSITD_ASSIGN_OR_RETURN(
      out, runs_->Match(kGoldenRun, kMyRun, match::Matcher::kTorch, options));
  for (const std::string& note : out->notes) log_.Warning(prefix + note);
  if (out->lines.empty()) out.reset();
  return out;
}

void LevelComparison::FitCards(v1::Comparison& comparison) const {
  for (const bool is_golden : {true, false}) {
    const DumpSide& side = is_golden ? golden_.about : my_.about;
    if (side.cards.size() < 2) continue;
    v1::Matching& matching = *comparison.mutable_matching();
    v1::Layout& layout = is_golden ? *matching.add_golden_layouts()
                                   : *matching.add_target_layouts();
    layout.set_op_pattern("*");
    layout.set_kind(v1::Layout::FIT);
  }
}

absl::Status LevelComparison::ComparePhase(const Level& level,
                                           const Phase& phase,
                                           Coverage& coverage, RowSpool& rows) {
  const std::string prefix = fmt::format("{}: {}", level.name, phase.name);
  MSITD_ASSIGN_OR_RETURN(const auto mapping, MatchPhase(level, phase, prefix));
  const auto add = [&](const v1::ComparisonRow& row) -> absl::Status {
    coverage.Add(row);
    if (!row.has_golden() || !row.has_target()) return absl::OkStatus();
    RowSpool::Row place;
    place.token = row.token();
    place.key = OrderOf(row, level);
    return rows.Add(std::move(place), row.SerializeAsString());
  };
  RopeSlices ropes(golden_, my_, my_.about.kind == trees::TreeKind::kAtb);
  if (mapping.has_value()) FindRopes(*mapping, phase, ropes);
  if (has_atb() && mapping->pair_count == 0) {
    for (const match::LeftTensors& left : mapping->left) coverage.AddLeft(left);
    return ropes.Compare(interrupts_, add);
  }
  v1::Comparison comparison;
  FitCards(comparison);
  if (phase.graph.has_value()) {
    v1::TokenRange& tokens = *comparison.mutable_filter()->add_tokens();
    tokens.set_first(phase.first_token);
    tokens.set_last(phase.last_token);
  }
  MSITD_RETURN_IF_ERROR(runs_->Compare(
      kGoldenRun, kMyRun, mapping.has_value() ? &*mapping : nullptr, comparison,
      [&](const v1::Comparison&, const v1::ComparisonRow& row) {
        const bool is_left_out = !IsOfLevel(row, level) || ropes.Has(row);
        return is_left_out ? absl::OkStatus() : add(row);
      }));
  return ropes.Compare(interrupts_, add);
}

void LevelComparison::FindRopes(const match::Mapping& mapping,
                                const Phase& phase, RopeSlices& ropes) const {
  const bool is_beside_torch = golden_.about.kind != my_.about.kind;
  if (options_.compares_statistics || !is_beside_torch) return;
  for (const match::RopeOps& ops : mapping.ropes) {
    for (const int64_t token : my_.tokens) {
      if (token < phase.first_token || token > phase.last_token) continue;
      ropes.Find(ops, token);
    }
  }
}

absl::Status LevelComparison::CompareLevel(const Level& level,
                                           ask::TableSchema& schema,
                                           ask::TableSink& table) {
  const std::string prefix = fmt::format("{}: ", level.name);
  Coverage& coverage = coverages_.emplace_back(prefix, Coverage()).second;
  const bool has_layers = golden_.types.has_layers() || my_.types.has_layers();
  if (!has_atb() && !has_layers && level.level != ModuleLevel::kApi) {
    log_.Warning(fmt::format("{}{}", prefix, match::kFewLayers));
  }
  MSITD_ASSIGN_OR_RETURN(RowSpool rows, RowSpool::Make());
  for (const Phase& phase : Phases()) {
    const auto& tokens = my_.tokens;
    const auto first = tokens.lower_bound(phase.first_token);
    if (first == tokens.end() || *first > phase.last_token) continue;
    MSITD_RETURN_IF_ERROR(ComparePhase(level, phase, coverage, rows));
  }
  if (!has_atb()) TellOfLeft(coverage.left(), prefix, log_);
  std::stable_sort(rows.rows().begin(), rows.rows().end(),
                   [](const RowSpool::Row& a, const RowSpool::Row& b) {
                     return std::tie(a.token, a.key) < std::tie(b.token, b.key);
                   });
  std::string bytes;
  v1::ComparisonRow row;
  for (const RowSpool::Row& place : rows.rows()) {
    MSITD_RETURN_IF_ERROR(rows.Read(place, bytes));
    if (!row.ParseFromString(bytes)) {
      return MakeStatus(absl::StatusCode::kDataLoss, "a row was not kept");
    }
    MSITD_RETURN_IF_ERROR(AddRow(row, schema, table));
  }
  return absl::OkStatus();
}

absl::Status LevelComparison::AddRow(const v1::ComparisonRow& row,
                                     ask::TableSchema& schema,
                                     ask::TableSink& table) {
  const TensorPlace golden = golden_.PlaceOf(row.golden());
  const TensorPlace my = my_.PlaceOf(row.target());
  RowSink sink(golden, my, options_.compares_statistics ? nullptr : &columns_,
               options_.is_compat ? "" : ReasonOf(row), table);
  return schema.Add(row, sink);
}

std::unique_ptr<ask::TableSchema> LevelComparison::MakeSchema() const {
  const report::MsitSides sides = [this](const v1::ComparedTensor& side,
                                         bool is_golden) {
    return About(side, is_golden);
  };
  if (options_.compares_statistics) {
    return MakeStatisticsSchema(options_.is_compat, sides);
  }
  return report::MakeMsitSchema(
      /*keeps_all=*/options_.level.empty() || !options_.is_compat, sides);
}

absl::StatusOr<std::string> LevelComparison::Save() {
  MSITD_RETURN_IF_ERROR(MakeReportFolder(options_.output));
  std::vector<Level> levels(kLevels.begin(), kLevels.end());
  const bool is_of_statistics = options_.compares_statistics;
  const bool is_csv = is_of_statistics || !options_.level.empty();
  if (is_csv) {
    const std::string_view wanted =
        is_of_statistics || options_.level == "logits"
            ? "api"
            : std::string_view(options_.level);
    std::erase_if(
        levels, [wanted](const Level& level) { return level.name != wanted; });
  }
  return WriteReportFile(
      options_.output,
      (is_of_statistics ? "statstics_cmp_report_" : "msit_cmp_report_") +
          UtcTimeStamp(),
      is_csv ? ".csv" : ".xlsx", [&](const ByteTake& take) -> absl::Status {
        const auto schema = MakeSchema();
        std::vector<std::string> names;
        for (const Level& level : levels) names.emplace_back(level.name);
        const auto table = is_csv ? ask::MakeCsvSink(take)
                                  : ask::MakeXlsxSheetsSink(take, names);
        std::vector<std::string> headings = schema->Begin(v1::Comparison());
        if (!is_of_statistics) columns_.AddHeadings(headings);
        for (const Level& level : levels) {
          MSITD_RETURN_IF_ERROR(table->Begin(headings));
          MSITD_RETURN_IF_ERROR(CompareLevel(level, *schema, *table));
        }
        return table->Finish();
      });
}

absl::Status LevelComparison::Run() {
  // A signal between two calls must not leave a store on the disk.
  const ask::Interrupts::Hold hold(interrupts_);
  MSITD_RETURN_IF_ERROR(golden_.Open(log_));
  MSITD_RETURN_IF_ERROR(my_.Open(log_));
  // msit checks only the last row.
  if (options_.compares_statistics && options_.is_compat &&
      golden_.about.kind == trees::TreeKind::kMsit) {
    golden_.batch->KeepLastOutputs();
  }
  if (!ChooseTokens()) return absl::OkStatus();
  MSITD_RETURN_IF_ERROR(Import());
  MSITD_ASSIGN_OR_RETURN(const std::string path, Save());
  log_.Info("Saved comparing results: " + path);
  for (const auto& [prefix, coverage] : coverages_) {
    if (coverage.pair_count() == 0) {
      log_.Warning(prefix + "no tensors correspond to each other");
    }
    coverage.Tell(prefix, "", log_);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CompareLevels(const LevelOptions& options,
                           ask::Interrupts& interrupts, Logger& log) {
  return LevelComparison(options, interrupts, log).Run();
}

}  // namespace msitd::msit_command
