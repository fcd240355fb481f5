// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/rank_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <thread>
#include <utility>

#include "client/ask/report/table/table.h"
#include "client/foreign/formats/byte_source.h"
#include "client/foreign/match/ge/models.h"
#include "client/foreign/match/graph_text.h"
#include "client/foreign/report/foreign_schemas.h"
#include "client/foreign/trees/file_name.h"
#include "client/foreign/trees/ge/ge_place.h"
#include "client/msit/compare/folder_problems.h"
#include "client/msit/table/output_file.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/resource_name.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

// Warnings of one kind that are printed individually.
constexpr size_t kMissingWarningsMax = 10000;

// The prefix of the file of a fused op.
constexpr char kFusedOp[] = "AutomaticBufferFusionOp";

// The beginnings of the names of reports, and of tables with the rest.
constexpr std::string_view kReportPrefix = "msit_cmp_report_";
constexpr std::string_view kNotComparedPrefix = "msit_not_compared_";

// The position in msit's 24 columns.
constexpr size_t kMyPathColumn = 9;
constexpr size_t kReasonColumn = 23;

// Outputs of an op whose paths are listed individually.
constexpr uint64_t kOutputsMax = 1024;

// Passes rows from the schema to a report.
class ReportSink final : public ask::TableSink {
 public:
  // Borrows all arguments.
  ReportSink(const TensorPlace& golden, const TensorPlace& my,
             CustomColumns& columns, GraphReport& report)
      : golden_(golden), my_(my), columns_(columns), report_(report) {}
  absl::Status Begin(const std::vector<std::string>&) override {
    return absl::OkStatus();
  }
  absl::Status Add(const ask::Cells& cells) override {
    if (columns_.empty()) return report_.Add(cells);
    ask::Cells more = cells;
    MSITD_RETURN_IF_ERROR(columns_.AddCells(golden_, my_, more));
    return report_.Add(more);
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  const TensorPlace& golden_;
  const TensorPlace& my_;
  CustomColumns& columns_;
  GraphReport& report_;
};

uint64_t NumberIn(std::string_view text) {
  const size_t digit = text.find_first_of("0123456789");
  if (digit == std::string_view::npos) return 0;
  uint64_t out = 0;
  std::from_chars(text.data() + digit, text.data() + text.size(), out);
  return out;
}

std::vector<std::string> FoldersOf(const std::string& file) {
  std::vector<std::string> out;
  for (const auto& part : std::filesystem::path(file).parent_path()) {
    out.push_back(part.string());
  }
  return out;
}

// Returns the keys of a dictionary in Python's format.
std::string DictKeys(const std::set<int64_t>& keys) {
  return fmt::format("dict_keys([{}])", fmt::join(keys, ", "));
}

// Returns a list of texts in Python's format.
std::string PythonList(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(Quoted(text));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

absl::StatusOr<std::unique_ptr<trees::Tree>> OpenSide(
    const std::string& path, const trees::TreeOptions& options) {
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<trees::Tree> tree,
                         trees::OpenTree(path, options));
  if (tree->ranks().size() <= 1) return tree;
  return MakeStatus(
      absl::StatusCode::kInvalidArgument,
      "{} has ranks {}, but the other side has no folders of ranks: pass the "
      "folder of one rank, worldsize<W>_global_rank<R>",
      path, fmt::join(tree->ranks(), ", "));
}

// Returns the path that msit writes for an op of a golden GE dump: inputs have
// no number unless my op is fused, and outputs are listed one after another.
std::string PathAsMsit(const std::string& file, const TensorKey& key,
                       bool is_fused) {
  if (key.io == Io::kInput) {
    return is_fused ? fmt::format("{},inputs,{}", file, key.index) : file;
  }
  std::string out = file + ",inputs,0";
  for (uint64_t i = 0; i <= NumberIn(key.index); ++i) {
    out += fmt::format(",outputs,{}", i);
    if (i == kOutputsMax) break;
  }
  return out;
}

// Adds the ops of a text that are not in `places`.
void AddPlaces(const std::string& graph_file, OpPlaces& places) {
  const auto file = formats::FileSource::Open(graph_file);
  if (!file.ok()) return;
  const auto text = (*file)->ReadText(0, (*file)->size());
  if (!text.ok()) return;
  for (match::GraphOp& op : match::ParseGraphText(*text).graph.ops) {
    places.emplace(std::move(op.name), places.size());
  }
}

// Returns the daemon's reason for a row with one side in the words of this
// report. The daemon's words are about the mapping, which users do not see.
std::string PlainReason(std::string reason, bool is_golden, int64_t call) {
  const std::string_view other = is_golden ? "my" : "golden";
  if (reason.ends_with("what the mapping pairs it with is not there")) {
    if (call == 0) {
      return fmt::format("its {} tensor was not recorded in this token", other);
    }
    return fmt::format("the {} side has fewer dumps of the op in this token",
                       other);
  }
  if (!reason.ends_with("not in the mapping")) return reason;
  return fmt::format("no {} tensor corresponds to it", other);
}

// Returns the name of an op in the graph, without the model before it.
std::string_view InGraph(std::string_view op, const trees::GePlace& place) {
  const std::string model = fmt::format("{}/{}/", place.model, place.model_id);
  if (op.starts_with(model)) op.remove_prefix(model.size());
  return op;
}

}  // namespace

