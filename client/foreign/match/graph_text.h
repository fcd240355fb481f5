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

// An output of another op that an op consumes.
struct GraphEdge {
  std::string producer;
  int64_t output = 0;  // Below 0 for a control dependency without a tensor.
};

// The tensor of the FX graph that corresponds to an output of a GE op.
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
  // The number in the name of its file; nothing if there is none.
  std::optional<uint64_t> number;
  std::vector<GraphOp> ops;  // In the order of the text. Names are unique.
  std::unordered_map<std::string, size_t> by_name;

  // Returns null if there is no such op.
  const GraphOp* Find(std::string_view op) const;
  // Ignores an op whose name exists already.
  void Add(GraphOp op);
};

struct GraphText {
  GeGraph graph;
  // The first error in the text, with its line. The graph has the ops that were
  // complete before it.
  absl::Status problem;
};

// Parses a graph in the form that GE writes: `dynamo_original_graph_*.txt`, in
// the text format of protobuf. Unknown fields are ignored. The text is
// untrusted.
GraphText ParseGraphText(std::string_view text);

}  // namespace msitd::match
