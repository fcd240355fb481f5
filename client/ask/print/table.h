// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/ask/print/column.h"

namespace msitd::ask {

// Lays out rows of cells in columns, two blanks apart.
//
// The header and the rows of the first Flush decide the widths. A later cell
// that is wider pushes its line to the right. The table makes cells Printable.
// Thread-compatible.
class Table {
 public:
  struct Heading {
    std::string name;
    bool is_number = false;  // Aligned to the right.
    ColumnNeed need = ColumnNeed::kAlways;
    // True for text that is shortened at its end; other text is shortened in
    // its middle.
    bool is_prose = false;
  };
  struct Style {
    // Columns of the terminal. 0: no limit. To make the table fit, optional
    // columns are omitted in this order: columns that contain only zeros or
    // dashes, columns with the same content in all rows, other columns from the
    // right, and finally columns that a column of prose mentions. The remaining
    // text is shortened. Different names stay different as long as other text
    // can be shortened.
    size_t width = 0;
    // Bold headings, verdicts and states in colour.
    bool color = false;
  };

  // Rows held back before the widths are settled. With more, memory would grow;
  // with fewer, rows on one screen would be misaligned.
  static constexpr size_t kSampleRows = 1000;

  Table(std::vector<Heading> headings, Style style);

  // `cells` has one cell for each heading.
  void Add(std::vector<std::string> cells);

  // True once kSampleRows rows are waiting: the caller should Flush.
  bool wants_flush() const { return rows_.size() >= kSampleRows; }

  // Returns the lines of all rows added since the last Flush. The first Flush
  // puts the headings before them, even if there are no rows.
  std::string Flush();

  // Headings of the columns left out for lack of room, in order. If a column
  // says the same in all rows, that is added: `rank (all 0)`.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  // Why a column may be left out. The lower, the earlier. kNever: it stays.
  enum class Turn { kVoid, kEqual, kOther, kNamed, kNever };

  void SettleWidths();
  void LeaveOut(const std::vector<size_t>& least);
  Turn TurnOf(size_t column) const;
  bool HasAny(size_t column) const;
  // True if some of its cells may be shortened.
  bool HasText(size_t column) const;
  bool IsEqual(size_t column) const;
  bool IsNamed(size_t column) const;
  // The smallest width at which different names still look different.
  size_t TellingWidth(size_t column) const;
  // Shortens the widest text, column by column, until the table fits, but no
  // column below `least`.
  void Shrink(const std::vector<size_t>& least);
  std::string Fitted(const std::string& cell, size_t column) const;
  size_t TotalWidth() const;
  bool IsShown(size_t column) const { return widths_[column] != kLeftOut; }
  std::string Line(const std::vector<std::string>& cells,
                   bool is_heading) const;

  static constexpr size_t kLeftOut = static_cast<size_t>(-1);

  const std::vector<Heading> headings_;
  const Style style_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;  // Empty before the first Flush.
  std::vector<std::string> left_out_;
};

}  // namespace msitd::ask