RankComparison::RankComparison(RankOptions options, ask::Interrupts& interrupts,
                               Logger& log)
    : options_(std::move(options)),
      interrupts_(interrupts),
      log_(log),
      columns_(*options_.algorithms, options_.is_compat) {}

RankComparison::~RankComparison() = default;

absl::Status RankComparison::OpenTrees(bool names_graphs) {
  trees::TreeOptions options;
  options.kind = trees::TreeKind::kGe;
  options.names_graphs = names_graphs;
  options.devices_are_ranks = options_.device_rank.has_value();
  options.device_rank = options_.device_rank;
  MSITD_ASSIGN_OR_RETURN(my_tree_, OpenSide(options_.my, options));
  if (options_.is_golden_fx) options.kind = trees::TreeKind::kFx;
  MSITD_ASSIGN_OR_RETURN(golden_tree_, OpenSide(options_.golden, options));
  return absl::OkStatus();
}

bool RankComparison::HasSeveralGraphs() const {
  std::set<std::optional<uint64_t>> numbers;
  for (const trees::Tree* tree : {my_tree_.get(), golden_tree_.get()}) {
    const std::set<std::string> graphs = tree->graphs();
    if (graphs.size() > 1) return true;
    for (const std::string& graph : graphs) {
      numbers.insert(match::NumberOfGraph(graph.substr(0, graph.find('/'))));
    }
  }
  for (const std::string& file : options_.graph_files) {
    numbers.insert(match::NumberOfGraphFile(file));
  }
  return numbers.size() > 1;
}

absl::Status RankComparison::Open() {
  MSITD_RETURN_IF_ERROR(OpenTrees(/*names_graphs=*/false));
  if (!options_.is_compat && HasSeveralGraphs()) {
    MSITD_RETURN_IF_ERROR(OpenTrees(/*names_graphs=*/true));
  }
  my_tokens_ = my_tree_->tokens();
  golden_tokens_ = golden_tree_->tokens();
  std::set_intersection(my_tokens_.begin(), my_tokens_.end(),
                        golden_tokens_.begin(), golden_tokens_.end(),
                        std::inserter(common_tokens_, common_tokens_.end()));
  my_tree_->KeepTokens(common_tokens_);
  golden_tree_->KeepTokens(common_tokens_);
  my_.emplace(*my_tree_);
  golden_.emplace(*golden_tree_);
  log_.Info(fmt::format(
      "[compare_torchair], golden_path: {}, my_path: {}, ge_graph_path: {}",
      options_.golden, options_.my, PythonList(options_.graph_files)));
  log_.Info(options_.is_golden_fx ? "Comparing GE with FX"
                                  : "Comparing GE with GE");
  schema_ = report::MakeMsitSchema(
      /*keeps_all=*/true,
      [this](const v1::ComparedTensor& /*side*/, bool is_golden) {
        return report::MsitSide{PathOf(is_golden), ""};
      });
  headings_ = schema_->Begin(v1::Comparison());
  columns_.AddHeadings(headings_);
  MSITD_ASSIGN_OR_RETURN(not_compared_, NotCompared::Make(headings_));
  return absl::OkStatus();
}

absl::Status RankComparison::Run() {
  // A signal between two calls must not leave a store on the disk.
  const ask::Interrupts::Hold hold(interrupts_);
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<RunPair> runs, OpenAndStart());
  while (!my_->is_over() && !common_tokens_.empty()) {
    if (runs == nullptr) {
      MSITD_ASSIGN_OR_RETURN(runs, RunPair::Start(interrupts_));
    }
    MSITD_RETURN_IF_ERROR(CompareBatch(*runs));
    // The store is removed before the next one is created.
    runs.reset();
  }
  return SaveReports();
}

