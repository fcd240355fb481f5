// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"

namespace msitd::match {

// An output of another op that an op takes.
struct GraphEdge {
  std::string producer;
  int64_t output = 0;  // Below 0: the op waits for the other, no tensor.
};

// The tensor of the FX graph that an output of a GE op is.
struct FxTensor {
  size_t ge_output = 0;
  std::string node;  // `add-aten.add.Tensor`.
  size_t fx_output = 0;
};

struct GraphOp {
  std::string name;
  std::string type;
  std::vector<GraphEdge> inputs;
  size_t output_count = 0;
  std::vector<FxTensor> fx_tensors;
};

struct GeGraph {
  std::string name;
  // What the name of its file says; nothing if it says none.
  std::optional<uint64_t> number;
  std::vector<GraphOp> ops;  // As the text has them; no two of one name.
  std::unordered_map<std::string, size_t> by_name;

  // Null if there is none.
  const GraphOp* Find(std::string_view op) const;
  // Leaves out an op whose name is there.
  void Add(GraphOp op);
};

struct GraphText {
  GeGraph graph;
  // What is wrong with the text, and in which line: the graph has the ops that
  // were whole before that.
  absl::Status problem;
};

// Reads a graph as GE writes it: `dynamo_original_graph_*.txt`, the text format
// of protobuf. Fields that it does not know are passed over. The text is of a
// stranger.
GraphText ParseGraphText(std::string_view text);

}  // namespace msitd::match
