// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/table.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "client/ask/text/text.h"

namespace msitd::ask {
namespace {

constexpr size_t kGap = 2;
// Text is not shortened below this, because it would be meaningless.
constexpr size_t kShortestText = 12;
// Text is shortened to this width before a column is left out.
constexpr size_t kReadableText = 24;

constexpr char kReset[] = "\x1b[0m";
constexpr char kBold[] = "\x1b[1m";
constexpr char kRed[] = "\x1b[31m";
constexpr char kGreen[] = "\x1b[32m";
constexpr char kYellow[] = "\x1b[33m";

const char* ColorOf(std::string_view cell) {
  constexpr std::array<std::pair<std::string_view, const char*>, 12> kColors = {
      {{"pass", kGreen},
       {"PASS", kGreen},
       {"FAIL", kRed},
       {"PARTIAL", kYellow},
       {"done", kGreen},
       {"ok", kGreen},
       {"fail", kRed},
       {"failed", kRed},
       {"unmatched", kYellow},
       {"cancelled", kYellow},
       {"full", kYellow},
       {"running", kYellow}}};
  for (const auto& [word, color] : kColors) {
    if (word == cell) return color;
  }
  return nullptr;
}

// Returns whether a cell may be shortened. A cell of numbers may be a text, or
// have one after its number: a custom metric.
bool IsText(const Table::Heading& heading, std::string_view cell) {
  return !heading.is_number || cell.find(' ') != std::string_view::npos;
}

bool SaysNothing(std::string_view cell) {
  return cell.empty() || cell == "-" || cell == "0" || cell == "0 B";
}

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

bool HasWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !IsWordByte(text[at - 1]);
    if (begins && (end == text.size() || !IsWordByte(text[end]))) return true;
  }
  return false;
}

}  // namespace

Table::Table(std::vector<Heading> headings, Style style)
    : headings_(std::move(headings)), style_(style) {}

void Table::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

size_t Table::TotalWidth() const {
  size_t total = 0;
  for (size_t i = 0; i < widths_.size(); ++i) {
    if (!IsShown(i)) continue;
    total += widths_[i] + (total == 0 ? 0 : kGap);
  }
  return total;
}

bool Table::HasAny(size_t column) const {
  return std::any_of(rows_.begin(), rows_.end(), [column](const auto& row) {
    return row[column] != "-" && !row[column].empty();
  });
}

bool Table::HasText(size_t column) const {
  const Heading& heading = headings_[column];
  return !heading.is_number ||
         std::any_of(rows_.begin(), rows_.end(), [&](const auto& row) {
           return IsText(heading, row[column]);
         });
}

bool Table::IsEqual(size_t column) const {
  return !rows_.empty() &&
         std::all_of(rows_.begin(), rows_.end(), [&](const auto& row) {
           return row[column] == rows_.front()[column];
         });
}

bool Table::IsNamed(size_t column) const {
  for (size_t i = 0; i < headings_.size(); ++i) {
    if (!headings_[i].is_prose) continue;
    for (const auto& row : rows_) {
      if (HasWord(row[i], headings_[column].name)) return true;
    }
  }
  return false;
}

Table::Turn Table::TurnOf(size_t column) const {
  const ColumnNeed need = headings_[column].need;
  if (need == ColumnNeed::kAlways) return Turn::kNever;
  if (IsNamed(column)) return Turn::kNamed;
  if (IsEqual(column)) {
    if (SaysNothing(rows_.front()[column])) return Turn::kVoid;
    if (rows_.size() > 1) return Turn::kEqual;
  }
  return need == ColumnNeed::kUnlessEqual ? Turn::kNever : Turn::kOther;
}

size_t Table::TellingWidth(size_t column) const {
  std::set<std::string_view> names;
  for (const auto& row : rows_) names.insert(row[column]);
  size_t width = kShortestText;
  while (width < widths_[column]) {
    std::set<std::string> shown;
    for (const std::string_view name : names)
      shown.insert(Shorten(name, width));
    if (shown.size() == names.size()) break;
    ++width;
  }
  return width;
}

