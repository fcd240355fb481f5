// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/group_windows.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

namespace msitd::compare {
namespace {

uint64_t HashOf(std::string_view name) {
  return std::hash<std::string_view>()(name);
}

}  // namespace

bool GroupWindows::Has(size_t number, std::string_view name) const {
  const uint64_t hash = HashOf(name);
  const auto found = std::lower_bound(
      names_.begin(), names_.end(), hash,
      [](const Name& known, uint64_t wanted) { return known.hash < wanted; });
  const bool is_known = found != names_.end() && found->hash == hash;
  return (is_known ? found->window : count_ - 1) == number;
}

bool GroupSplitter::Add(std::string_view name, uint64_t sequence,
                        bool is_target) {
  size_t& count = is_target ? target_count_ : golden_count_;
  if (count++ == kSplitTensorsMax) return false;
  entries_.push_back({HashOf(name), sequence, is_target});
  return true;
}

std::vector<GroupSplitter::Name> GroupSplitter::TakeNames() {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) {
              return std::tie(a.hash, a.is_target, a.sequence) <
                     std::tie(b.hash, b.is_target, b.sequence);
            });
  std::vector<Name> out;
  for (const Entry& entry : entries_) {
    if (out.empty() || out.back().hash != entry.hash) {
      // Golden tensors are first, so that this is their sequence if there are
      // any.
      out.push_back({entry.hash, entry.sequence});
    }
    ++(entry.is_target ? out.back().target_count : out.back().golden_count);
  }
  entries_ = {};
  // The order of rows: names of the golden run, then those of only the target.
  std::sort(out.begin(), out.end(), [](const Name& a, const Name& b) {
    const bool a_is_alone = a.golden_count == 0;
    const bool b_is_alone = b.golden_count == 0;
    return std::tie(a_is_alone, a.sequence, a.hash) <
           std::tie(b_is_alone, b.sequence, b.hash);
  });
  return out;
}

std::optional<GroupWindows> GroupSplitter::Split() {
  const std::vector<Name> names = TakeNames();
  GroupWindows out;
  out.names_.reserve(names.size());
  size_t golden_count = 0;
  size_t target_count = 0;
  for (const Name& name : names) {
    if (name.golden_count > kWindowTensorsMax ||
        name.target_count > kWindowTensorsMax) {
      return std::nullopt;
    }
    golden_count += name.golden_count;
    target_count += name.target_count;
    if (out.count_ == 0 || golden_count > kWindowTensorsMax ||
        target_count > kWindowTensorsMax) {
      ++out.count_;
      golden_count = name.golden_count;
      target_count = name.target_count;
    }
    out.names_.push_back({name.hash, static_cast<uint32_t>(out.count_ - 1)});
  }
  std::sort(out.names_.begin(), out.names_.end(),
            [](const GroupWindows::Name& a, const GroupWindows::Name& b) {
              return a.hash < b.hash;
            });
  return out;
}

}  // namespace msitd::compare
