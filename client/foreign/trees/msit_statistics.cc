// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/msit_statistics.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "client/foreign/trees/json/numbers.h"
#include "client/foreign/trees/json/python_text.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/base/digits.h"
#include "protos/base/limits.h"
#include "protos/base/tensor_statistics.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

// The columns of a row that are read.
enum Column : size_t { kIo, kIndex, kType, kShape, kMax, kMin, kMean, kNorm };
constexpr std::array<std::string_view, 8> kTitles = {
    "InputOutput", "Index", "DataType", "Shape",
    "Max",         "Min",   "Mean",     "L2Norm"};
constexpr std::pair<Column, std::string_view> kStatistics[] = {
    {kMax, "max"}, {kMin, "min"}, {kMean, "mean"}, {kNorm, "l2_norm"}};

using Cells = std::vector<std::string>;

// Removes and returns a line of the text. A quoted cell may contain commas; two
// quotes represent one.
Cells TakeLine(std::string_view* text) {
  Cells cells(1);
  bool is_quoted = false;
  while (!text->empty()) {
    const char c = text->front();
    text->remove_prefix(1);
    if (is_quoted) {
      if (c != '"') {
        cells.back() += c;
      } else if (text->starts_with('"')) {
        cells.back() += c;
        text->remove_prefix(1);
      } else {
        is_quoted = false;
      }
    } else if (c == '"') {
      is_quoted = true;
    } else if (c == ',') {
      cells.emplace_back();
    } else if (c == '\n') {
      break;
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

// Parses `(2, 3)`, `(2,)`, `()` and `torch.Size([2, 3])`.
std::optional<std::vector<int64_t>> ParseShape(std::string_view text) {
  constexpr std::string_view kSize = "torch.Size([";
  if (text.starts_with(kSize) && text.ends_with("])")) {
    text = text.substr(kSize.size(), text.size() - kSize.size() - 2);
  } else if (text.size() >= 2 && text.front() == '(' && text.back() == ')') {
    text = text.substr(1, text.size() - 2);
  } else {
    return std::nullopt;
  }
  std::vector<int64_t> shape;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const auto length = ParseNumber(text.substr(0, comma));
    if (!length.has_value() ||
        *length > static_cast<int64_t>(kTensorBytesMax) ||
        shape.size() == kDimsMax) {
      return std::nullopt;
    }
    shape.push_back(*length);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  return shape;
}

bool IsNotFinite(std::string_view text) {
  return text == "nan" || text == "inf" || text == "-inf";
}

// Returns the row, or an error that describes the invalid cell.
absl::StatusOr<MsitStatistics> RowOf(const std::array<std::string, 8>& cells) {
  const auto wrong = [&cells](Column column) {
    return MakeStatus(absl::StatusCode::kInvalidArgument, "{} is {}",
                      kTitles[column], ReprOfText(cells[column]));
  };
  MsitStatistics row;
  if (cells[kIo] == "Input") row.io = Io::kInput;
  if (cells[kIo] == "Output") row.io = Io::kOutput;
  if (row.io == Io::kUnspecified) return wrong(kIo);
  if (!IsDigits(cells[kIndex])) return wrong(kIndex);
  row.index = cells[kIndex];
  const auto dtype = ParseTorchDType(cells[kType]);
  if (!dtype.has_value() || !IsValid(*dtype)) return wrong(kType);
  row.dtype = *dtype;
  auto shape = ParseShape(cells[kShape]);
  if (!shape.has_value()) return wrong(kShape);
  row.shape = *std::move(shape);
  std::vector<TensorStatistic> statistics;
  for (const auto& [column, name] : kStatistics) {
    const std::string& cell = cells[column];
    if (cell.empty() || cell == "None") continue;
    const TensorStatistic one{name, cell, IsNotFinite(cell)};
    if (!ParseTensorStatistics(PrintTensorStatistics({&one, 1}))) {
      return wrong(column);
    }
    statistics.push_back(one);
  }
  row.text = PrintTensorStatistics(statistics);
  return row;
}

}  // namespace

absl::StatusOr<MsitStatisticsTable> ParseMsitStatistics(std::string_view text) {
  const Cells titles = TakeLine(&text);
  std::array<size_t, 8> places = {};
  for (size_t i = 0; i < kTitles.size(); ++i) {
    const auto title = std::find(titles.begin(), titles.end(), kTitles[i]);
    if (title == titles.end()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "it has no column {}", kTitles[i]);
    }
    places[i] = static_cast<size_t>(title - titles.begin());
  }
  MsitStatisticsTable out;
  for (size_t line = 2; !text.empty(); ++line) {
    const Cells cells = TakeLine(&text);
    if (cells == Cells(1)) continue;
    std::array<std::string, 8> known;
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] < cells.size()) known[i] = cells[places[i]];
    }
    auto row = RowOf(known);
    if (out.rows.size() == kMsitStatisticsMax) {
      out.problems.push_back(MakeStatus(absl::StatusCode::kResourceExhausted,
                                        "only the first {} rows are read",
                                        kMsitStatisticsMax));
      break;
    }
    if (row.ok()) {
      out.rows.push_back(*std::move(row));
    } else {
      out.problems.push_back(
          Annotate(row.status(), "line " + std::to_string(line)));
    }
  }
  return out;
}

}  // namespace msitd::trees
