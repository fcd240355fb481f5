// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/mindie_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/ask/text/policy_text.h"
#include "client/ask/text/text.h"
#include "client/foreign/match/mindie.h"
#include "client/foreign/trees/tree.h"
#include "client/msit/compare/batch_tree.h"
#include "client/msit/compare/coverage.h"
#include "client/msit/compare/folder_problems.h"
#include "client/msit/compare/row_spool.h"
#include "client/msit/compare/run_pair.h"
#include "client/msit/table/output_file.h"
#include "client/msit/table/report_row.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/attachment_limits.h"
#include "protos/base/resource_name.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr char kRtMapping[] = "mindie_rt_op_mapping.json";
constexpr char kTorchMapping[] = "mindie_torch_op_mapping.json";
constexpr char kReport[] = "comparison_results.csv";
constexpr char kOpMap[] = "op_map_updated.json";
constexpr std::string_view kRoot = "root.";

// The line end of Python's csv module.
constexpr char kLineEnd[] = "\r\n";

struct MappingTexts {
  std::string rt;
  std::string torch;
};

absl::StatusOr<MappingTexts> ReadMappings(const std::string& folder) {
  MappingTexts out;
  for (const auto& [name, text] :
       {std::pair(kRtMapping, &out.rt), std::pair(kTorchMapping, &out.torch)}) {
    auto read = ask::ReadTextFile(folder + "/" + name, kAttachmentBytesMax);
    if (!read.ok()) {
      return MakeStatus(absl::StatusCode::kNotFound,
                        "--ops-json: {}/{}: {}; without both mappings of "
                        "MindIE Torch, msit debug compare requires CANN",
                        folder, name, Message(read.status()));
    }
    *text = *std::move(read);
  }
  return out;
}

