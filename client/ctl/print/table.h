// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/ctl/print/column.h"

namespace msitd::ctl {

// Lays out rows of cells in columns, two blanks apart.
//
// The widths come from the header and the rows that are there at the first
// Flush; a later cell that is wider pushes its line to the right. Cells are
// made Printable here. Thread-compatible.
class Table {
 public:
  struct Heading {
    std::string name;
    bool is_number = false;  // Aligned to the right.
    ColumnNeed need = ColumnNeed::kAlways;
    // Cut off at its end where there is no room, any other text in the middle.
    bool is_prose = false;
  };
  struct Style {
    // Columns of the terminal. Columns that may be left out are, until the
    // table fits: first those that say nothing, zeros and dashes; then those
    // that say the same in all rows; then the others from the right, those last
    // that a column of prose names. Text is shortened, but names that differ
    // stay different as long as there is anything else to gain. 0: no limit.
    size_t width = 0;
    // Bold headings, verdicts and states in colour.
    bool color = false;
  };

  // Rows kept back before the widths are settled: more would be memory without
  // bound, fewer would misalign what one screen shows.
  static constexpr size_t kSampleRows = 1000;

  Table(std::vector<Heading> headings, Style style);

  // `cells` has one cell for each heading.
  void Add(std::vector<std::string> cells);

  // True once kSampleRows rows are waiting: the caller should Flush.
  bool wants_flush() const { return rows_.size() >= kSampleRows; }

  // Returns the lines of all rows added since the last Flush; the first time,
  // and be it without rows, the headings come before them.
  std::string Flush();

  // Headings of the columns that were left out for want of room, in order; what
  // one says in all rows is behind it: `rank (all 0)`.
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  // Why a column goes early: the lower, the sooner. kNever for one that stays.
  enum class Turn { kVoid, kEqual, kOther, kNamed, kNever };

  void SettleWidths();
  void LeaveOut(const std::vector<size_t>& least);
  Turn TurnOf(size_t column) const;
  bool HasAny(size_t column) const;
  bool IsEqual(size_t column) const;
  bool IsNamed(size_t column) const;
  // The least width at which names that differ do so still.
  size_t TellingWidth(size_t column) const;
  // Shortens the widest text, none below `least`, until the table fits.
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

}  // namespace msitd::ctl
