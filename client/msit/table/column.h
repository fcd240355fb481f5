// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace msitd::msit_command {

// A column of a CSV file with the type that pandas finds for it: truths,
// integers, numbers or texts. A cell without a value ("", "NA", "nan"...) makes
// numbers of integers.
class Column {
 public:
  // The cells of all rows.
  explicit Column(const std::vector<std::string>& cells);

  bool is_missing(size_t row) const { return cells_[row].is_missing; }

  // As pandas prints it: `True`, `3`, `0.5`. Integers as numbers, `3.0`, if
  // `with_missing`, since that is what a join makes of them that finds no
  // partner for some rows.
  std::string Shown(size_t row, bool with_missing) const;

  // Equal for cells that pandas takes as equal, also of two columns: 1, 1.0
  // and True are, and the text "1" is not.
  std::string Key(size_t row) const;

 private:
  enum class Type { kTruth, kInteger, kNumber, kText };
  struct Cell {
    std::string text;
    bool is_missing = false;
  };

  bool AllAre(bool (*is)(const std::string&)) const;

  std::vector<Cell> cells_;
  Type type_ = Type::kText;
  bool has_missing_ = false;
};

}  // namespace msitd::msit_command