absl::StatusOr<std::unique_ptr<RunPair>> RankComparison::OpenAndStart() {
  absl::Status opened;
  std::thread opener =
      StartSpareThread("open", [this, &opened] { opened = Open(); });
  auto runs = RunPair::Start(interrupts_);
  if (opener.joinable()) {
    opener.join();
  } else {
    opened = Open();
  }
  MSITD_RETURN_IF_ERROR(opened);
  return runs;
}

absl::Status RankComparison::CompareBatch(RunPair& runs) {
  self_compared_.clear();
  folders_.clear();
  TokenGate gate;
  my_->LeadBatch(gate);
  golden_->FollowBatch(gate);
  MSITD_RETURN_IF_ERROR(runs.ImportBoth(
      {kMyRun, &*my_, options_.my}, {kGoldenRun, &*golden_, options_.golden},
      [&gate] { gate.Finish(); }, log_));
  MSITD_RETURN_IF_ERROR(my_->status());
  MSITD_RETURN_IF_ERROR(golden_->status());
  MSITD_RETURN_IF_ERROR(AddProblemRows(runs));
  if (!my_->last_token().has_value()) return absl::OkStatus();
  if (!options_.is_golden_fx) {
    return CompareRuns(runs, kGoldenRun, match::Matcher::kGeGe);
  }
  // Ops that GE inserted have no counterpart and are compared with themselves.
  MSITD_RETURN_IF_ERROR(CompareRuns(runs, kMyRun, match::Matcher::kGeSelf));
  return CompareRuns(runs, kGoldenRun, match::Matcher::kGeFx);
}

absl::Status RankComparison::CompareRuns(RunPair& runs,
                                         const std::string& golden,
                                         match::Matcher matcher) {
  is_self_ = golden == kMyRun;
  match::MatchOptions options;
  options.is_compat = options_.is_compat;
  MSITD_ASSIGN_OR_RETURN(const match::Mapping mapping,
                         runs.Match(golden, kMyRun, matcher, options));
  if (is_self_) {
    self_compared_count_ = 2 * mapping.pair_count;
  } else {
    TellOfMapping(mapping, self_compared_count_, "", log_);
    WarnOfMissing(mapping);
  }
  if (mapping.pair_count == 0) {
    if (is_self_) return absl::OkStatus();
    for (const auto& left : LeftOf(mapping, self_compared_count_)) {
      coverage_.AddLeft(left);
    }
    return absl::OkStatus();
  }
  v1::Comparison comparison;
  return runs.Compare(
      golden, kMyRun, &mapping, comparison,
      [this](const v1::Comparison& so_far, const v1::ComparisonRow& row) {
        Count(row);
        return AddRow(so_far, row);
      });
}

void RankComparison::Count(const v1::ComparisonRow& row) {
  const bool is_pair = row.has_golden() && row.has_target();
  if (is_self_ && is_pair) {
    self_compared_.insert(row.golden().name());
    self_compared_.insert(row.target().name());
  }
  const bool is_told = self_compared_.contains(row.target().name());
  if (is_self_ ? is_pair : is_pair || !is_told) coverage_.Add(row);
}

// An op is not missing if some of its tensors have a golden tensor.
void RankComparison::WarnOfMissing(const match::Mapping& mapping) {
  for (const match::Line& line : mapping.lines) {
    if (line.pair_count > 0 || !line.target.has_value() ||
        !line.golden.has_value() || warned_.size() >= kMissingWarningsMax) {
      continue;
    }
    std::string text =
        options_.is_golden_fx
            ? fmt::format(
                  "FX data missing, GE tensor name: {}, FX tensor name: {}",
                  line.target->op, line.golden->op)
            : fmt::format("Golden data missing, My tensor name: {}",
                          line.target->op);
    if (warned_.insert(text).second) log_.Warning(text);
  }
}

absl::StatusOr<RankComparison::Graph*> RankComparison::GraphOfFile(
    const trees::GePlace& place) {
  const GraphKey key = {NumberIn(place.device), NumberIn(place.model_id),
                        place.model};
  auto found = graphs_.find(key);
  if (found == graphs_.end()) {
    MSITD_ASSIGN_OR_RETURN(GraphReport report,
                           GraphReport::Make(headings_, options_.is_compat));
    found = graphs_.emplace(key, Graph{std::move(report), {}}).first;
  }
  return &found->second;
}

