// SPDX-License-Identifier: Apache-2.0
#include "client/msit/table/column.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "client/ask/report/table/cell.h"

namespace msitd::msit_command {
namespace {

// Texts that pandas treats as missing values.
constexpr std::array<std::string_view, 19> kMissing = {
    "",     "#N/A",   "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN",
    "-nan", "1.#IND", "1.#QNAN",  "<NA>", "N/A",     "NA",       "NULL",
    "NaN",  "None",   "n/a",      "nan",  "null"};

bool IsMissing(const std::string& text) {
  return std::find(kMissing.begin(), kMissing.end(), text) != kMissing.end();
}

bool IsTrue(const std::string& text) {
  return text == "True" || text == "TRUE" || text == "true";
}

bool IsTruth(const std::string& text) {
  return IsTrue(text) || text == "False" || text == "FALSE" || text == "false";
}

template <typename Number>
bool Parse(const std::string& text, Number& number) {
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(begin, end, number);
  return result.ec == std::errc() && result.ptr == end;
}

bool IsInteger(const std::string& text) {
  int64_t number = 0;
  return Parse(text, number);
}

bool IsNumber(const std::string& text) {
  double number = 0;
  return Parse(text, number);
}

double NumberOf(const std::string& text) {
  double number = 0;
  Parse(text, number);
  return number;
}

}  // namespace

Column::Column(const std::vector<std::string>& cells) {
  cells_.reserve(cells.size());
  for (const std::string& text : cells) {
    cells_.push_back({text, IsMissing(text)});
    has_missing_ = has_missing_ || cells_.back().is_missing;
  }
  if (AllAre(IsTruth)) {
    type_ = Type::kTruth;
  } else if (AllAre(IsInteger)) {
    type_ = has_missing_ ? Type::kNumber : Type::kInteger;
  } else if (AllAre(IsNumber)) {
    type_ = Type::kNumber;
  }
}

bool Column::AllAre(bool (*is)(const std::string&)) const {
  return std::all_of(cells_.begin(), cells_.end(), [is](const Cell& cell) {
    return cell.is_missing || is(cell.text);
  });
}

std::string Column::Shown(size_t row, bool with_missing) const {
  const std::string& text = cells_[row].text;
  switch (type_) {
    case Type::kTruth:
      return IsTrue(text) ? "True" : "False";
    case Type::kInteger:
      if (!with_missing) {
        int64_t number = 0;
        Parse(text, number);
        return std::to_string(number);
      }
      [[fallthrough]];
    case Type::kNumber:
      return ask::PythonFloat(NumberOf(text));
    case Type::kText:
      break;
  }
  return text;
}

std::string Column::Key(size_t row) const {
  const std::string& text = cells_[row].text;
  switch (type_) {
    case Type::kTruth:
      return IsTrue(text) ? "n1.0" : "n0.0";
    case Type::kInteger:
    case Type::kNumber:
      return "n" + ask::PythonFloat(NumberOf(text));
    case Type::kText:
      break;
  }
  return "t" + text;
}

}  // namespace msitd::msit_command
