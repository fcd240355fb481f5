// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace msitd::msit_command {

// A column of a CSV file with the type that pandas infers: truths, integers,
// numbers or texts. A cell without a value ("", "NA", "nan"...) turns integers
// into numbers.
class Column {
 public:
  // The cells of all rows.
  explicit Column(const std::vector<std::string>& cells);

  bool is_missing(size_t row) const { return cells_[row].is_missing; }

  // Returns the cell as pandas prints it: `True`, `3`, `0.5`. If
  // `with_missing`, integers are numbers, `3.0`, which is the result of a join
  // in which some rows have no counterpart.
  std::string Shown(size_t row, bool with_missing) const;

  // Equal for cells that pandas treats as equal, also in different columns: 1,
  // 1.0 and True are equal, and the text "1" is different.
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
