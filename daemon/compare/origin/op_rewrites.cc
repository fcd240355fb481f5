// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/op_rewrites.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "protos/base/digits.h"

namespace msitd::compare {
namespace {

using Parts = std::vector<std::string_view>;

// Names that are considered for candidates, and partners of each.
constexpr size_t kSampledMax = 256;
constexpr size_t kPartnersMax = 32;
// Candidates that are tried on all names.
constexpr size_t kTriedMax = 64;
// Parts of a name that a substitution may remove or insert.
constexpr size_t kEditedPartsMax = 4;

Parts Split(std::string_view op) {
  Parts out;
  while (true) {
    const size_t dot = op.find('.');
    out.push_back(op.substr(0, dot));
    if (dot == std::string_view::npos) return out;
    op.remove_prefix(dot + 1);
  }
}

std::string Join(std::span<const std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) {
    if (!out.empty()) out += '.';
    out += part;
  }
  return out;
}

// Replaces whole parts of a name.
struct Edit {
  bool is_prefix = false;  // Only at the beginning, and not all of the name.
  std::string from;        // Parts, separated by dots. May be empty.
  std::string to;

  auto operator<=>(const Edit&) const = default;

  // Returns the changed name, or an empty text if the edit does not apply.
  std::string Applied(std::string_view op) const {
    return is_prefix ? AppliedToPrefix(op) : AppliedInside(op);
  }

  OpRewrite ToRewrite() const;

 private:
  std::string AppliedToPrefix(std::string_view op) const {
    if (!from.empty()) {
      if (!op.starts_with(from) || op.size() <= from.size() ||
          op[from.size()] != '.') {
        return "";
      }
      op.remove_prefix(from.size() + 1);
    }
    return to.empty() ? std::string(op) : fmt::format("{}.{}", to, op);
  }

  // Not at the first part: substitutions there are prefixes.
  std::string AppliedInside(std::string_view op) const {
    std::string out;
    size_t copied = 0;
    const std::string searched = "." + from;
    for (size_t at = op.find(searched); at != std::string_view::npos;
         at = op.find(searched, at + 1)) {
      const size_t end = at + searched.size();
      // The expression consumes the dot after a match, so it leaves the second
      // of two adjacent ones.
      const bool is_adjacent = copied > 0 && at <= copied;
      if (is_adjacent || (end < op.size() && op[end] != '.')) continue;
      out += op.substr(copied, at - copied);
      if (!to.empty()) out += "." + to;
      copied = end;
    }
    return copied == 0 ? "" : out + std::string(op.substr(copied));
  }
};

std::string Escaped(std::string_view op) {
  std::string out;
  for (const char c : op) {
    const bool is_plain = c == '_' || (c >= '0' && c <= '9') ||
                          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_plain) out += '\\';
    out += c;
  }
  return out;
}

OpRewrite Edit::ToRewrite() const {
  if (!is_prefix) {
    return {fmt::format("\\.{}(\\.|$)", Escaped(from)),
            to.empty() ? "\\1" : fmt::format(".{}\\1", to)};
  }
  const std::string end = from.empty() ? "" : Escaped(from) + "\\.";
  return {"^" + end, to.empty() ? "" : to + "."};
}

// In a shell, a quote would end the text. A backslash would refer to a group.
bool IsQuotable(std::string_view op) {
  return op.find_first_of("'\\") == std::string_view::npos;
}

bool HasNumber(std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [](std::string_view part) { return IsDigits(part); });
}

// A difference between two names: parts of one in place of parts of the other.
struct Hunk {
  std::span<const std::string_view> from;
  std::span<const std::string_view> to;
  bool is_at_end = false;
};

