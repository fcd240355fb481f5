// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "client/ask/query/interrupts.h"
#include "client/foreign/match/match.h"
#include "client/foreign/trees/ge/ge_place.h"
#include "client/foreign/trees/tree.h"
#include "client/msit/command/logger.h"
#include "client/msit/compare/batch_tree.h"
#include "client/msit/compare/coverage.h"
#include "client/msit/compare/custom_columns.h"
#include "client/msit/compare/graph_report.h"
#include "client/msit/compare/not_compared.h"
#include "client/msit/compare/run_pair.h"
#include "protos/base/tensor_key.h"

namespace msitd::ask {
class TableSchema;
}  // namespace msitd::ask

namespace msitd::msit_command {

// The options of comparing one rank with a dump of GE.
struct RankOptions {
  // The folders of the rank, or of the whole dump if it has no folders of
  // ranks.
  std::string golden;
  std::string my;
  bool is_golden_fx = false;
  // For dumps without folders of ranks: the index of the device, if there are
  // several.
  std::optional<int32_t> device_rank = {};
  // The graphs that GE wrote before it optimized them, by their numbers.
  std::vector<std::string> graph_files;
  // The part of a report's name before the time.
  std::string report_prefix;
  std::string output;
  // Not null.
  CustomAlgorithms* algorithms = nullptr;
  bool is_compat = false;
};

// Compares one rank, some tokens at a time, and writes a report for each graph.
// Thread-compatible; lives on the main thread. Call Run once.
class RankComparison {
 public:
  // Borrows `interrupts` and `log`.
  RankComparison(RankOptions options, ask::Interrupts& interrupts, Logger& log);
  ~RankComparison();

  absl::Status Run();

 private:
  // By device, number of the model, name of the model.
  using GraphKey = std::tuple<uint64_t, uint64_t, std::string>;
  struct Graph {
    GraphReport report;
    std::set<int64_t> tokens;
  };

  // `names_graphs`: ops begin with the name of their graph even if there is
  // only one.
  absl::Status OpenTrees(bool names_graphs);
  // Returns true if graphs must be paired by their names.
  bool HasSeveralGraphs() const;
  absl::Status Open();
  // Opens the trees while a daemon starts.
  absl::StatusOr<std::unique_ptr<RunPair>> OpenAndStart();
  absl::Status CompareBatch(RunPair& runs);
  absl::Status CompareRuns(RunPair& runs, const std::string& golden,
                           match::Matcher matcher);
  void Count(const v1::ComparisonRow& row);
  void WarnOfMissing(const match::Mapping& mapping);
  // The properties of the folder of a file of my side.
  struct Folder {
    trees::GePlace place;
    Graph* graph = nullptr;
  };
  absl::StatusOr<const Folder*> FolderOf(const std::string& file);
  // Returns the graph to which a file of my side belongs.
  absl::StatusOr<Graph*> GraphOfFile(const trees::GePlace& place);
  // Returns the graph of a tensor of my side, ready for its row.
  absl::StatusOr<Graph*> GraphOf(const TensorPlace& mine);
  // Adds a row for each file of my side of which some or all tensors could not
  // be read, and lists those of the golden side.
  absl::Status AddProblemRows(const RunPair& runs);
  // Lists a file that has no row.
  absl::Status ListProblem(bool is_golden, const std::string& file,
                           const std::string& reason);
  void TellOfTokens(const Graph& graph) const;
  // Returns the part before the time in the name of the report of a graph.
  std::string PrefixOf(const GraphKey& key) const;
  absl::Status AddRow(const v1::Comparison& comparison,
                      const v1::ComparisonRow& row);
  // Adds a row with one side.
  absl::Status AddUnmatched(const v1::ComparisonRow& row);
  TensorPlace PlaceOf(bool is_golden, TensorKey key) const;
  // Returns the path of a tensor of the row as msit writes it.
  std::string PathOf(bool is_golden) const;
  // `number`: the index of the graph among those with rows.
  OpPlaces PlacesOf(const GraphKey& key, size_t number) const;
  absl::Status SaveReports();

  const RankOptions options_;
  ask::Interrupts& interrupts_;
  Logger& log_;
  std::unique_ptr<trees::Tree> golden_tree_;
  std::unique_ptr<trees::Tree> my_tree_;
  std::optional<BatchTree> golden_;
  std::optional<BatchTree> my_;
  std::set<int64_t> golden_tokens_;
  std::set<int64_t> my_tokens_;
  std::set<int64_t> common_tokens_;
  std::map<GraphKey, Graph> graphs_;
  std::unique_ptr<ask::TableSchema> schema_;
  CustomColumns columns_;
  std::vector<std::string> headings_;
  // The folders of my side in this batch, by path.
  std::unordered_map<std::string, Folder> folders_;
  // The tensors of the row that is being added.
  TensorPlace row_golden_;
  TensorPlace row_my_;
  // True while the run is compared with itself.
  bool is_self_ = false;
  // True if my op of the row is fused.
  bool is_fused_ = false;
  std::set<std::string> warned_;
  Coverage coverage_;
  std::optional<NotCompared> not_compared_;
  // The names of tensors in this batch, and the number of tensors in a token.
  std::unordered_set<std::string> self_compared_;
  size_t self_compared_count_ = 0;
};

}  // namespace msitd::msit_command
