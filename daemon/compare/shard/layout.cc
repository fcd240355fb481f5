// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "protos/base/glob.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

constexpr int kDims = static_cast<int>(kDimsMax);

absl::Status CheckKind(const v1::Layout& layout, const std::string& field) {
  switch (layout.kind()) {
    case v1::Layout::CONCAT:
    case v1::Layout::SUM:
    case v1::Layout::REPLICATED:
    case v1::Layout::PICK:
    case v1::Layout::ZIGZAG:
    case v1::Layout::FIT:
      break;
    default:
      return FieldInvalid(field + ".kind",
                          fmt::format("{} is no kind of layout",
                                      static_cast<int>(layout.kind())));
  }
  if (layout.dim() < -kDims || layout.dim() >= kDims) {
    return FieldInvalid(field + ".dim",
                        fmt::format("{} is not from {} to {}", layout.dim(),
                                    -kDims, kDims - 1));
  }
  if (layout.dim() != 0 && layout.kind() != v1::Layout::CONCAT &&
      layout.kind() != v1::Layout::ZIGZAG) {
    return FieldInvalid(field + ".dim", "is for CONCAT and ZIGZAG only");
  }
  if (layout.rank() != 0 && layout.kind() != v1::Layout::PICK) {
    return FieldInvalid(field + ".rank", "is for PICK only");
  }
  return absl::OkStatus();
}