absl::Status RankComparison::ListProblem(bool is_golden,
                                         const std::string& file,
                                         const std::string& reason) {
  NotCompared::Tensor about;
  about.is_golden = is_golden;
  about.path = file;
  about.reason =
      fmt::format("{}: {}", is_golden ? "golden_data" : "my_data", reason);
  // The folders of FX have different meanings.
  if (!is_golden || !options_.is_golden_fx) {
    about.token = trees::GePlaceOf(FoldersOf(file)).token;
  }
  return not_compared_->AddRow(about);
}

absl::Status RankComparison::AddProblemRows(const RunPair& runs) {
  for (const auto& problem : runs.ProblemsOf(kGoldenRun)) {
    MSITD_RETURN_IF_ERROR(
        ListProblem(/*is_golden=*/true, problem.file, problem.reason));
  }
  for (const auto& problem : runs.ProblemsOf(kMyRun)) {
    // msit ends here.
    if (options_.is_compat) {
      MSITD_RETURN_IF_ERROR(
          ListProblem(/*is_golden=*/false, problem.file, problem.reason));
      continue;
    }
    const std::string name = problem.file.substr(problem.file.rfind('/') + 1);
    const auto parsed = trees::ParseGeFileName(name);
    const trees::GePlace place = trees::GePlaceOf(FoldersOf(problem.file));
    if (!parsed.has_value() || !common_tokens_.contains(place.token)) continue;
    MSITD_ASSIGN_OR_RETURN(Graph* const graph, GraphOfFile(place));
    graph->tokens.insert(place.token);
    graph->report.SetOp(place.token, parsed->op_name, name);
    ask::Cells cells(headings_.size());
    cells[kMyPathColumn] = problem.file;
    cells[kReasonColumn] = "my_data: " + problem.reason;
    MSITD_RETURN_IF_ERROR(graph->report.Add(cells));
  }
  return absl::OkStatus();
}

std::string RankComparison::PrefixOf(const GraphKey& key) const {
  const auto& [device, model_id, model] = key;
  if (options_.is_compat || graphs_.size() < 2) return options_.report_prefix;
  return options_.report_prefix +
         (model.empty() ? fmt::format("graph_{}", model_id) : model) + "_";
}

absl::StatusOr<const RankComparison::Folder*> RankComparison::FolderOf(
    const std::string& file) {
  const std::string path = file.substr(0, file.rfind('/') + 1);
  auto found = folders_.find(path);
  if (found == folders_.end()) {
    Folder folder{.place = trees::GePlaceOf(FoldersOf(file))};
    MSITD_ASSIGN_OR_RETURN(folder.graph, GraphOfFile(folder.place));
    found = folders_.emplace(path, std::move(folder)).first;
  }
  return &found->second;
}

absl::StatusOr<RankComparison::Graph*> RankComparison::GraphOf(
    const TensorPlace& mine) {
  const std::string& file = mine.file.path;
  MSITD_ASSIGN_OR_RETURN(const Folder* const folder, FolderOf(file));
  Graph& graph = *folder->graph;
  graph.tokens.insert(mine.key.token);
  const std::string name = file.substr(file.rfind('/') + 1);
  is_fused_ = name.starts_with(kFusedOp);
  graph.report.SetOp(mine.key.token, InGraph(mine.key.op, folder->place), name);
  return &graph;
}

TensorPlace RankComparison::PlaceOf(bool is_golden, TensorKey key) const {
  const bool is_mine = !is_golden || is_self_;
  FileIndex::File file = (is_mine ? *my_ : *golden_).files().Find(key);
  return {std::move(file), std::move(key)};
}

std::string RankComparison::PathOf(bool is_golden) const {
  const TensorPlace& place = is_golden ? row_golden_ : row_my_;
  if (place.file.path.empty()) return FormatTensorName(place.key);
  if (!is_golden || is_self_ || !options_.is_compat) {
    return MsitPath(place.file, place.key);
  }
  return place.file.is_shared
             ? PathAsMsit(place.file.path, place.key, is_fused_)
             : place.file.path;
}

OpPlaces RankComparison::PlacesOf(const GraphKey& key, size_t number) const {
  OpPlaces places;
  const auto graph = match::NumberOfGraph(std::get<std::string>(key));
  for (size_t i = 0; i < options_.graph_files.size(); ++i) {
    const auto of_file = match::NumberOfGraphFile(options_.graph_files[i]);
    const bool has_numbers =
        !options_.is_compat && graph.has_value() && of_file.has_value();
    if (has_numbers ? of_file == graph : i == number) {
      AddPlaces(options_.graph_files[i], places);
    }
  }
  return places;
}

