// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/view_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "protos/base/glob.h"

namespace msitd::compare {
namespace {

constexpr int kHintsMax = 16;

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns a name with `*` for each part that is a number.
std::string WithoutNumbers(std::string_view op) {
  std::string out;
  for (size_t begin = 0; begin <= op.size();) {
    const size_t end = std::min(op.find('.', begin), op.size());
    const std::string_view part = op.substr(begin, end - begin);
    if (begin > 0) out += '.';
    out += IsNumber(part) ? "*" : part;
    begin = end + 1;
  }
  return out;
}

// Returns whether a flag can name the op.
bool CanBeWritten(std::string_view op) {
  return op.find_first_of("*?@='\"\n") == std::string_view::npos;
}

// The tensors that a flag applies to; an empty index stands for all.
struct TensorPlace {
  std::string pattern;
  Io io = Io::kUnspecified;
  std::string index;

  std::string Text() const {
    return fmt::format("{}@{}{}{}", pattern, IoName(io),
                       index.empty() ? "" : "/", index);
  }
  bool Matches(std::string_view op, Io other_io,
               std::string_view other_index) const {
    return io == other_io && (index.empty() || index == other_index) &&
           GlobMatch(pattern, op);
  }
};

}  // namespace

ViewHints::Name ViewHints::NameOf(const TensorKey& key) {
  return {WithoutNumbers(key.op), key.io, key.index};
}

bool ViewHints::Wants(const TensorPair& pair) {
  bool is_wanted = examined_ < kExaminedMax;
  for (const bool is_golden : {true, false}) {
    const TensorKey& key = (is_golden ? pair.golden : pair.target)->key;
    auto& failures = SideOf(is_golden).failures;
    const Name name = NameOf(key);
    if (failures.size() == kNamesMax && !failures.contains(name)) return false;
    FailingTensors& of_name = failures[name];
    ++of_name.count;
    if (of_name.ops.size() < kFlagsMax) of_name.ops.insert(key.op);
    is_wanted = is_wanted && of_name.examined < kExaminedPerNameMax;
  }
  if (!is_wanted) return false;
  ++examined_;
  for (const bool is_golden : {true, false}) {
    const TensorKey& key = (is_golden ? pair.golden : pair.target)->key;
    ++SideOf(is_golden).failures[NameOf(key)].examined;
  }
  return true;
}

void ViewHints::Add(const TensorPair& pair, const Rearrangement& found) {
  const TensorKey& key = pair.target->key;
  RearrangedTensors& entry = found_[found];
  if (entry.names.empty()) {
    entry.tensor = fmt::format("{} {}/{}", key.op, IoName(key.io), key.index);
  }
  entry.names.insert(NameOf(found.is_of_golden ? pair.golden->key : key));
  has_news_ = true;
}

void ViewHints::EndGroup(const TensorGroup& group) {
  if (!std::exchange(has_news_, false) || groups_++ >= kGroupsMax) return;
  for (const TensorPair& pair : group.pairs) {
    for (const bool is_golden : {true, false}) {
      const LogicalTensor* const tensor = is_golden ? pair.golden : pair.target;
      std::set<Name>& all = SideOf(is_golden).all;
      if (tensor != nullptr && all.size() < kNamesMax) {
        all.insert(NameOf(tensor->key));
      }
    }
  }
}

std::vector<std::string> ViewHints::PatternsOf(
    const Rearrangement& view, const RearrangedTensors& found) const {
  const SideNames& side = view.is_of_golden ? golden_ : target_;
  // Names with another finding, or with none although they were examined.
  const auto is_foreign = [&](const Name& name) {
    if (found.names.contains(name)) return false;
    const auto failures = side.failures.find(name);
    return failures == side.failures.end() || failures->second.examined > 0;
  };
  std::vector<TensorPlace> places;
  std::vector<TensorPlace> ops;
  for (const Name& name : found.names) {
    const auto& [pattern, io, index] = name;
    std::optional<TensorPlace> place;
    for (const std::string& narrow : {std::string(), index}) {
      const TensorPlace offered = {pattern, io, narrow};
      const bool is_specific = std::none_of(
          side.all.begin(), side.all.end(), [&](const Name& other) {
            return offered.Matches(std::get<0>(other), std::get<1>(other),
                                   std::get<2>(other)) &&
                   is_foreign(other);
          });
      if (is_specific && !place.has_value()) place = offered;
    }
    const auto& seen = side.failures.at(name).ops;
    if (place.has_value() && seen.size() > 1) {
      places.push_back(*std::move(place));
      continue;
    }
    for (const std::string& op : seen) {
      if (CanBeWritten(op)) ops.push_back({op, io, index});
    }
  }
  // Patterns that match other patterns replace them.
  std::vector<std::string> out;
  const auto add = [&](const TensorPlace& place) {
    const bool is_covered = std::any_of(
        places.begin(), places.end(), [&](const TensorPlace& other) {
          return &other != &place && other.Text() != place.Text() &&
                 other.Matches(place.pattern, place.io, place.index) &&
                 (other.index.empty() || !place.index.empty());
        });
    if (!is_covered && out.size() < kFlagsMax) out.push_back(place.Text());
  };
  for (const TensorPlace& place : places) add(place);
  for (const TensorPlace& place : ops) add(place);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void ViewHints::Show(v1::Comparison& comparison) const {
  comparison.clear_view_hints();
  for (const auto& [view, found] : found_) {
    const std::vector<std::string> patterns = PatternsOf(view, found);
    if (patterns.empty() || comparison.view_hints_size() == kHintsMax) continue;
    v1::ViewHint& hint = *comparison.add_view_hints();
    for (const std::string& pattern : patterns) {
      hint.add_flags(fmt::format("--{}-view '{}={}'",
                                 view.is_of_golden ? "golden" : "target",
                                 pattern, view.view));
    }
    const SideNames& side = view.is_of_golden ? golden_ : target_;
    for (const Name& name : found.names) {
      hint.set_row_count(hint.row_count() + side.failures.at(name).count);
    }
    hint.set_finding(fmt::format(
        "{} of target has {}{}", found.tensor, FindingOf(view.kind),
        hint.row_count() > 1 ? fmt::format(", and {} more failing rows may",
                                           hint.row_count() - 1)
                             : ""));
    if (view.kind == Rearrangement::Kind::kRows) {
      hint.set_unchecked(
          "the order of the rows of these tensors is then no longer checked");
    }
  }
}

}  // namespace msitd::compare
