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

// What a file that is named as a GE dump has.
enum class GeForm : uint8_t {
  kDump,        // All tensors of a task.
  kStatistics,  // `.csv`: what is known of them.
  kMinMax,      // `_min_max.npz`: the smallest and largest element of each.
  kArray,       // `.output.0.npy`: one of them.
};

// <op_type>.<op_name>.<task>[.<stream>].<time>, then for a slice of a task
// three or four more numbers, then what says the form. There may be dots in
// op_name, in which CANN has replaced other signs by `_`.
struct GeFileName {
  std::string op_type;
  std::string op_name;
  int64_t task = 0;
  std::optional<int64_t> stream;
  // In microseconds.
  int64_t time = 0;
  // What comes after the time.
  std::vector<int64_t> slice;
  GeForm form = GeForm::kDump;
  // Of kArray.
  Io io = Io::kUnspecified;
  std::string index;
};

// Nothing if it is another name.
std::optional<GeFileName> ParseGeFileName(std::string_view name);

// True if `name` is one of a GE dump beyond doubt: its time is that of a clock.
bool IsSurelyGeFileName(std::string_view name);

// CANN stores a file whose name is too long as a number, and says in
// `mapping.csv` what it is called.
inline constexpr std::string_view kLongNamesFile = "mapping.csv";

// Returns the number in such a name, with what comes behind it, such as `.csv`.
struct LongNameNumber {
  std::string number;
  std::string suffix;
};
std::optional<LongNameNumber> ParseLongNameNumber(std::string_view name);

// Numbers to names.
using LongNames = std::map<std::string, std::string, std::less<>>;

// Reads the text of a `mapping.csv`: lines of a number, a comma and a name. Of
// a number that comes twice the first name counts. A line that is none is left
// out, with a reason in `problems`.
LongNames ParseLongNames(std::string_view text,
                         std::vector<absl::Status>* problems);

// <node>-<target>.INPUT.<i>[.<j>].<time>.npy, or OUTPUT; `_min_max.npy` holds
// the smallest and the largest element.
struct FxFileName {
  // <node>-<target>
  std::string op;
  Io io = Io::kUnspecified;
  std::string index;
  // Digits, more than an int64_t has room for: year to microseconds. All files
  // of one call have the same.
  std::string time;
  bool is_min_max = false;
};

// Nothing if it is another name.
std::optional<FxFileName> ParseFxFileName(std::string_view name);

// worldsize<W>_global_rank<R>
struct RankFolder {
  int32_t world_size = 0;
  int32_t rank = 0;
};
std::optional<RankFolder> ParseRankFolder(std::string_view name);

// True for 14 digits: year to seconds.
bool IsTimeFolder(std::string_view name);

// True for gm_<time>_dump.
bool IsGmFolder(std::string_view name);

// True for graph_<k> and graph_<k>_<n>.
bool IsGraphFolder(std::string_view name);

// True for a graph as text: dynamo_original_*.txt, dynamo_optimized_*.txt.
bool IsGraphText(std::string_view name);

// Returns the rank in the name of such a graph.
std::optional<int64_t> RankOfGraphText(std::string_view name);

}  // namespace msitd::trees
