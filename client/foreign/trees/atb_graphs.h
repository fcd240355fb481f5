// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace msitd::trees {

inline constexpr uint64_t kTopologyBytesMax = uint64_t{64} << 20;

// The prefix of the ops of a warm-up, before a `/`.
inline constexpr std::string_view kAtbWarmUp = "warmup";

// Returns the tokens that execution `number` produced. A process with several
// graphs begins with a warm-up, which is not a token but has the number of the
// first one. Its next execution is prefill and the first decode.
std::vector<int64_t> TokensOfExecution(int64_t number, bool has_several_graphs);

// The graphs of a process of the acceleration library, according to its
// topologies: a single one, or that of prefill and that of decode. Assigns ops
// to graphs if one execution ran both. Thread-compatible.
class AtbGraphs {
 public:
  // Adds a topology: the bytes of `file`. It is used if it has a node, up to
  // the first error in it; other files may be in the same folder as topologies.
  // Errors: INVALID_ARGUMENT if the text is not a JSON object;
  // RESOURCE_EXHAUSTED beyond a limit of json_limits.h or kFoldersMax ops.
  absl::Status Add(const std::string& file, std::string text);

  // The numbers of ops are one higher than in topologies, because a tensor was
  // converted before them.
  void ShiftByOne() { shift_ = 1; }

  size_t count() const { return graphs_.size(); }

  // Return the graph to which the folder of an op, `<number>_<type>`, belongs
  // in an execution of several graphs. An op at a position of two graphs
  // belongs to both.
  bool IsOfPrefill(std::string_view folder) const;
  bool IsOfDecode(std::string_view folder) const;

 private:
  // The top-level ops in order, which is the display order of msit.
  struct Graph {
    std::string file;
    // The number of its first op.
    int64_t first = 0;
    std::vector<std::string> types;
  };

  static absl::Status ReadNodes(const std::string& text, Graph& graph);
  bool HasOp(const Graph& graph, std::string_view folder) const;
  bool HasOpBehindPrefill(std::string_view folder) const;
  bool HasOpOfDecode(std::string_view folder) const;

  // In the order of execution.
  std::vector<Graph> graphs_;
  int64_t shift_ = 0;
};

}  // namespace msitd::trees
