// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protos/base/tensor_key.h"

// The names that msit gives to dumps of a torch model. Both parsed and created.
namespace msitd::names {

// Contains the folders of the processes.
inline constexpr std::string_view kMsitTensors = "torch_tensors";

// Entries in the folder of a process, next to the folders of tokens.
inline constexpr std::string_view kMsitModelTree = "model_tree.json";
inline constexpr std::string_view kMsitWeights = "weights";

// A folder that msitd writes next to `weights`. For each token it contains a
// text file `<token>.txt` with the names of the folders of its modules, one per
// line, in the order in which their calls ended. The times of files do not
// survive most ways of copying. msit ignores folders that are not tokens.
inline constexpr std::string_view kMsitOrder = "execution_order";
inline constexpr std::string_view kMsitOrderSuffix = ".txt";

// A file in the folder of a module, next to its tensors.
inline constexpr std::string_view kMsitStatistics = "statistics.csv";

// The suffix of files of tensors.
inline constexpr std::string_view kMsitTensorSuffix = ".pth";

// The tensor of a module that a file contains.
struct MsitTensorName {
  Io io = Io::kUnspecified;  // kInput or kOutput.
  // Numbers and names joined by dots: `0`, `1.0`, `attention_mask`.
  std::string index;

  friend bool operator==(const MsitTensorName&,
                         const MsitTensorName&) = default;
};

// Parses `input_0`, `output_1_0`, and `output` for a single output, which has
// the index 0; also `input_attention_mask`, which msitd writes for a keyword or
// a key. A number after a name is treated as part of the index, not of the
// name. Returns nothing for other stems.
std::optional<MsitTensorName> ParseMsitStem(std::string_view stem);

// Returns the name of the file without its suffix: io and, if there is one, the
// index with `_` in place of dots. msit omits the index of a single output.
std::string MsitStem(Io io, std::string_view index, bool is_only_output);

// Returns the index of a tensor in statistics.csv: the last number in the name
// of its file, or "0" if there is none.
std::string MsitRowIndex(std::string_view stem);

}  // namespace msitd::names