void Table::LeaveOut(const std::vector<size_t>& least) {
  // How much room shortening can gain without harm.
  size_t gain = 0;
  for (size_t i = 0; i < widths_.size(); ++i) {
    if (IsShown(i) && widths_[i] > least[i]) gain += widths_[i] - least[i];
  }
  std::vector<Turn> turns;
  for (size_t i = 0; i < widths_.size(); ++i) turns.push_back(TurnOf(i));
  for (const Turn turn :
       {Turn::kVoid, Turn::kEqual, Turn::kOther, Turn::kNamed}) {
    for (size_t i = widths_.size(); i-- > 0;) {
      if (TotalWidth() <= style_.width + gain) break;
      if (!IsShown(i) || turns[i] != turn) continue;
      if (widths_[i] > least[i]) gain -= widths_[i] - least[i];
      widths_[i] = kLeftOut;
    }
  }
  for (size_t i = 0; i < widths_.size(); ++i) {
    if (IsShown(i) || headings_[i].need == ColumnNeed::kIfAny) continue;
    const bool tells_all =
        IsEqual(i) && rows_.size() > 1 && !rows_.front()[i].empty();
    left_out_.push_back(tells_all ? headings_[i].name + " (all " +
                                        rows_.front()[i] + ")"
                                  : headings_[i].name);
  }
}

void Table::Shrink(const std::vector<size_t>& least) {
  for (size_t total = TotalWidth(); total > style_.width; --total) {
    size_t widest = widths_.size();
    for (size_t i = 0; i < widths_.size(); ++i) {
      if (!IsShown(i) || widths_[i] <= least[i]) continue;
      if (widest == widths_.size() || widths_[i] > widths_[widest]) widest = i;
    }
    if (widest == widths_.size()) return;
    --widths_[widest];
  }
}

// Each column begins with its full width. If the table is too wide, columns are
// left out until the rest would fit with all text shortened to a readable
// width. Then text is shortened, the widest first, in three rounds with ever
// lower bounds: while it is readable, while different names stay different, and
// down to kShortestText.
void Table::SettleWidths() {
  for (size_t i = 0; i < headings_.size(); ++i) {
    size_t width = DisplayWidth(headings_[i].name);
    for (const auto& row : rows_) {
      width = std::max(width, DisplayWidth(row[i]));
    }
    const bool is_void = headings_[i].need == ColumnNeed::kIfAny && !HasAny(i);
    widths_.push_back(is_void ? kLeftOut : width);
  }
  if (style_.width == 0 || TotalWidth() <= style_.width) return;
  std::vector<size_t> readable = widths_;
  std::vector<size_t> telling = widths_;
  std::vector<size_t> shortest = widths_;
  for (size_t i = 0; i < widths_.size(); ++i) {
    if (!IsShown(i) || !HasText(i)) continue;
    shortest[i] = std::min(widths_[i], kShortestText);
    telling[i] = std::min(
        widths_[i], headings_[i].is_prose ? kShortestText : TellingWidth(i));
    readable[i] = std::min(widths_[i], std::max(telling[i], kReadableText));
  }
  LeaveOut(readable);
  for (const auto& least : {readable, telling, shortest}) Shrink(least);
}

std::string Table::Fitted(const std::string& cell, size_t column) const {
  if (style_.width == 0 || !IsText(headings_[column], cell)) return cell;
  const size_t width = std::max(widths_[column], kShortestText);
  return headings_[column].is_prose ? ShortenEnd(cell, width)
                                    : Shorten(cell, width);
}

std::string Table::Line(const std::vector<std::string>& cells,
                        bool is_heading) const {
  std::string line;
  size_t blanks = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (!IsShown(i)) continue;
    const std::string text = Fitted(cells[i], i);
    const size_t width = DisplayWidth(text);
    const size_t pad = widths_[i] > width ? widths_[i] - width : 0;
    if (headings_[i].is_number) blanks += pad;
    const char* color = !style_.color ? nullptr
                        : is_heading  ? kBold
                                      : ColorOf(text);
    if (!text.empty()) {
      line.append(blanks, ' ');
      blanks = 0;
      if (color != nullptr) line += color;
      line += text;
      if (color != nullptr) line += kReset;
    }
    if (!headings_[i].is_number) blanks += pad;
    blanks += kGap;
  }
  return line + '\n';
}

std::string Table::Flush() {
  std::string out;
  if (widths_.empty()) {
    SettleWidths();
    std::vector<std::string> names;
    for (const Heading& heading : headings_) names.push_back(heading.name);
    out += Line(names, /*is_heading=*/true);
  }
  for (const auto& row : rows_) out += Line(row, /*is_heading=*/false);
  rows_.clear();
  return out;
}

}  // namespace msitd::ask