void Replace(std::string& text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

// Returns the line that csv.DictWriter writes for a row of metrics.
std::string LineOf(const std::string& key, const ReportRow& row) {
  std::string reason = row.reason();
  Replace(reason, "golden_data", "cpu_data");
  Replace(reason, "my_data", "npu_data");
  std::vector<std::string> fields = {key};
  for (const std::string_view column : kMetricColumns) {
    std::string text = ask::TextOf(row.At(column));
    if (text.empty() && reason.empty()) text = "nan";
    fields.push_back(std::move(text));
  }
  fields.push_back(std::move(reason));
  std::string line = ask::CsvLine(fields, /*guards_formulas=*/false);
  line.pop_back();
  return line + kLineEnd;
}

std::string Header() {
  std::string line = "Key";
  for (const std::string_view column : kMetricColumns) {
    line += fmt::format(",{}", column);
  }
  return line + ",cmp_fail_reason" + kLineEnd;
}

class MindieComparison {
 public:
  MindieComparison(const MindieOptions& options, ask::Interrupts& interrupts,
                   Logger& log)
      : options_(options), interrupts_(interrupts), log_(log) {}

  absl::Status Run();

 private:
  absl::Status Open();
  void WriteOpMap(const match::MindieMapping& mapping);
  void ChooseTokens();
  absl::Status Import(const std::string& run, BatchTree& tree,
                      const std::string& root);
  absl::Status Compare();
  absl::Status AddRow(const v1::Comparison& comparison,
                      const v1::ComparisonRow& row);
  absl::Status Save();

  const MindieOptions& options_;
  ask::Interrupts& interrupts_;
  Logger& log_;
  MappingTexts texts_;
  // By the op of MindIE.
  std::unordered_map<std::string, size_t> groups_;
  std::unique_ptr<trees::Tree> golden_tree_;
  std::unique_ptr<trees::Tree> my_tree_;
  std::optional<BatchTree> golden_;
  std::optional<BatchTree> my_;
  bool has_tokens_ = false;
  std::unique_ptr<RunPair> runs_;
  std::optional<RowSpool> rows_;
  Coverage coverage_;
  int64_t left_out_count_ = 0;
};

absl::Status MindieComparison::Open() {
  MSITD_ASSIGN_OR_RETURN(texts_, ReadMappings(options_.mapping_folder));
  MSITD_ASSIGN_OR_RETURN(const match::MindieMapping mapping,
                         match::ParseMindieMapping(texts_.rt, texts_.torch));
  for (size_t i = 0; i < mapping.groups.size(); ++i) {
    groups_.try_emplace(mapping.groups[i].fusion_op, i);
  }
  WriteOpMap(mapping);
  trees::TreeOptions options;
  options.kind = trees::TreeKind::kMindie;
  options.mapping_folder = options_.mapping_folder;
  MSITD_ASSIGN_OR_RETURN(my_tree_, trees::OpenTree(options_.my, options));
  options = {.kind = trees::TreeKind::kMsit};
  MSITD_ASSIGN_OR_RETURN(golden_tree_,
                         trees::OpenTree(options_.golden, options));
  golden_.emplace(*golden_tree_);
  my_.emplace(*my_tree_);
  MSITD_ASSIGN_OR_RETURN(rows_, RowSpool::Make());
  return absl::OkStatus();
}

// Other users may have written the folder, and the report does not need the
// map.
void MindieComparison::WriteOpMap(const match::MindieMapping& mapping) {
  const std::string path = options_.mapping_folder + "/" + kOpMap;
  const absl::Status written =
      ReplaceReportFile(path, [&](const ByteTake& take) {
        return take(match::OpMapText(mapping, options_.is_compat));
      });
  if (written.ok()) return;
  log_.Warning(fmt::format("{} was not written: {}", path, Message(written)));
}

// The folder of one golden token is paired with the first token of MindIE if
// MindIE has no such token.
void MindieComparison::ChooseTokens() {
  const std::set<int64_t> golden = golden_tree_->tokens();
  const std::set<int64_t> my = my_tree_->tokens();
  std::set<int64_t> common;
  std::set_intersection(golden.begin(), golden.end(), my.begin(), my.end(),
                        std::inserter(common, common.end()));
  if (common.empty() && golden.size() == 1 && !my.empty()) {
    common = {*my.begin()};
    log_.Warning(fmt::format("golden token {} is compared with my token {}",
                             *golden.begin(), *my.begin()));
    golden_->CallToken(*my.begin());
  } else {
    golden_tree_->KeepTokens(common);
  }
  my_tree_->KeepTokens(common);
  has_tokens_ = common.size() > 1;
  for (const int64_t token : my) {
    if (common.contains(token)) continue;
    log_.Warning(fmt::format("my token {} is not compared", token));
  }
}

absl::Status MindieComparison::Import(const std::string& run, BatchTree& tree,
                                      const std::string& root) {
  tree.BeginBatch(std::numeric_limits<int64_t>::max());
  MSITD_RETURN_IF_ERROR(runs_->Import(run, tree, root, log_));
  return tree.status();
}

absl::Status MindieComparison::AddRow(const v1::Comparison& comparison,
                                      const v1::ComparisonRow& row) {
  coverage_.Add(row);
  if (!row.has_golden() || !row.has_target()) return absl::OkStatus();
  const auto golden = ParseTensorName(row.golden().name());
  const auto my = ParseTensorName(row.target().name());
  if (!golden.has_value() || !my.has_value()) return absl::OkStatus();
  MSITD_ASSIGN_OR_RETURN(const ReportRow cells, MakeReportRow(comparison, row));
  const bool shapes_differ = ask::TextOf(cells.At("golden_shape")) !=
                             ask::TextOf(cells.At("my_shape"));
  if (options_.is_compat && shapes_differ) {
    ++left_out_count_;
    return absl::OkStatus();
  }
  std::string key = golden->op;
  if (key.starts_with(kRoot)) key.erase(0, kRoot.size());
  if (my->io != Io::kOutput || my->index != "0") {
    key += fmt::format(".{}.{}", IoName(my->io), my->index);
  }
  if (golden->call > 0) key += fmt::format(" call {}", golden->call);
  if (has_tokens_) key += fmt::format(" token {}", my->token);
  RowSpool::Row made;
  made.token = my->token;
  // The name of an op begins with its model if there are several.
  const auto group = groups_.find(my->op.substr(my->op.rfind('/') + 1));
  const auto whole = groups_.find(my->op);
  const auto found = whole != groups_.end() ? whole : group;
  made.id = found == groups_.end() ? std::numeric_limits<int64_t>::max()
                                   : static_cast<int64_t>(found->second);
  return rows_->Add(std::move(made), LineOf(key, cells));
}

absl::Status MindieComparison::Compare() {
  match::MatchOptions options;
  options.is_compat = options_.is_compat;
  MSITD_ASSIGN_OR_RETURN(
      const match::Mapping mapping,
      runs_->Match(kGoldenRun, kMyRun, match::Matcher::kMindie, options));
  TellOfMapping(mapping, /*self_compared_count=*/0, "", log_);
  if (mapping.pair_count == 0) {
    for (const match::LeftTensors& left : mapping.left) {
      coverage_.AddLeft(left);
    }
    return absl::OkStatus();
  }
  v1::Comparison comparison;
  return runs_->Compare(
      kGoldenRun, kMyRun, &mapping, comparison,
      [this](const v1::Comparison& so_far, const v1::ComparisonRow& row) {
        return AddRow(so_far, row);
      });
}

absl::Status MindieComparison::Save() {
  std::vector<RowSpool::Row>& rows = rows_->rows();
  log_.Info(fmt::format("{} tensors were matched in total.", rows.size()));
  coverage_.Tell("", fmt::format(", {} rows left out", left_out_count_), log_);
  if (rows.empty()) {
    log_.Info("There is no comparison data to save.");
    return absl::OkStatus();
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::tie(a.id, a.token) < std::tie(b.id, b.token);
  });
  MSITD_RETURN_IF_ERROR(MakeReportFolder(options_.output));
  const std::string path = options_.output + "/" + kReport;
  MSITD_RETURN_IF_ERROR(ReplaceReportFile(
      path, [this, &rows](const ByteTake& take) -> absl::Status {
        MSITD_RETURN_IF_ERROR(take(Header()));
        std::string line;
        for (const RowSpool::Row& row : rows) {
          MSITD_RETURN_IF_ERROR(rows_->Read(row, line));
          MSITD_RETURN_IF_ERROR(take(line));
        }
        return absl::OkStatus();
      }));
  log_.Info(fmt::format("compare resut has been saved on {} .", Quoted(path)));
  return absl::OkStatus();
}

absl::Status MindieComparison::Run() {
  // A signal between two calls must not leave a store on the disk.
  const ask::Interrupts::Hold hold(interrupts_);
  MSITD_RETURN_IF_ERROR(Open());
  ChooseTokens();
  MSITD_ASSIGN_OR_RETURN(runs_, RunPair::Start(interrupts_));
  MSITD_RETURN_IF_ERROR(Import(kMyRun, *my_, options_.my));
  MSITD_RETURN_IF_ERROR(Import(kGoldenRun, *golden_, options_.golden));
  MSITD_RETURN_IF_ERROR(Compare());
  return Save();
}

}  // namespace

absl::Status CompareMindie(const MindieOptions& options,
                           ask::Interrupts& interrupts, Logger& log) {
  MindieOptions real = options;
  real.golden = AbsolutePath(options.golden);
  real.my = AbsolutePath(options.my);
  real.output = AbsolutePath(options.output);
  MSITD_RETURN_IF_ERROR(Annotate(CheckReportFolder(real.output), "--output"));
  return MindieComparison(real, interrupts, log).Run();
}

}  // namespace msitd::msit_command