// Aligns two names by their longest common subsequence of parts, and returns
// the differences in order.
std::vector<Hunk> Differences(const Parts& from, const Parts& to) {
  const size_t columns = to.size() + 1;
  // Lengths of the subsequences of the remaining parts.
  std::vector<size_t> lengths((from.size() + 1) * columns, 0);
  for (size_t i = from.size(); i-- > 0;) {
    for (size_t j = to.size(); j-- > 0;) {
      lengths[i * columns + j] = from[i] == to[j]
                                     ? lengths[(i + 1) * columns + j + 1] + 1
                                     : std::max(lengths[(i + 1) * columns + j],
                                                lengths[i * columns + j + 1]);
    }
  }
  std::vector<Hunk> out;
  size_t i = 0;
  size_t j = 0;
  while (i < from.size() || j < to.size()) {
    const size_t first_i = i;
    const size_t first_j = j;
    while (i < from.size() || j < to.size()) {
      const bool has_both = i < from.size() && j < to.size();
      if (has_both && from[i] == to[j]) break;
      const bool skips_from =
          j == to.size() ||
          (i < from.size() &&
           lengths[(i + 1) * columns + j] >= lengths[i * columns + j + 1]);
      ++(skips_from ? i : j);
    }
    if (i > first_i || j > first_j) {
      out.push_back({std::span(from).subspan(first_i, i - first_i),
                     std::span(to).subspan(first_j, j - first_j),
                     i == from.size() && j == to.size()});
    }
    while (i < from.size() && j < to.size() && from[i] == to[j]) {
      ++i;
      ++j;
    }
  }
  return out;
}

// Layers with other numbers are other layers, although their parts have equal
// names.
bool IsUsable(const Hunk& hunk) {
  return hunk.from.size() <= kEditedPartsMax &&
         hunk.to.size() <= kEditedPartsMax &&
         !(HasNumber(hunk.from) && HasNumber(hunk.to));
}

class Finder {
 public:
  Finder(const OpNames& golden, const OpNames& target) {
    for (const std::string& op : golden) {
      if (IsQuotable(op)) golden_.insert(op);
    }
    for (const std::string& op : target) {
      if (IsQuotable(op)) target_.insert(op);
    }
    if (std::min(golden_.size(), target_.size()) == 1) needed_min_ = 1;
    for (const std::string& op : golden_) {
      for (const std::string_view end : EndsOf(Split(op))) {
        by_end_[std::string(end)].push_back(op);
      }
    }
  }

  std::vector<OpRewrite> Find() {
    std::vector<OpRewrite> out;
    const size_t smaller = std::min(golden_.size(), target_.size());
    size_t paired_count = 0;
    while (out.size() < kSuggestedRewritesMax) {
      const std::optional<Edit> edit =
          Best(std::max<size_t>(smaller / 5, needed_min_));
      if (!edit.has_value()) break;
      paired_count += Apply(*edit);
      out.push_back(edit->ToRewrite());
      out.back().paired_count = paired_count;
    }
    // A substitution that pairs nothing may prepare the next one.
    const auto gains_nothing = [&out](size_t count) {
      return out.back().paired_count ==
             (count == 1 ? 0 : out[count - 2].paired_count);
    };
    while (!out.empty() && gains_nothing(out.size())) out.pop_back();
    if (paired_count < std::max<size_t>((smaller + 1) / 2, needed_min_)) {
      out.clear();
    }
    return out;
  }

 private:
  // The last two parts of a name. A wrapper may be at the end of one.
  static Parts EndsOf(const Parts& parts) {
    const size_t first = parts.size() < 2 ? 0 : parts.size() - 2;
    return Parts(parts.begin() + static_cast<std::ptrdiff_t>(first),
                 parts.end());
  }

  // Adds the edits that would bring one target op closer to a golden op.
  void AddEdits(const Parts& from, const Parts& to,
                std::set<Edit>& edits) const {
    const std::vector<Hunk> hunks = Differences(from, to);
    if (!std::all_of(hunks.begin(), hunks.end(), &IsUsable)) return;
    // Two single ops with different parts need not be the same op.
    const bool is_wrapper =
        hunks.size() == 1 && (hunks[0].from.empty() || hunks[0].to.empty());
    if (needed_min_ == 1 && !is_wrapper) return;
    for (const Hunk& hunk : hunks) {
      // Parts before the hunk, which are the same as in the golden op only
      // before the first one.
      const auto prefix = static_cast<size_t>(hunk.from.data() - from.data());
      if (&hunk == &hunks.front() && !hunk.is_at_end) {
        edits.insert({true,
                      Join(std::span(from).first(prefix + hunk.from.size())),
                      Join(std::span(to).first(prefix + hunk.to.size()))});
      }
      if (prefix > 0 && !hunk.from.empty()) {
        edits.insert({false, Join(hunk.from), Join(hunk.to)});
      }
    }
  }

