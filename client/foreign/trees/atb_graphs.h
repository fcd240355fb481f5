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

// What the ops of a warm-up begin with, in front of a `/`.
inline constexpr std::string_view kAtbWarmUp = "warmup";

// The tokens that execution `number` made. A process of several graphs begins
// with a warm-up, which is no token, but has the number of the first one. Its
// next execution is prefill and the first decode.
std::vector<int64_t> TokensOfExecution(int64_t number, bool has_several_graphs);

// The graphs of a process of the acceleration library, as its topologies say
// them: one, or first that of prefill and then that of decode. Tells which ops
// are whose where one execution ran both. Thread-compatible.
class AtbGraphs {
 public:
  // Takes a topology: the bytes of `file`. It counts if it has a node, as far
  // as it can be read; other files may lie beside topologies. Errors:
  // INVALID_ARGUMENT for what is no JSON object; RESOURCE_EXHAUSTED beyond a
  // limit of json_limits.h or kFoldersMax ops.
  absl::Status Add(const std::string& file, std::string text);

  // Ops have a number more than topologies say: before them, something was
  // converted.
  void ShiftByOne() { shift_ = 1; }

  size_t count() const { return graphs_.size(); }

  // What the folder of an op, `<number>_<type>`, is in an execution of several
  // graphs. An op in the place of two graphs is of both.
  bool IsOfPrefill(std::string_view folder) const;
  bool IsOfDecode(std::string_view folder) const;

 private:
  // The ops at the top, in their order: the display order of msit.
  struct Graph {
    std::string file;
    // Of its first op.
    int64_t first = 0;
    std::vector<std::string> types;
  };

  static absl::Status ReadNodes(const std::string& text, Graph& graph);
  bool HasOp(const Graph& graph, std::string_view folder) const;
  bool HasOpBehindPrefill(std::string_view folder) const;
  bool HasOpOfDecode(std::string_view folder) const;

  // In the order in which they run.
  std::vector<Graph> graphs_;
  int64_t shift_ = 0;
};

}  // namespace msitd::trees
