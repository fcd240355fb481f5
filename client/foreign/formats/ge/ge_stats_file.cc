// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/ge/ge_stats_file.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/statistic_text.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

constexpr std::string_view kFirstColumns = "Input/Output,Index,";
constexpr std::string_view kTypePrefix = "DT_";

// The columns that are not statistics, in order.
enum Column : size_t { kIo, kIndex, kDataSize, kType, kFormat, kShape, kFirst };

struct StatisticColumn {
  // In lower case, since versions differ in case.
  std::string_view title;
  std::string_view name;
};

constexpr StatisticColumn kStatisticColumns[] = {
    {"max value", "max"},
    {"min value", "min"},
    {"avg value", "mean"},
    {"count", "count"},
    {"nan count", "nan_count"},
    {"negative inf count", "neg_inf_count"},
    {"positive inf count", "pos_inf_count"},
    {"l2norm", "l2_norm"},
    {"l2norm value", "l2_norm"},
    {"l2 norm value", "l2_norm"},
};

// Columns of a table, or dimensions in a column. A table with more is invalid.
constexpr size_t kPartsMax = 64;

// Removes and returns the text before the next `separator`.
std::string_view TakePart(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

// Returns kPartsMax + 1 parts if there are more than kPartsMax.
std::vector<std::string_view> SplitAt(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  bool ends_in_separator = true;
  while (!text.empty() && parts.size() <= kPartsMax) {
    ends_in_separator = text.find(separator) == text.size() - 1;
    parts.push_back(TakePart(text, separator));
  }
  if (ends_in_separator) parts.push_back({});
  return parts;
}

// Returns the name of the statistic in a column; empty for an unknown column.
std::string_view StatisticOf(std::string_view title) {
  std::string small(title);
  std::transform(small.begin(), small.end(), small.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const StatisticColumn& column : kStatisticColumns) {
    if (column.title == small) return column.name;
  }
  return {};
}

bool ReadShape(std::string_view text, std::vector<int64_t>& shape) {
  if (text.empty() || text == "-") return true;
  for (const std::string_view part : SplitAt(text, 'x')) {
    int64_t dim = 0;
    const char* const end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, dim);
    if (error != std::errc() || stop != end || dim < 0) return false;
    if (shape.size() == kDimsMax) return false;
    shape.push_back(dim);
  }
  return true;
}

DType TypeOf(std::string_view name) {
  for (size_t i = 1; i < kDTypes.size(); ++i) {
    if (!name.empty() && kDTypes[i].cann_name == name) {
      return static_cast<DType>(i);
    }
  }
  return DType::kUnspecified;
}

// Sets everything except the statistics. Returns false if a cell is invalid.
bool SetTensor(const std::vector<std::string_view>& cells,
               ForeignTensor& tensor) {
  if (cells[kIo] == "Input") tensor.io = Io::kInput;
  if (cells[kIo] == "Output") tensor.io = Io::kOutput;
  tensor.index = cells[kIndex].substr(0, kIndexBytesMax);
  std::string_view type = cells[kType];
  if (type.starts_with(kTypePrefix)) type.remove_prefix(kTypePrefix.size());
  tensor.stored_type = type.substr(0, kShownNameBytesMax);
  tensor.dtype = TypeOf(type);
  tensor.stored_layout = cells[kFormat].substr(0, kShownNameBytesMax);
  if (!ReadShape(cells[kShape], tensor.shape)) return false;
  tensor.stored_shape = tensor.shape;
  return tensor.io != Io::kUnspecified && !tensor.index.empty() &&
         tensor.index.find_first_not_of("0123456789") == std::string::npos;
}

FileEntry RowEntry(std::string_view line,
                   const std::vector<std::string_view>& titles) {
  ForeignTensor tensor;
  const auto cells = SplitAt(line, ',');
  if (cells.size() != titles.size()) {
    return MakeProblem(std::move(tensor),
                       MakeStatus(absl::StatusCode::kInvalidArgument,
                                  "its row has {} cells, the head has {}",
                                  cells.size(), titles.size()));
  }
  if (!SetTensor(cells, tensor)) {
    return MakeProblem(std::move(tensor),
                       absl::InvalidArgumentError("its row is malformed"));
  }
  for (size_t i = kFirst; i < cells.size(); ++i) {
    const std::string_view name = StatisticOf(titles[i]);
    if (name.empty() || cells[i].empty() || cells[i] == "NA") continue;
    auto text = StatisticText(cells[i]);
    if (!text.has_value()) {
      return MakeProblem(std::move(tensor),
                         MakeStatus(absl::StatusCode::kInvalidArgument,
                                    "its {} is not a number", name));
    }
    tensor.attributes[std::string(name)] = *std::move(text);
  }
  return MakeStatistics(std::move(tensor));
}

}  // namespace

bool IsGeStats(std::string_view first_bytes) {
  return first_bytes.starts_with(kFirstColumns);
}

OpenedFile OpenGeStats(std::shared_ptr<const ByteSource> bytes) {
  if (bytes->size() > kHeadBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "GE statistics: the file has {} bytes; the maximum is {}",
                      bytes->size(), kHeadBytesMax);
  }
  MSITD_ASSIGN_OR_RETURN(const std::string text,
                         bytes->ReadText(0, bytes->size()));
  std::vector<std::string_view> titles;
  std::vector<FileEntry> entries;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = TakePart(rest, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (titles.empty()) {
      titles = SplitAt(line, ',');
      if (titles.size() <= kFirst || titles.size() > kPartsMax) {
        return absl::InvalidArgumentError(
            "GE statistics: the head is malformed");
      }
      continue;
    }
    if (entries.size() == kTensorsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "GE statistics: the file has more than {} rows",
                        kTensorsMax);
    }
    entries.push_back(RowEntry(line, titles));
  }
  return std::make_unique<TensorFile>(FileKind::kGeStats, Attributes(),
                                      std::move(entries));
}

}  // namespace msitd::formats
