// SPDX-License-Identifier: Apache-2.0
#include "client/ctl/print/table.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "client/text/text.h"

namespace msitd::ctl {
namespace {

constexpr size_t kGap = 2;
// A shorter name says nothing.
constexpr size_t kShortestText = 12;
// Text is shortened to this before an optional column is left out.
constexpr size_t kReadableText = 24;

constexpr char kReset[] = "\x1b[0m";
constexpr char kBold[] = "\x1b[1m";
constexpr char kRed[] = "\x1b[31m";
constexpr char kGreen[] = "\x1b[32m";
constexpr char kYellow[] = "\x1b[33m";

const char* ColorOf(std::string_view cell) {
  constexpr std::array<std::pair<std::string_view, const char*>, 9> kColors = {
      {{"pass", kGreen},
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

void Table::LeaveOut() {
  // What shortening of text can gain without harm.
  size_t gain = 0;
  for (size_t i = 0; i < widths_.size(); ++i) {
    if (!headings_[i].is_number && widths_[i] > kReadableText) {
      gain += widths_[i] - kReadableText;
    }
  }
  for (size_t i = widths_.size();
       i-- > 0 && TotalWidth() > style_.width + gain;) {
    if (headings_[i].is_optional) widths_[i] = kLeftOut;
  }
}

void Table::SettleWidths() {
  for (size_t i = 0; i < headings_.size(); ++i) {
    size_t width = DisplayWidth(headings_[i].name);
    for (const auto& row : rows_) {
      width = std::max(width, DisplayWidth(row[i]));
    }
    widths_.push_back(width);
  }
  if (style_.width == 0) return;
  LeaveOut();
  for (size_t total = TotalWidth(); total > style_.width; --total) {
    size_t widest = widths_.size();
    for (size_t i = 0; i < widths_.size(); ++i) {
      if (!IsShown(i) || headings_[i].is_number ||
          widths_[i] <= kShortestText) {
        continue;
      }
      if (widest == widths_.size() || widths_[i] > widths_[widest]) widest = i;
    }
    if (widest == widths_.size()) return;
    --widths_[widest];
  }
}

std::vector<std::string> Table::left_out() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < widths_.size(); ++i) {
    if (!IsShown(i)) names.push_back(headings_[i].name);
  }
  return names;
}

std::string Table::Line(const std::vector<std::string>& cells,
                        bool is_heading) const {
  std::string line;
  size_t blanks = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (!IsShown(i)) continue;
    const std::string text =
        style_.width != 0 && !headings_[i].is_number
            ? Shorten(cells[i], std::max(widths_[i], kShortestText))
            : cells[i];
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

}  // namespace msitd::ctl