absl::Status CheckRanks(const v1::Layout& layout, const std::string& field) {
  if (layout.group_size() < 0 || layout.group_size() > kRankMax) {
    return FieldInvalid(
        field + ".group_size",
        fmt::format("{} is not from 0 to {}", layout.group_size(), kRankMax));
  }
  const int32_t rank_end =
      layout.group_size() == 0 ? kRankMax + 1 : layout.group_size();
  if (layout.rank() < 0 || layout.rank() >= rank_end) {
    return FieldInvalid(
        field + ".rank",
        fmt::format("{} is not from 0 to {}", layout.rank(), rank_end - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckSections(const v1::Layout& layout, const std::string& field) {
  if (layout.sections().empty()) return absl::OkStatus();
  if (layout.kind() != v1::Layout::CONCAT) {
    return FieldInvalid(field + ".sections", "are for CONCAT only");
  }
  if (layout.sections_size() > kSectionsMax) {
    return FieldInvalid(field + ".sections",
                        fmt::format("{} of them, at most {}",
                                    layout.sections_size(), kSectionsMax));
  }
  for (const int32_t section : layout.sections()) {
    if (section >= 1 && section <= kSectionMax) continue;
    return FieldInvalid(
        field + ".sections",
        fmt::format("{} is not from 1 to {}", section, kSectionMax));
  }
  return absl::OkStatus();
}

// Returns the text of a layout, such as `concat(0)`, `concat(0,32:8:8)`,
// `zigzag(1)`, `sum`, `replicated`, `pick(1)` or `fit`.
std::string TextOf(const v1::Layout& layout) {
  switch (layout.kind()) {
    case v1::Layout::CONCAT:
      return layout.sections().empty()
                 ? fmt::format("concat({})", layout.dim())
                 : fmt::format("concat({},{})", layout.dim(),
                               fmt::join(layout.sections(), ":"));
    case v1::Layout::ZIGZAG:
      return fmt::format("zigzag({})", layout.dim());
    case v1::Layout::SUM:
      return "sum";
    case v1::Layout::PICK:
      return fmt::format("pick({})", layout.rank());
    case v1::Layout::FIT:
      return "fit";
    default:
      return "replicated";
  }
}

// Translates a valid message into a placement with a rule.
void Compile(const v1::Layout& layout, Layout& out) {
  out.rule.text = TextOf(layout);
  switch (layout.kind()) {
    case v1::Layout::ZIGZAG:
      out.rule.sections = {1, 1};
      out.rule.is_zigzag = true;
      [[fallthrough]];
    case v1::Layout::CONCAT:
      out.dim.kind = Placement::Kind::kSharded;
      out.dim.tensor_dim = layout.dim();
      break;
    case v1::Layout::SUM:
      out.dim.kind = Placement::Kind::kPartial;
      out.dim.reduction = "sum";
      break;
    case v1::Layout::PICK:
      out.rule.picked = layout.rank();
      break;
    case v1::Layout::FIT:
      out.rule.is_fit = true;
      break;
    default:
      break;
  }
  if (!layout.sections().empty()) {
    out.rule.sections.assign(layout.sections().begin(),
                             layout.sections().end());
  }
}

absl::StatusOr<Layout> ToLayout(const v1::Layout& layout,
                                const std::string& field) {
  if (layout.op_pattern().empty() || layout.op_pattern().size() > kOpBytesMax) {
    return FieldInvalid(field + ".op_pattern",
                        fmt::format("has {} bytes, needs 1 to {}",
                                    layout.op_pattern().size(), kOpBytesMax));
  }
  Layout out;
  out.op_pattern = layout.op_pattern();
  out.io = static_cast<Io>(layout.io());
  if (layout.io() < 0 || layout.io() >= kIoCount) {
    return FieldInvalid(
        field + ".io",
        fmt::format("{} is no side of an op", static_cast<int>(layout.io())));
  }
  if (layout.has_index()) {
    if (layout.index().size() > kIndexBytesMax) {
      return FieldInvalid(field + ".index",
                          fmt::format("has {} bytes, at most {}",
                                      layout.index().size(), kIndexBytesMax));
    }
    out.index = layout.index();
  }
  MSITD_RETURN_IF_ERROR(CheckKind(layout, field));
  MSITD_RETURN_IF_ERROR(CheckRanks(layout, field));
  MSITD_RETURN_IF_ERROR(CheckSections(layout, field));
  Compile(layout, out);
  out.group_size = layout.group_size();
  out.unless_placed = layout.unless_placed();
  return out;
}

RankRange RanksOf(const Layout& rule, int32_t group, int32_t rank_count) {
  if (rule.group_size == 0) return {0, rank_count - 1};
  const int32_t first = group * rule.group_size;
  return {first, first + rule.group_size - 1};
}

}  // namespace

PlacedMesh Layout::PlacedOn(int32_t group, int32_t rank_count) const {
  const RankRange ranks = RanksOf(*this, group, rank_count);
  Placement placement;
  placement.first = ranks.first;
  placement.dims = {dim};
  placement.dims[0].size = ranks.last - ranks.first + 1;
  PlacedMesh out(std::move(placement));
  out.rule = rule;
  if (rule.picked.has_value()) out.rule->picked = ranks.first + *rule.picked;
  return out;
}

absl::StatusOr<LayoutRules> LayoutRules::Create(
    const google::protobuf::RepeatedPtrField<v1::Layout>& layouts,
    const std::string& field) {
  if (layouts.size() > kLayoutsMax) {
    return FieldInvalid(field, fmt::format("{} of them, at most {}",
                                           layouts.size(), kLayoutsMax));
  }
  LayoutRules out;
  for (int i = 0; i < layouts.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", field, i);
    MSITD_ASSIGN_OR_RETURN(Layout layout, ToLayout(layouts[i], place));
    if (out.takes_all_) {
      return FieldInvalid(
          place,
          fmt::format("never counts: {}[{}] is for all ops", field, i - 1));
    }
    out.takes_all_ = layout.op_pattern == "*" &&
                     layout.io == Io::kUnspecified && !layout.index &&
                     !layout.unless_placed;
    out.has_fit_ = out.has_fit_ || layout.rule.is_fit;
    out.rules_.push_back(std::move(layout));
  }
  return out;
}

const Layout* LayoutRules::Find(const TensorKey& key, bool is_placed) const {
  const auto found =
      std::find_if(rules_.begin(), rules_.end(), [&](const Layout& rule) {
        return !(rule.unless_placed && is_placed) &&
               (rule.io == Io::kUnspecified || rule.io == key.io) &&
               (!rule.index || *rule.index == key.index) &&
               GlobMatch(rule.op_pattern, key.op);
      });
  return found == rules_.end() ? nullptr : &*found;
}

std::vector<int32_t> LayoutRules::GroupNumbersOf(int32_t rank) const {
  std::vector<int32_t> out;
  if (!takes_all_) out.push_back(rank);
  for (const Layout& rule : rules_) out.push_back(rule.GroupOf(rank));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void LayoutRules::AddGroupNumbersOf(int32_t first, int32_t last,
                                    std::vector<RankRange>& out) const {
  if (!takes_all_) out.push_back({first, last});
  for (const Layout& rule : rules_) {
    out.push_back({rule.GroupOf(first), rule.GroupOf(last)});
  }
}

std::optional<RankRange> LayoutRules::RanksNeeded(const Layout& rule,
                                                  int32_t group_number,
                                                  RankCount ranks) {
  // Tensors without a rule use their rank as group number, and a rule for all
  // ranks has no such group.
  if (rule.group_size == 0 && (group_number != 0 || ranks.count == 0)) {
    return std::nullopt;
  }
  if (rule.group_size != 0 && group_number > kRankMax / rule.group_size) {
    return std::nullopt;
  }
  RankRange range = RanksOf(rule, group_number, ranks.count);
  if (rule.rule.picked.has_value()) {
    range.first += *rule.rule.picked;
    range.last = range.first;
  }
  if (ranks.is_final && range.first >= ranks.count) return std::nullopt;
  return range;
}

std::vector<RankRange> LayoutRules::RanksNeeded(int32_t group_number,
                                                RankCount ranks) const {
  std::vector<RankRange> out;
  if (!takes_all_) out.push_back({group_number, group_number});
  for (const Layout& rule : rules_) {
    const std::optional<RankRange> range =
        RanksNeeded(rule, group_number, ranks);
    if (range.has_value()) out.push_back(*range);
  }
  return out;
}

}  // namespace msitd::compare
