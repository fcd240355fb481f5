// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/view_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "daemon/compare/view/leaf_table.h"
#include "daemon/compare/view/tensor_view.h"
#include "daemon/compare/view/view_parser.h"
#include "protos/base/glob.h"
#include "protos/base/limits.h"
#include "protos/base/record_kind.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Identifies tensors to which the same rules apply.
std::string PlaceOf(const TensorKey& key) {
  return fmt::format("{}{}{}{}{}", key.op, '\0', IoName(key.io), '\0',
                     key.index);
}

ptrdiff_t StarCount(std::string_view text) {
  return std::count(text.begin(), text.end(), '*');
}

}  // namespace

bool ViewRules::Rule::Matches(const TensorKey& key) const {
  return (io == Io::kUnspecified || io == key.io) &&
         (!index || *index == key.index) && GlobMatch(op_pattern, key.op);
}

absl::StatusOr<ViewRules::Rule> ViewRules::ToRule(const v1::View& view,
                                                  const std::string& field) {
  Rule out;
  if (view.op_pattern().empty() || view.op_pattern().size() > kOpBytesMax) {
    return FieldInvalid(field + ".op_pattern",
                        fmt::format("has {} bytes, needs 1 to {}",
                                    view.op_pattern().size(), kOpBytesMax));
  }
  out.op_pattern = view.op_pattern();
  if (view.io() < 0 || view.io() >= kIoCount) {
    return FieldInvalid(
        field + ".io",
        fmt::format("{} is not a side of an op", static_cast<int>(view.io())));
  }
  out.io = static_cast<Io>(view.io());
  if (view.has_index()) {
    if (view.index().size() > kIndexBytesMax) {
      return FieldInvalid(field + ".index",
                          fmt::format("has {} bytes, at most {}",
                                      view.index().size(), kIndexBytesMax));
    }
    out.index = view.index();
  }
  auto steps = ParseView(view.view());
  if (!steps.ok()) {
    return FieldInvalid(field + ".view", std::string(Message(steps.status())));
  }
  out.steps = *std::move(steps);
  out.text = view.view();
  const ptrdiff_t stars = StarCount(out.op_pattern);
  for (const LeafName& leaf : LeafNamesOf(out.steps)) {
    if (StarCount(leaf.op) <= stars) continue;
    return FieldInvalid(
        field + ".view",
        fmt::format("\"{}\" has more `*` than the pattern", leaf.op));
  }
  if (view.as_op().size() > kOpBytesMax || StarCount(view.as_op()) > stars) {
    return FieldInvalid(field + ".as_op",
                        fmt::format("needs at most {} bytes, and no more `*` "
                                    "than the pattern",
                                    kOpBytesMax));
  }
  out.as_op = view.as_op();
  return out;
}

absl::StatusOr<ViewRules> ViewRules::Create(
    const google::protobuf::RepeatedPtrField<v1::View>& views,
    const std::string& field) {
  if (views.size() > kViewsMax) {
    return FieldInvalid(
        field, fmt::format("{} of them, at most {}", views.size(), kViewsMax));
  }
  ViewRules out;
  for (int i = 0; i < views.size(); ++i) {
    MSITD_ASSIGN_OR_RETURN(Rule rule,
                           ToRule(views[i], fmt::format("{}[{}]", field, i)));
    out.need_whole_group_ = out.need_whole_group_ || !rule.as_op.empty() ||
                            !LeafNamesOf(rule.steps).empty();
    out.rules_.push_back(std::move(rule));
  }
  return out;
}

std::string ViewRules::Text(size_t number) const {
  const Rule& rule = rules_[number];
  std::string out = rule.op_pattern;
  if (rule.io != Io::kUnspecified || rule.index.has_value()) {
    // Flags cannot give an index for all sides, but the API can.
    out += rule.io == Io::kUnspecified ? "@*"
                                       : fmt::format("@{}", IoName(rule.io));
    if (rule.index.has_value()) out += fmt::format("/{}", *rule.index);
  }
  out += fmt::format("={}", rule.text);
  if (!rule.as_op.empty()) out += fmt::format(" as {}", rule.as_op);
  return out;
}

std::vector<size_t> ViewRules::Find(const TensorKey& key) const {
  std::vector<size_t> out;
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (!rules_[i].Matches(key)) continue;
    out.push_back(i);
    if (rules_[i].as_op.empty()) break;
  }
  return out;
}

// Applies the rules to the tensors of one group. Views read the tensors as they
// were recorded, so that replaced tensors are kept until all views are made.
class ViewRules::Application {
 public:
  Application(const ViewRules& rules, std::vector<LogicalTensor>& tensors)
      : rules_(rules), tensors_(tensors), recorded_count_(tensors.size()) {
    if (rules.need_whole_group()) leaves_.emplace(tensors);
  }

  bool Run(size_t tensors_max) {
    std::unordered_map<size_t, LogicalTensor> replaced;
    for (size_t i = 0; i < recorded_count_; ++i) {
      const RecordKind kind = tensors_[i].kind;
      const bool is_of_tensor =
          kind == RecordKind::kTensor || kind == RecordKind::kStatistics;
      // The mapping states what this tensor is seen as.
      const bool is_mapped =
          tensors_[i].view != nullptr || tensors_[i].mapped_pair.has_value();
      if (!is_of_tensor || is_mapped) continue;
      for (const size_t number : RulesOf(tensors_[i].key)) {
        if (rules_.rules_[number].as_op.empty()) {
          replaced.emplace(i, Make(number, i));
          continue;
        }
        if (tensors_.size() == tensors_max) return false;
        tensors_.push_back(Make(number, i));
      }
    }
    for (auto& [i, viewed] : replaced) tensors_[i] = std::move(viewed);
    seen_in_.Set(tensors_);
    return true;
  }

 private:
  // Most calls of an op have the same rules, which are looked up once.
  const std::vector<size_t>& RulesOf(const TensorKey& key) {
    const auto [found, is_new] = numbers_.try_emplace(PlaceOf(key));
    if (is_new) found->second = rules_.Find(key);
    return found->second;
  }

  LogicalTensor Make(size_t number, size_t position) {
    const Rule& rule = rules_.rules_[number];
    const LogicalTensor tensor = tensors_[position];
    std::vector<std::string_view> stars;
    GlobMatch(rule.op_pattern, tensor.key.op, stars);
    const std::string op =
        rule.as_op.empty()
            ? tensor.key.op
            : FillStars(rule.as_op, stars).substr(0, kOpBytesMax);
    if (!rule.as_op.empty()) seen_in_.Add(position, op);
    std::vector<const LogicalTensor*> others;
    for (const LeafName& leaf : LeafNamesOf(rule.steps)) {
      const std::optional<size_t> found =
          leaves_->Find(tensor.key, leaf, stars);
      others.push_back(found.has_value() ? &leaves_->Recorded(*found)
                                         : nullptr);
      if (found.has_value() && *found != position) seen_in_.Add(*found, op);
    }
    LogicalTensor out =
        Viewed(tensor, {rule.text, rule.steps, number}, others, plans_);
    out.key.op = op;
    return out;
  }

  const ViewRules& rules_;
  std::vector<LogicalTensor>& tensors_;
  const size_t recorded_count_;
  std::optional<LeafTable> leaves_;
  std::unordered_map<std::string, std::vector<size_t>> numbers_;
  PlanCache plans_;
  SeenIn seen_in_;
};

bool ViewRules::Apply(size_t tensors_max,
                      std::vector<LogicalTensor>& tensors) const {
  return rules_.empty() || Application(*this, tensors).Run(tensors_max);
}

}  // namespace msitd::compare
