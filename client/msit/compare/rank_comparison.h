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
#include "client/msit/compare/run_pair.h"
#include "protos/base/tensor_key.h"

namespace msitd::ask {
class TableSchema;
}  // namespace msitd::ask

namespace msitd::msit_command {

// One rank of a comparison with what GE dumped.
struct RankOptions {
  // Folders of the rank, or all of a dump that has none.
  std::string golden;
  std::string my;
  bool is_golden_fx = false;
  // Of dumps without folders of ranks: the place of the device, of several.
  std::optional<int32_t> device_rank = {};
  // That GE wrote before it optimized them, by their numbers.
  std::vector<std::string> graph_files;
  // In front of the time in the name of a report.
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

  // `names_graphs`: ops of one graph too begin with its name.
  absl::Status OpenTrees(bool names_graphs);
  // True if the names of graphs say which belong together.
  bool HasSeveralGraphs() const;
  absl::Status Open();
  // Opens the trees while a daemon starts.
  absl::StatusOr<std::unique_ptr<RunPair>> OpenAndStart();
  absl::Status CompareBatch(RunPair& runs);
  absl::Status CompareRuns(RunPair& runs, const std::string& golden,
                           match::Matcher matcher);
  void Count(const v1::ComparisonRow& row);
  void WarnOfMissing(const match::Mapping& mapping);
  // What the folder of a file of my side says.
  struct Folder {
    trees::GePlace place;
    Graph* graph = nullptr;
  };
  absl::StatusOr<const Folder*> FolderOf(const std::string& file);
  // The graph that a file of my side is of.
  absl::StatusOr<Graph*> GraphOfFile(const trees::GePlace& place);
  // The graph of a tensor of my side, ready for its row.
  absl::StatusOr<Graph*> GraphOf(const TensorPlace& mine);
  // Adds a row for each file of my side that could not be read, or of which
  // some tensors could not.
  absl::Status AddProblemRows(const RunPair& runs);
  // In front of the time in the name of the report of a graph.
  std::string PrefixOf(const GraphKey& key) const;
  absl::Status AddRow(const v1::Comparison& comparison,
                      const v1::ComparisonRow& row);
  TensorPlace PlaceOf(bool is_golden, TensorKey key) const;
  // As msit writes the path of a tensor of the row.
  std::string PathOf(bool is_golden) const;
  // `number`: the place of the graph among those with rows.
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
  // Of my side of this batch, by their paths.
  std::unordered_map<std::string, Folder> folders_;
  // Of the row that is added.
  TensorPlace row_golden_;
  TensorPlace row_my_;
  // True while the run is compared with itself.
  bool is_self_ = false;
  // True if my op of the row is fused.
  bool is_fused_ = false;
  std::set<std::string> warned_;
  Coverage coverage_;
  // The names of tensors of this batch, and how many there are in a token.
  std::unordered_set<std::string> self_compared_;
  size_t self_compared_count_ = 0;
};

}  // namespace msitd::msit_command
