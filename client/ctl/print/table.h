// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

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
    bool is_number = false;    // Aligned to the right.
    bool is_optional = false;  // Left out where there is no room.
  };
  struct Style {
    // Columns of the terminal: optional columns are left out, the last one
    // first, and the widest columns of text shortened until the table fits, or
    // nothing more can be gained. 0: no limit.
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

  // Headings of the columns that were left out, in order.
  std::vector<std::string> left_out() const;

 private:
  void SettleWidths();
  void LeaveOut();
  size_t TotalWidth() const;
  bool IsShown(size_t column) const { return widths_[column] != kLeftOut; }
  std::string Line(const std::vector<std::string>& cells,
                   bool is_heading) const;

  static constexpr size_t kLeftOut = static_cast<size_t>(-1);

  const std::vector<Heading> headings_;
  const Style style_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;  // Empty before the first Flush.
};

}  // namespace msitd::ctl
