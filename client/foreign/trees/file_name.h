// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "protos/base/tensor_key.h"

// The names that CANN, TorchAir and MindIE give to files and folders.
namespace msitd::trees {

// The contents of a file with the name of a GE dump.
enum class GeForm : uint8_t {
  kDump,        // All tensors of a task.
  kStatistics,  // `.csv`: the statistics of all tensors.
  kMinMax,      // `_min_max.npz`: the smallest and largest element of each.
  kArray,       // `.output.0.npy`: one tensor.
};

// <op_type>.<op_name>.<task>[.<stream>].<time>, followed by three or four more
// numbers for a slice of a task, and by a suffix for the form. op_name may
// contain dots; CANN has replaced other special characters in it by `_`.
struct GeFileName {
  std::string op_type;
  std::string op_name;
  int64_t task = 0;
  std::optional<int64_t> stream;
  // In microseconds.
  int64_t time = 0;
  // The numbers after the time.
  std::vector<int64_t> slice;
  GeForm form = GeForm::kDump;
  // For kArray.
  Io io = Io::kUnspecified;
  std::string index;
};

// Returns nothing if the name has another form.
std::optional<GeFileName> ParseGeFileName(std::string_view name);

// Returns true if `name` is certainly that of a GE dump: its time is plausible.
bool IsSurelyGeFileName(std::string_view name);

// CANN replaces a file name that is too long by a number, and lists the
// original name in `mapping.csv`.
inline constexpr std::string_view kLongNamesFile = "mapping.csv";

// The number in such a name, and the text after it, such as `.csv`.
struct LongNameNumber {
  std::string number;
  std::string suffix;
};
std::optional<LongNameNumber> ParseLongNameNumber(std::string_view name);

// Names by number.
using LongNames = std::map<std::string, std::string, std::less<>>;

// Parses a `mapping.csv`: lines of a number, a comma and a name. If a number
// occurs twice, the first name is used. An invalid line is skipped and its
// reason is added to `problems`.
LongNames ParseLongNames(std::string_view text,
                         std::vector<absl::Status>* problems);

// <node>-<target>.INPUT.<i>[.<j>].<time>.npy, or OUTPUT. A file `_min_max.npy`
// contains the smallest and the largest element.
struct FxFileName {
  // <node>-<target>
  std::string op;
  Io io = Io::kUnspecified;
  std::string index;
  // Digits from year to microseconds, too many for an int64_t. All files of one
  // call have the same time.
  std::string time;
  bool is_min_max = false;
};

// Returns nothing if the name has another form.
std::optional<FxFileName> ParseFxFileName(std::string_view name);

// worldsize<W>_global_rank<R>
struct RankFolder {
  int32_t world_size = 0;
  int32_t rank = 0;
};
std::optional<RankFolder> ParseRankFolder(std::string_view name);

// Returns true for 14 digits: year to seconds.
bool IsTimeFolder(std::string_view name);

// Returns true for gm_<time>_dump.
bool IsGmFolder(std::string_view name);

// Returns true for graph_<k> and graph_<k>_<n>.
bool IsGraphFolder(std::string_view name);

// Returns true for a graph as text: dynamo_original_*.txt,
// dynamo_optimized_*.txt.
bool IsGraphText(std::string_view name);

// Returns the rank in the name of such a graph.
std::optional<int64_t> RankOfGraphText(std::string_view name);

}  // namespace msitd::trees
