// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/atb_graphs.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "client/foreign/formats/byte_source.h"
#include "client/foreign/trees/json/json_reader.h"
#include "client/foreign/trees/json/numbers.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

constexpr std::string_view kNodes = "nodes";
constexpr std::string_view kOpName = "opName";
constexpr std::string_view kOpType = "opType";
constexpr int64_t kFirstOpMax = int64_t{1} << 32;

bool SaysDecode(std::string_view text) {
  const std::string_view word = "decode";
  return std::search(text.begin(), text.end(), word.begin(), word.end(),
                     [](char a, char b) { return (a | 0x20) == b; }) !=
         text.end();
}

// Returns the number of the folder `2_Linear`.
std::optional<int64_t> NumberOf(std::string_view folder) {
  return ParseNumber(folder.substr(0, folder.find('_')));
}

// Returns the number of the op `Linear_2`; 0 if it has none, or one that does
// not occur in dumps.
int64_t LastNumberOf(std::string_view op) {
  // npos + 1 is 0.
  const auto number = ParseNumber(op.substr(op.rfind('_') + 1));
  return number.value_or(0) > kFirstOpMax ? 0 : number.value_or(0);
}

}  // namespace

std::vector<int64_t> TokensOfExecution(int64_t number,
                                       bool has_several_graphs) {
  if (has_several_graphs && number == 1) return {0, 1};
  return {number};
}

// Reads the members of the object that contains the nodes.
absl::Status AtbGraphs::ReadNodes(const std::string& text, Graph& graph) {
  constexpr int kInObject = 1;
  constexpr int kInNodes = 2;
  constexpr int kInNode = 3;
  const formats::MemorySource bytes(text);
  JsonReader reader(bytes);
  MSITD_ASSIGN_OR_RETURN(const JsonToken first, reader.Next());
  if (first != JsonToken::kObjectBegin) {
    return absl::InvalidArgumentError("it is not a topology");
  }
  bool is_in_nodes = false;
  std::string key;
  for (;;) {
    MSITD_ASSIGN_OR_RETURN(const JsonToken token, reader.Next());
    const int depth = reader.depth();
    const bool is_begin =
        token == JsonToken::kObjectBegin || token == JsonToken::kArrayBegin;
    if (token == JsonToken::kEnd) return absl::OkStatus();
    if (token == JsonToken::kKey) {
      key = reader.text();
    } else if (token == JsonToken::kArrayBegin && depth == kInNodes &&
               key == kNodes) {
      is_in_nodes = true;
    } else if (token == JsonToken::kObjectBegin && depth == kInNode &&
               is_in_nodes) {
      if (graph.types.size() == kFoldersMax) {
        return MakeStatus(absl::StatusCode::kResourceExhausted,
                          "it has more than {} ops", kFoldersMax);
      }
      graph.types.emplace_back();
    } else if (token == JsonToken::kString && depth == kInNode && is_in_nodes) {
      if (key == kOpType) graph.types.back() = reader.text();
      if (key == kOpName && graph.types.size() == 1) {
        graph.first = LastNumberOf(reader.text());
      }
    } else if (is_begin) {
      MSITD_RETURN_IF_ERROR(reader.LeaveTo(depth - 1));
    }
    if (depth == kInObject) is_in_nodes = false;
  }
}

absl::Status AtbGraphs::Add(const std::string& file, std::string text) {
  Graph graph;
  graph.file = file;
  absl::Status status = ReadNodes(text, graph);
  if (graph.types.empty()) return status;
  graphs_.push_back(std::move(graph));
  std::sort(graphs_.begin(), graphs_.end(), [](const Graph& a, const Graph& b) {
    const auto order = [](const Graph& one) {
      return std::tuple(one.first, SaysDecode(one.file),
                        std::string_view(one.file));
    };
    return order(a) < order(b);
  });
  return status;
}

bool AtbGraphs::HasOp(const Graph& graph, std::string_view folder) const {
  const auto number = NumberOf(folder);
  if (!number.has_value()) return false;
  const int64_t place = *number - graph.first - shift_;
  return place >= 0 && place < static_cast<int64_t>(graph.types.size()) &&
         folder.substr(folder.find('_') + 1) ==
             graph.types[static_cast<size_t>(place)];
}

// Returns true for an op that no topology contains.
bool AtbGraphs::HasOpBehindPrefill(std::string_view folder) const {
  const Graph& prefill = graphs_.front();
  int64_t end = graphs_[1].first;
  if (end == prefill.first) {
    end += static_cast<int64_t>(prefill.types.size());
  }
  return end > prefill.first && NumberOf(folder).value_or(0) >= end + shift_;
}

bool AtbGraphs::HasOpOfDecode(std::string_view folder) const {
  return std::any_of(graphs_.begin() + 1, graphs_.end(),
                     [&](const Graph& graph) { return HasOp(graph, folder); });
}

bool AtbGraphs::IsOfPrefill(std::string_view folder) const {
  return HasOp(graphs_.front(), folder) || !IsOfDecode(folder);
}

bool AtbGraphs::IsOfDecode(std::string_view folder) const {
  if (HasOpOfDecode(folder)) return true;
  return !HasOp(graphs_.front(), folder) &&
         (HasOpBehindPrefill(folder) || SaysDecode(folder));
}

}  // namespace msitd::trees
