// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/page/matching_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "protos/base/tensor_key.h"

namespace msitd::ask {
namespace {

// Rules of one kind that are listed. The others are counted.
constexpr int kShownMax = 8;

std::string KindText(const v1::Layout& layout) {
  switch (layout.kind()) {
    case v1::Layout::CONCAT:
      return layout.sections().empty()
                 ? fmt::format("concatenated along dimension {}", layout.dim())
                 : fmt::format("concatenated along dimension {} by sections {}",
                               layout.dim(), fmt::join(layout.sections(), ":"));
    case v1::Layout::SUM:
      return "added";
    case v1::Layout::REPLICATED:
      return "copies of one tensor";
    case v1::Layout::PICK:
      return fmt::format("ignored except that of rank {}", layout.rank());
    case v1::Layout::ZIGZAG:
      return fmt::format("joined along dimension {} in zigzag order",
                         layout.dim());
    case v1::Layout::FIT:
      return "joined to the shape of the other run";
    default:
      return "joined in a way that this program does not know";
  }
}

std::string LayoutText(const char* side, const v1::Layout& layout) {
  std::string out = fmt::format("{} shards of {}", side, layout.op_pattern());
  if (layout.io() != v1::IO_UNSPECIFIED) {
    out += fmt::format(" {}", IoName(static_cast<Io>(layout.io())));
  }
  if (layout.has_index()) out += fmt::format("/{}", layout.index());
  out += fmt::format(" are {}", KindText(layout));
  if (layout.group_size() > 0) {
    out += fmt::format(", in groups of {} ranks", layout.group_size());
  }
  if (layout.unless_placed()) out += ", unless they recorded a placement";
  return out;
}

std::string ViewText(const char* side, const v1::View& view) {
  std::string out = fmt::format("{} tensors of {}", side, view.op_pattern());
  if (view.io() != v1::IO_UNSPECIFIED) {
    out += fmt::format(" {}", IoName(static_cast<Io>(view.io())));
  }
  if (view.has_index()) out += fmt::format("/{}", view.index());
  out += fmt::format(" are seen as {}", view.view());
  if (!view.as_op().empty()) {
    out += fmt::format(", under the name {}", view.as_op());
  }
  return out;
}

// Adds a line for each of `items`, and the number of those that are left out.
template <typename Items, typename Text>
void AddEach(const Items& items, const char* what, Text text,
             std::vector<std::string>& out) {
  int count = 0;
  for (const auto& item : items) {
    if (count++ < kShownMax) out.push_back(text(item));
  }
  if (count > kShownMax) {
    out.push_back(fmt::format("{} more {}", count - kShownMax, what));
  }
}

void AddMapping(const v1::Matching::Mapping& mapping,
                std::vector<std::string>& out) {
  out.push_back(fmt::format(
      "pairs from the attachment {} of the {} run; other tensors are {}",
      mapping.attachment(),
      mapping.side() == v1::Matching::Mapping::GOLDEN ? "golden" : "target",
      mapping.pair_others() ? "paired by name" : "unmatched"));
}

}  // namespace

std::vector<std::string> MatchingLines(const v1::Matching& matching) {
  std::vector<std::string> out;
  if (matching.has_mapping()) AddMapping(matching.mapping(), out);
  AddEach(
      matching.ops(), "pairs of ops",
      [](const auto& pair) {
        return fmt::format("golden op {} is paired with target op {}",
                           pair.golden_op(), pair.target_op());
      },
      out);
  AddEach(
      matching.rewrites(), "replacements",
      [](const auto& rewrite) {
        return fmt::format("in target ops, /{}/ is replaced by \"{}\"",
                           rewrite.regex(), rewrite.replacement());
      },
      out);
  if (matching.by_request()) {
    out.emplace_back("rows are compared by request and position");
  }
  if (matching.ignore_case()) {
    out.emplace_back("upper and lower case are the same in names of ops");
  }
  if (matching.fuzzy()) {
    out.emplace_back(
        "tensors without a counterpart by name are paired in execution order");
  }
  if (const int64_t offset = matching.token_offset(); offset != 0) {
    out.push_back(
        fmt::format("golden token 0 is paired with target token {}", offset));
  }
  AddEach(
      matching.ranks(), "pairs of ranks",
      [](const auto& pair) {
        return fmt::format("golden rank {} is paired with target rank {}",
                           pair.golden_rank(), pair.target_rank());
      },
      out);
  AddEach(
      matching.golden_layouts(), "golden layouts",
      [](const auto& layout) { return LayoutText("golden", layout); }, out);
  AddEach(
      matching.target_layouts(), "target layouts",
      [](const auto& layout) { return LayoutText("target", layout); }, out);
  AddEach(
      matching.golden_views(), "golden views",
      [](const auto& view) { return ViewText("golden", view); }, out);
  AddEach(
      matching.target_views(), "target views",
      [](const auto& view) { return ViewText("target", view); }, out);
  if (matching.ignore_placements()) {
    out.emplace_back("recorded placements of shards are ignored");
  }
  if (matching.backward_by_number()) {
    out.emplace_back("gradients are paired by the numbers of their calls");
  }
  return out;
}

}  // namespace msitd::ask
