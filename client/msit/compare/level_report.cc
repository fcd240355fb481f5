// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/level_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "client/import/formats/byte_source.h"
#include "client/import/trees/dump_processes.h"
#include "client/match/module_tree.h"
#include "client/msit/compare/batch_tree.h"
#include "client/msit/compare/coverage.h"
#include "client/msit/compare/custom_columns.h"
#include "client/msit/compare/folder_problems.h"
#include "client/msit/compare/run_pair.h"
#include "client/msit/compare/statistics_schema.h"
#include "client/msit/output_file.h"
#include "client/report/schema/schemas.h"
#include "client/report/table/sinks.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/resource_name.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

using match::ModuleLevel;

struct Level {
  std::string_view name;
  ModuleLevel level;
};
constexpr std::array kLevels = {Level{"layer", ModuleLevel::kLayer},
                                Level{"module", ModuleLevel::kModule},
                                Level{"api", ModuleLevel::kApi}};

constexpr char kModelTree[] = "model_tree.json";

bool IsFolder(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// Empty if there is none.
std::string ModelTreeText(const DumpSide& side) {
  if (side.kind != trees::TreeKind::kMsit) return "";
  const auto file = formats::FileSource::Open(side.folder + "/" + kModelTree);
  if (!file.ok()) return "";
  return (*file)->ReadText(0, (*file)->size()).value_or("");
}

// Brings the row of a pair to a table that goes on behind it.
class RowSink final : public ctl::TableSink {
 public:
  // Borrows all. `columns`: null for none.
  RowSink(const TensorPlace& golden, const TensorPlace& my,
          CustomColumns* columns, ctl::TableSink& table)
      : golden_(golden), my_(my), columns_(columns), table_(table) {}
  absl::Status Begin(const std::vector<std::string>&) override {
    return absl::OkStatus();
  }
  absl::Status Add(const ctl::Cells& cells) override {
    if (columns_ == nullptr) return table_.Add(cells);
    ctl::Cells more = cells;
    MSITD_RETURN_IF_ERROR(columns_->AddCells(golden_, my_, more));
    return table_.Add(more);
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const TensorPlace& golden_;
  const TensorPlace& my_;
  CustomColumns* const columns_;
  ctl::TableSink& table_;
};

// The types of modules by their names, and which of them are of which level.
class ModuleTypes {
 public:
  explicit ModuleTypes(const DumpSide& side) {
    if (side.kind != trees::TreeKind::kMsit) return;
    const auto tree = match::ParseModelTree(side.folder + "/" + kModelTree,
                                            ModelTreeText(side));
    status_ = tree.status();
    if (!tree.ok()) return;
    for (size_t i = 1; i < tree->size(); ++i) {
      types_[(*tree)[i].op] = (*tree)[i].type;
    }
    for (const size_t layer : tree->Layers()) {
      levels_[(*tree)[layer].op] = ModuleLevel::kLayer;
      for (const size_t child : (*tree)[layer].children) {
        levels_[(*tree)[child].op] = ModuleLevel::kModule;
      }
    }
  }

  std::string TypeOf(const std::string& op) const {
    const auto found = types_.find(op);
    if (found != types_.end()) return found->second;
    // `3_Prefill_layer/1_Attention` of the library.
    const size_t slash = op.rfind('/');
    const std::string last =
        slash == std::string::npos ? op : op.substr(slash + 1);
    const size_t digits = last.find_first_not_of("0123456789");
    const bool is_numbered =
        digits != 0 && digits != std::string::npos && last[digits] == '_';
    return is_numbered ? last.substr(digits + 1) : "";
  }

  // Nothing for an op that is not in the tree, and in a tree without layers.
  std::optional<ModuleLevel> LevelOf(const std::string& op) const {
    const auto found = levels_.find(op);
    if (found != levels_.end()) return found->second;
    if (levels_.empty() || !types_.contains(op)) return std::nullopt;
    return ModuleLevel::kApi;
  }

  // Why there are none, or OK.
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
  std::map<std::string, std::string> types_;
  std::map<std::string, ModuleLevel> levels_;
};

// A side: its tree, of which one process counts.
struct Side {
  DumpSide about;
  std::unique_ptr<trees::Tree> tree;
  std::optional<BatchTree> batch;
  ModuleTypes types;
  std::set<int64_t> tokens;

  explicit Side(const DumpSide& side) : about(side), types(side) {}
  absl::Status Open(Logger& log);
};

absl::Status Side::Open(Logger& log) {
  trees::TreeOptions options;
  options.kind = about.kind;
  MSITD_ASSIGN_OR_RETURN(tree, trees::OpenTree(about.folder, options));
  batch.emplace(*tree);
  if (!types.status().ok()) {
    log.Warning(
        fmt::format("{}; its modules have no types, and are of the "
                    "levels of the other side, or api",
                    Message(types.status())));
  }
  if (about.kind == trees::TreeKind::kAtb) batch->KeepFolder(about.process);
  if (about.token.has_value()) tree->KeepTokens({*about.token});
  // A tree of torch has the token of its documents too.
  const std::filesystem::path process(about.process);
  for (const int64_t token : tree->tokens()) {
    if (about.kind == trees::TreeKind::kAtb ||
        IsFolder(process / fmt::format("{}", token))) {
      tokens.insert(token);
    }
  }
  size_t others = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(process.parent_path(), error),
       end;
       !error && at != end; at.increment(error)) {
    if (trees::ParseProcessName(at->path().filename().string()).has_value() &&
        at->path() != process) {
      ++others;
    }
  }
  if (others > 0) {
    log.Warning(fmt::format("{} is compared, and none of the {} others there",
                            about.process, others));
  }
  return absl::OkStatus();
}

class LevelComparison {
 public:
  LevelComparison(const LevelOptions& options, ctl::Interrupts& interrupts,
                  Logger& log)
      : options_(options),
        interrupts_(interrupts),
        log_(log),
        golden_(options.golden),
        my_(options.my),
        columns_(*options.algorithms, options.is_compat) {}

  absl::Status Run();

 private:
  // False if there is nothing to compare.
  bool ChooseTokens();
  absl::Status Import();
  absl::Status ImportSide(const std::string& run, Side& side);
  absl::StatusOr<std::string> Save();
  absl::Status CompareLevel(const Level& level, ctl::TableSchema& schema,
                            ctl::TableSink& table);
  TensorPlace PlaceOf(const std::string& name, bool is_golden) const;
  ctl::MsitSide About(const std::string& name, bool is_golden) const;
  std::unique_ptr<ctl::TableSchema> MakeSchema() const;
  absl::Status AddRow(const v1::ComparisonRow& row, ctl::TableSchema& schema,
                      ctl::TableSink& table);
  bool IsOfLevel(const v1::ComparisonRow& row, const Level& level) const;
  bool has_atb() const {
    return golden_.about.kind == trees::TreeKind::kAtb ||
           my_.about.kind == trees::TreeKind::kAtb;
  }

  const LevelOptions& options_;
  ctl::Interrupts& interrupts_;
  Logger& log_;
  Side golden_;
  Side my_;
  CustomColumns columns_;
  std::unique_ptr<RunPair> runs_;
  // With the name of the level in front of what is told.
  std::vector<std::pair<std::string, Coverage>> coverages_;
};

bool LevelComparison::ChooseTokens() {
  std::set<int64_t> common;
  std::set_intersection(golden_.tokens.begin(), golden_.tokens.end(),
                        my_.tokens.begin(), my_.tokens.end(),
                        std::inserter(common, common.end()));
  if (!common.empty()) {
    golden_.tree->KeepTokens(common);
    my_.tree->KeepTokens(common);
    return true;
  }
  // Two tokens that the user names are compared, whatever they are.
  if (golden_.about.token.has_value() && my_.about.token.has_value() &&
      !golden_.tokens.empty() && !my_.tokens.empty()) {
    golden_.batch->CallToken(*my_.about.token);
    return true;
  }
  const auto list = [](const std::set<int64_t>& tokens) {
    return fmt::format("[{}]", fmt::join(tokens, ", "));
  };
  log_.Error(
      fmt::format("my tokens is {} and golden tokens is {}. The two "
                  "cannot be matched.",
                  list(my_.tokens), list(golden_.tokens)));
  return false;
}

absl::Status LevelComparison::ImportSide(const std::string& run, Side& side) {
  side.batch->BeginBatch(std::numeric_limits<int64_t>::max());
  MSITD_RETURN_IF_ERROR(
      runs_->Import(run, *side.batch, side.about.folder, log_));
  MSITD_RETURN_IF_ERROR(side.batch->status());
  // As a document it is of token 0, which may not be compared.
  const std::string tree = ModelTreeText(side.about);
  if (tree.empty()) return absl::OkStatus();
  return runs_->Attach(run, kModelTree, "application/json", tree);
}

absl::Status LevelComparison::Import() {
  MSITD_ASSIGN_OR_RETURN(runs_, RunPair::Start(interrupts_));
  MSITD_RETURN_IF_ERROR(ImportSide(kMyRun, my_));
  return ImportSide(kGoldenRun, golden_);
}

TensorPlace LevelComparison::PlaceOf(const std::string& name,
                                     bool is_golden) const {
  const Side& side = is_golden ? golden_ : my_;
  const auto key = ParseTensorName(name);
  if (!key.has_value()) return {};
  return {side.batch->files().Find(*key), *key};
}

ctl::MsitSide LevelComparison::About(const std::string& name,
                                     bool is_golden) const {
  const Side& side = is_golden ? golden_ : my_;
  const TensorPlace place = PlaceOf(name, is_golden);
  std::string path = place.file.path;
  const bool is_named = !place.key.op.empty();
  if (path.empty() && is_named && side.about.kind == trees::TreeKind::kMsit) {
    path = StatisticsPath(side.about, place.key, options_.is_compat);
  }
  return {path.empty() ? name : path, side.types.TypeOf(place.key.op)};
}

// Two torch models have no mapping that tells the levels apart. Those above the
// apis are compared by their outputs.
bool LevelComparison::IsOfLevel(const v1::ComparisonRow& row,
                                const Level& level) const {
  const bool is_argument =
      row.io() == v1::IO_INPUT || row.io() == v1::IO_OUTPUT;
  if (has_atb() || options_.compares_statistics || !is_argument) {
    return is_argument;
  }
  const Side& first = row.has_target() ? my_ : golden_;
  const Side& second = row.has_target() ? golden_ : my_;
  auto found = first.types.LevelOf(row.op());
  if (!found.has_value()) found = second.types.LevelOf(row.op());
  if (found.value_or(ModuleLevel::kApi) != level.level) return false;
  return level.level == ModuleLevel::kApi || row.io() == v1::IO_OUTPUT;
}

absl::Status LevelComparison::CompareLevel(const Level& level,
                                           ctl::TableSchema& schema,
                                           ctl::TableSink& table) {
  const std::string prefix = fmt::format("{}: ", level.name);
  Coverage& coverage = coverages_.emplace_back(prefix, Coverage()).second;
  std::optional<match::Mapping> mapping;
  if (has_atb()) {
    match::MatchOptions options;
    options.is_compat = options_.is_compat;
    options.level = level.level;
    options.op_mapping = options_.op_mapping;
    MSITD_RETURN_IF_ERROR(runs_->Match(
        kGoldenRun, kMyRun, match::Matcher::kTorchAtb, options, mapping));
    if (!mapping.has_value()) {
      return MakeStatus(absl::StatusCode::kInternal, "nothing was matched");
    }
    TellOfMapping(*mapping, /*self_compared_count=*/0, prefix, log_);
    if (mapping->pair_count == 0) {
      for (const match::LeftTensors& left : mapping->left) {
        coverage.AddLeft(left);
      }
      return absl::OkStatus();
    }
  }
  v1::Comparison comparison;
  MSITD_RETURN_IF_ERROR(runs_->Compare(
      kGoldenRun, kMyRun, mapping.has_value() ? &*mapping : nullptr, comparison,
      [&](const v1::Comparison&, const v1::ComparisonRow& row) {
        if (!IsOfLevel(row, level)) return absl::OkStatus();
        coverage.Add(row);
        return AddRow(row, schema, table);
      }));
  if (!mapping.has_value()) TellOfLeft(coverage.left(), prefix, log_);
  return absl::OkStatus();
}

absl::Status LevelComparison::AddRow(const v1::ComparisonRow& row,
                                     ctl::TableSchema& schema,
                                     ctl::TableSink& table) {
  const TensorPlace golden = PlaceOf(row.golden().name(), /*is_golden=*/true);
  const TensorPlace my = PlaceOf(row.target().name(), /*is_golden=*/false);
  RowSink sink(golden, my, options_.compares_statistics ? nullptr : &columns_,
               table);
  return schema.Add(row, sink);
}

std::unique_ptr<ctl::TableSchema> LevelComparison::MakeSchema() const {
  const ctl::MsitSides sides = [this](const v1::ComparedTensor& side,
                                      bool is_golden) {
    return About(side.name(), is_golden);
  };
  if (options_.compares_statistics) {
    return MakeStatisticsSchema(options_.is_compat, sides);
  }
  return ctl::MakeMsitSchema(
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
        const auto table = is_csv ? ctl::MakeCsvSink(take)
                                  : ctl::MakeXlsxSheetsSink(take, names);
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
  // A signal between two calls must not leave the store behind.
  const ctl::Interrupts::Hold hold(interrupts_);
  MSITD_RETURN_IF_ERROR(golden_.Open(log_));
  MSITD_RETURN_IF_ERROR(my_.Open(log_));
  // msit looks at the last row alone.
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
      log_.Warning(prefix + "nothing belongs together");
    }
    coverage.Tell(prefix, "", log_);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CompareLevels(const LevelOptions& options,
                           ctl::Interrupts& interrupts, Logger& log) {
  return LevelComparison(options, interrupts, log).Run();
}

}  // namespace msitd::msit
