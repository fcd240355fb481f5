// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protos/base/tensor_key.h"

// How msit names what it dumps of a torch model. Both ways.
namespace msitd::names {

// Has the folders of the processes.
inline constexpr std::string_view kMsitTensors = "torch_tensors";

// What the folder of a process has besides folders of tokens.
inline constexpr std::string_view kMsitModelTree = "model_tree.json";
inline constexpr std::string_view kMsitWeights = "weights";

// A folder that msitd writes beside `weights`: for each token a text
// `<token>.txt` with the names of the folders of its modules, one a line, in
// the order in which their calls ended. Times of files do not outlive most ways
// of copying. msit passes over folders that are not tokens.
inline constexpr std::string_view kMsitOrder = "execution_order";
inline constexpr std::string_view kMsitOrderSuffix = ".txt";

// What the folder of a module has besides tensors.
inline constexpr std::string_view kMsitStatistics = "statistics.csv";

// What names of tensors end with.
inline constexpr std::string_view kMsitTensorSuffix = ".pth";

// Which tensor of a module a file has.
struct MsitTensorName {
  Io io = Io::kUnspecified;  // kInput or kOutput.
  // Numbers and names joined by dots: `0`, `1.0`, `attention_mask`.
  std::string index;

  friend bool operator==(const MsitTensorName&,
                         const MsitTensorName&) = default;
};

// Reads `input_0`, `output_1_0`, and `output` of one that is alone, which has
// the index 0; also `input_attention_mask`, which msitd writes for a keyword or
// a key. A number behind a name is taken for one of the index, and not of the
// name. Nothing for other stems.
std::optional<MsitTensorName> ParseMsitStem(std::string_view stem);

// Returns the name of the file without its suffix: io, and the index with `_`
// for dots, if it has one. msit leaves out the index of an only output.
std::string MsitStem(Io io, std::string_view index, bool is_only_output);

// Returns the index of a tensor in statistics.csv: the last number of the name
// of its file; "0" without one.
std::string MsitRowIndex(std::string_view stem);

}  // namespace msitd::names