absl::Status RankComparison::AddUnmatched(const v1::ComparisonRow& row) {
  const bool is_golden = row.has_golden();
  const std::string& name =
      is_golden ? row.golden().name() : row.target().name();
  // Conversions are compared with themselves.
  if (is_self_ || row.verdict() != v1::UNMATCHED ||
      self_compared_.contains(name)) {
    return absl::OkStatus();
  }
  if (!is_golden && !options_.is_golden_fx) {
    const std::string text =
        fmt::format("Golden data missing, My tensor name: {}", row.op());
    if (warned_.size() < kMissingWarningsMax && warned_.insert(text).second) {
      log_.Warning(text);
    }
  }
  auto key = ParseTensorName(name);
  if (!key.has_value()) return absl::OkStatus();
  const TensorPlace place = PlaceOf(is_golden, *std::move(key));
  return not_compared_->Add(
      {.token = place.key.token,
       .is_golden = is_golden,
       .op = place.key.op,
       .call = place.key.call,
       .path = place.file.path.empty() ? name : MsitPath(place.file, place.key),
       .reason = PlainReason(row.reason(), is_golden, place.key.call)});
}

absl::Status RankComparison::AddRow(const v1::Comparison& /*comparison*/,
                                    const v1::ComparisonRow& row) {
  if (!row.has_golden() || !row.has_target()) return AddUnmatched(row);
  auto golden_key = ParseTensorName(row.golden().name());
  auto key = ParseTensorName(row.target().name());
  if (!golden_key.has_value() || !key.has_value()) {
    return MakeStatus(absl::StatusCode::kInternal,
                      "{} or {} does not name a tensor", row.golden().name(),
                      row.target().name());
  }
  row_golden_ = PlaceOf(/*is_golden=*/true, *std::move(golden_key));
  row_my_ = PlaceOf(/*is_golden=*/false, *std::move(key));
  MSITD_ASSIGN_OR_RETURN(Graph* const graph, GraphOf(row_my_));
  ReportSink sink(row_golden_, row_my_, columns_, graph->report);
  return schema_->Add(row, sink);
}

void RankComparison::TellOfTokens(const Graph& graph) const {
  std::set<int64_t> mine = graph.tokens;
  for (const int64_t token : my_tokens_) {
    if (graphs_.size() == 1 || !common_tokens_.contains(token)) {
      mine.insert(token);
    }
  }
  log_.Info("All token ids in my_dump_data: " + DictKeys(mine));
  log_.Info("All token ids in golden_dump_data: " + DictKeys(golden_tokens_));
  for (const int64_t token : mine) {
    if (common_tokens_.contains(token)) {
      log_.Info(fmt::format("Comparing token_id: {}", token));
    } else {
      log_.Warning(
          fmt::format("My token_id {} not found in golden dump data", token));
    }
  }
}

absl::Status RankComparison::SaveReports() {
  if (graphs_.empty()) {
    MSITD_ASSIGN_OR_RETURN(GraphReport report,
                           GraphReport::Make(headings_, options_.is_compat));
    graphs_.emplace(GraphKey(), Graph{std::move(report), common_tokens_});
  }
  MSITD_RETURN_IF_ERROR(MakeReportFolder(options_.output));
  const std::string time = UtcTimeStamp();
  size_t number = 0;
  int64_t next_id = 0;
  for (auto& [key, graph] : graphs_) {
    TellOfTokens(graph);
    MSITD_ASSIGN_OR_RETURN(
        const std::string path,
        graph.report.Save(options_.output, PrefixOf(key) + time,
                          PlacesOf(key, number++), next_id,
                          [this](int64_t token, std::string_view line) {
                            return not_compared_->AddOmitted(token, line);
                          }));
    log_.Info("Saved comparing results: " + path);
  }
  for (const int64_t token : golden_tokens_) {
    if (my_tokens_.contains(token)) continue;
    log_.Warning(
        fmt::format("Golden token_id {} not found in my dump data", token));
  }
  std::string prefix = options_.report_prefix;
  if (prefix.starts_with(kReportPrefix)) {
    prefix.replace(0, kReportPrefix.size(), kNotComparedPrefix);
  }
  MSITD_RETURN_IF_ERROR(
      not_compared_->Save(options_.output, prefix + time, log_));
  coverage_.Tell(
      "", fmt::format(", {} rows left out", not_compared_->omitted_count()),
      log_);
  return absl::OkStatus();
}

}  // namespace msitd::msit_command
