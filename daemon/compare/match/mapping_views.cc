// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/mapping_views.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "daemon/compare/match/target_names.h"
#include "daemon/compare/view/leaf_table.h"
#include "daemon/compare/view/tensor_view.h"
#include "daemon/compare/view/view_parser.h"
#include "protos/base/check.h"

namespace msitd::compare {
namespace {

// One run of a group, to which copies are appended.
class Side {
 public:
  explicit Side(std::vector<LogicalTensor>& tensors)
      : tensors_(tensors), recorded_count_(tensors.size()), leaves_(tensors) {}

  size_t recorded_count() const { return recorded_count_; }

  // Returns a copy of a tensor for a pair. `text` is its view, or empty. `op`
  // is the op of the other run that the copy is compared with.
  LogicalTensor Copy(size_t position, size_t number, const std::string& text,
                     const std::string& op) {
    LogicalTensor out =
        text.empty() ? tensors_[position] : SeenAs(position, text, op);
    out.mapped_pair = static_cast<uint32_t>(number);
    return out;
  }

  SeenIn& seen_in() { return seen_in_; }
  void SetSeenIn() const { seen_in_.Set(tensors_); }

 private:
  LogicalTensor SeenAs(size_t position, const std::string& text,
                       const std::string& op) {
    const std::vector<ViewStep>& steps = StepsOf(text);
    const LogicalTensor& tensor = leaves_.Recorded(position);
    std::vector<const LogicalTensor*> others;
    for (LeafName leaf : LeafNamesOf(steps)) {
      // Without a pattern, stars stand for themselves.
      const std::vector<std::string_view> stars(leaf.op.size(), "*");
      const std::optional<size_t> found = leaves_.Find(tensor.key, leaf, stars);
      others.push_back(found.has_value() ? &leaves_.Recorded(*found) : nullptr);
      if (found.has_value() && *found != position) seen_in_.Add(*found, op);
    }
    return Viewed(tensor, {text, steps}, others, plans_);
  }

  // Lines have few different views, which are parsed once.
  const std::vector<ViewStep>& StepsOf(const std::string& text) {
    const auto [found, is_new] = steps_.try_emplace(text);
    if (is_new) {
      auto steps = ParseView(text);
      // The text was checked when the mapping was loaded.
      MSITD_CHECK(steps.ok());
      found->second = *std::move(steps);
    }
    return found->second;
  }

  std::vector<LogicalTensor>& tensors_;
  const size_t recorded_count_;
  const LeafTable leaves_;
  std::unordered_map<std::string, std::vector<ViewStep>> steps_;  // By text.
  PlanCache plans_;
  SeenIn seen_in_;
};

// The positions of golden tensors by name.
std::unordered_map<std::string, std::vector<size_t>> PositionsOf(
    const std::vector<LogicalTensor>& tensors) {
  std::unordered_map<std::string, std::vector<size_t>> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    out[PairName(tensors[i].key.op, tensors[i].key)].push_back(i);
  }
  return out;
}

}  // namespace

void ViewedGoldens::Add(size_t number, std::string name) {
  const auto [golden, is_new] = known_.emplace(number, std::move(name));
  if (is_new) all_.push_back(*golden);
}

void ViewedGoldens::Add(const ViewedGoldens& others) {
  for (const auto& [number, name] : others.all_) Add(number, name);
}

bool ApplyTargetViews(const TensorMapping& mapping, size_t tensors_max,
                      std::vector<LogicalTensor>& target,
                      ViewedGoldens& goldens) {
  Side targets(target);
  std::unordered_map<size_t, LogicalTensor> replaced;
  for (size_t i = 0; i < targets.recorded_count(); ++i) {
    const std::optional<size_t> first = mapping.Find(target[i].key);
    if (!first.has_value() || !mapping.pair(*first).has_view()) continue;
    for (const size_t number : mapping.WithSameTarget(*first)) {
      const MappedPair& pair = mapping.pair(number);
      if (!pair.golden_view.empty()) {
        goldens.Add(number, mapping.GoldenName(number, target[i].key));
      }
      LogicalTensor copy =
          targets.Copy(i, number, pair.target_view, pair.golden.op);
      if (number == *first) {
        replaced.emplace(i, std::move(copy));
      } else if (target.size() == tensors_max) {
        return false;
      } else {
        target.push_back(std::move(copy));
      }
    }
  }
  for (auto& [i, copy] : replaced) target[i] = std::move(copy);
  targets.SetSeenIn();
  return true;
}

bool ApplyGoldenViews(const TensorMapping& mapping,
                      const ViewedGoldens& goldens, size_t tensors_max,
                      std::vector<LogicalTensor>& golden) {
  Side side(golden);
  const auto positions = PositionsOf(golden);
  for (const auto& [number, name] : goldens.all()) {
    const auto found = positions.find(name);
    if (found == positions.end()) continue;
    const MappedPair& pair = mapping.pair(number);
    for (const size_t position : found->second) {
      if (golden.size() == tensors_max) return false;
      golden.push_back(
          side.Copy(position, number, pair.golden_view, pair.target.op));
      side.seen_in().Add(position, pair.target.op);
    }
  }
  side.SetSeenIn();
  return true;
}

}  // namespace msitd::compare