  // Returns candidates with the numbers of target ops that have them, most
  // frequent first.
  std::vector<std::pair<Edit, size_t>> Candidates() const {
    std::map<Edit, size_t> votes;
    const size_t step = std::max<size_t>(target_.size() / kSampledMax, 1);
    size_t number = 0;
    for (const std::string& op : target_) {
      if (number++ % step != 0) continue;
      const Parts parts = Split(op);
      std::set<Edit> edits;
      for (const std::string_view end : EndsOf(parts)) {
        const auto found = by_end_.find(end);
        if (found == by_end_.end()) continue;
        const size_t count = std::min(found->second.size(), kPartnersMax);
        for (size_t i = 0; i < count; ++i) {
          const std::string& partner = found->second[i];
          if (golden_.contains(partner)) AddEdits(parts, Split(partner), edits);
        }
      }
      for (const Edit& edit : edits) ++votes[edit];
    }
    std::vector<std::pair<Edit, size_t>> out(votes.begin(), votes.end());
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
      return a.second > b.second;
    });
    if (out.size() > kTriedMax) out.resize(kTriedMax);
    return out;
  }

  // Returns the edit that pairs most target ops, if it pairs at least `needed`.
  // Otherwise returns the most frequent candidate, which may have to be
  // combined with others. Prefers prefixes, which change least, and short
  // edits.
  std::optional<Edit> Best(size_t needed) const {
    const std::vector<std::pair<Edit, size_t>> candidates = Candidates();
    const auto is_simpler = [](const Edit& a, const Edit& b) {
      if (a.is_prefix != b.is_prefix) return a.is_prefix;
      return a.from.size() + a.to.size() < b.from.size() + b.to.size();
    };
    const Edit* best = nullptr;
    const Edit* frequent = nullptr;
    size_t best_count = 0;
    size_t frequent_count = 0;
    for (const auto& [edit, votes] : candidates) {
      size_t count = 0;
      for (const std::string& op : target_) {
        count += golden_.contains(edit.Applied(op)) ? 1 : 0;
      }
      if (count > best_count ||
          (best != nullptr && count == best_count && is_simpler(edit, *best))) {
        best = &edit;
        best_count = count;
      }
      if (votes > frequent_count ||
          (votes == frequent_count && is_simpler(edit, *frequent))) {
        frequent = &edit;
        frequent_count = votes;
      }
    }
    if (best_count >= needed) return *best;
    return frequent_count >= needed ? std::optional(*frequent) : std::nullopt;
  }

  // Removes the paired ops, changes the names of the others, and returns the
  // number of pairs.
  size_t Apply(const Edit& edit) {
    OpNames rest;
    size_t paired_count = 0;
    for (const std::string& op : target_) {
      const std::string changed = edit.Applied(op);
      if (changed.empty()) {
        rest.insert(op);
      } else if (golden_.erase(changed) == 0) {
        rest.insert(changed);
      } else {
        ++paired_count;
      }
    }
    target_ = std::move(rest);
    return paired_count;
  }

  OpNames golden_;
  OpNames target_;
  size_t needed_min_ = 2;  // Ops that a substitution must pair.
  // Names of golden ops by each of their last two parts.
  std::map<std::string, std::vector<std::string>, std::less<>> by_end_;
};

}  // namespace

std::string OpRewrite::Flag() const {
  return fmt::format("--rewrite '{}=>{}'", regex, replacement);
}

std::vector<OpRewrite> FindRewrites(const OpNames& golden,
                                    const OpNames& target) {
  return Finder(golden, target).Find();
}

}  // namespace msitd::compare
