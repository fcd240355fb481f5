// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/request_join.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace msitd::compare {
namespace {

// Ids that clients derive from the first tokens of a sequence; see
// client/python/msitd. Two runs that divide a prompt differently give it
// different ones.
constexpr std::string_view kDerivedIdPrefix = "auto-";

// Returns the ids of `from` that `other` lacks, in the order of their first
// appearance on the first rank that has them.
std::vector<std::string> IdsOnlyIn(const RequestJoin::Requests& from,
                                   const RequestJoin::Requests& other) {
  std::set<std::string_view> seen;
  for (const auto& [number, requests] : other) {
    for (const RequestHistory& request : requests) seen.insert(request.id);
  }
  std::vector<std::string> out;
  for (const auto& [number, requests] : from) {
    for (const RequestHistory& request : requests) {
      if (seen.insert(request.id).second) out.push_back(request.id);
    }
  }
  return out;
}

size_t CountIds(const RequestJoin::Requests& requests) {
  return IdsOnlyIn(requests, {}).size();
}

bool AreDerived(const std::vector<std::string>& ids) {
  return std::all_of(ids.begin(), ids.end(), [](const std::string& id) {
    return id.starts_with(kDerivedIdPrefix);
  });
}

uint64_t SizeOf(const std::vector<PieceRange>& ranges) {
  uint64_t out = 0;
  for (const PieceRange& range : ranges) {
    out += static_cast<uint64_t>(range.positions.size());
  }
  return out;
}

}  // namespace

RequestJoin::RequestJoin(Requests golden, Requests target,
                         std::vector<std::string> selected)
    : golden_(std::move(golden)),
      target_(std::move(target)),
      selected_(std::move(selected)) {
  const std::map<std::string, std::string> renamed = PairByOrder();
  TargetTable targets;
  for (const auto& [number, requests] : target_) {
    for (const RequestHistory& request : requests) {
      targets[request.id].emplace(number, &request);
    }
  }
  for (const auto& [number, requests] : golden_) {
    for (const RequestHistory& request : requests) {
      if (IsSelected(request.id)) AddPair(number, request, renamed, targets);
    }
  }
  for (const auto& [place, pieces] : pieces_) {
    tokens_[place.first].push_back(place.second);
  }
  Count(renamed);
}

RequestJoin::Owners RequestJoin::OwnersOf(const RequestHistory& history) {
  Owners out;
  for (size_t i = 0; i < history.pieces.size(); ++i) {
    const RowRange& range = history.pieces[i].positions;
    // Earlier pieces keep what is before and after the range.
    auto next = out.lower_bound(range.first);
    if (next != out.begin()) {
      const auto before = std::prev(next);
      const Interval old = before->second;
      if (old.end > range.first) before->second.end = range.first;
      if (old.end > range.end) {
        next = out.emplace(range.end, Interval{old.end, old.piece}).first;
      }
    }
    while (next != out.end() && next->first < range.end) {
      const Interval old = next->second;
      next = out.erase(next);
      if (old.end > range.end) {
        next = out.emplace(range.end, Interval{old.end, old.piece}).first;
      }
    }
    out.emplace(range.first, Interval{range.end, i});
  }
  return out;
}

std::vector<PieceRange> RequestJoin::RangesIn(const RequestHistory& history,
                                              const Owners& owners,
                                              RowRange within) {
  std::vector<PieceRange> out;
  auto it = owners.upper_bound(within.first);
  if (it != owners.begin()) --it;
  for (; it != owners.end() && it->first < within.end; ++it) {
    const RowRange range{std::max(it->first, within.first),
                         std::min(it->second.end, within.end)};
    if (range.first >= range.end) continue;
    out.push_back({history.pieces[it->second.piece], range});
  }
  return out;
}

std::map<std::string, std::string> RequestJoin::PairByOrder() const {
  const std::vector<std::string> golden = IdsOnlyIn(golden_, target_);
  const std::vector<std::string> target = IdsOnlyIn(target_, golden_);
  const bool have_none_in_common = golden.size() == CountIds(golden_);
  const bool are_derived = AreDerived(golden) && AreDerived(target);
  std::map<std::string, std::string> out;
  if (golden.size() != target.size() || !(have_none_in_common || are_derived)) {
    return out;
  }
  for (size_t i = 0; i < golden.size(); ++i) out.emplace(golden[i], target[i]);
  return out;
}

void RequestJoin::AddPair(int32_t number, const RequestHistory& golden,
                          const std::map<std::string, std::string>& renamed,
                          const TargetTable& targets) {
  Pair pair;
  pair.golden = &golden;
  const auto other = renamed.find(golden.id);
  const auto found =
      targets.find(other == renamed.end() ? golden.id : other->second);
  if (found != targets.end()) {
    const auto own = found->second.find(number);
    const auto& [target_number, target] =
        own == found->second.end() ? *found->second.begin() : *own;
    pair.target = target;
    pair.target_number = target_number;
  }
  pair.golden_owners = OwnersOf(golden);
  if (pair.target != nullptr) pair.target_owners = OwnersOf(*pair.target);
  for (size_t i = 0; i < golden.pieces.size(); ++i) {
    // A request without a counterpart is reported once.
    if (pair.target == nullptr && i > 0) break;
    pieces_[{number, golden.pieces[i].token}].push_back({pairs_.size(), i});
  }
  pairs_.push_back(std::move(pair));
}

bool RequestJoin::IsSelected(const std::string& id) const {
  return selected_.empty() ||
         std::find(selected_.begin(), selected_.end(), id) != selected_.end();
}

void RequestJoin::Count(const std::map<std::string, std::string>& renamed) {
  const auto is_selected = [this](const std::string& id) {
    return IsSelected(id);
  };
  const std::vector<std::string> all = IdsOnlyIn(golden_, {});
  const std::vector<std::string> lone = IdsOnlyIn(golden_, target_);
  const auto count = [&](const std::vector<std::string>& ids) {
    return static_cast<size_t>(
        std::count_if(ids.begin(), ids.end(), is_selected));
  };
  paired_by_order_count_ = static_cast<size_t>(
      std::count_if(renamed.begin(), renamed.end(),
                    [&](const auto& pair) { return is_selected(pair.first); }));
  golden_only_count_ = count(lone) - paired_by_order_count_;
  joined_count_ = count(all) - golden_only_count_;
  if (selected_.empty()) {
    target_only_count_ = IdsOnlyIn(target_, golden_).size() - renamed.size();
  }
  std::set<std::string_view> counted;
  for (const Pair& pair : pairs_) {
    if (pair.target == nullptr || !counted.insert(pair.golden->id).second) {
      continue;
    }
    for (const auto& [first, interval] : pair.target_owners) {
      const RowRange range{first, interval.end};
      target_only_positions_ +=
          static_cast<uint64_t>(range.size()) -
          SizeOf(RangesIn(*pair.golden, pair.golden_owners, range));
    }
  }
}

std::vector<JoinedPart> RequestJoin::PartsOf(int32_t number,
                                             int64_t token) const {
  std::vector<JoinedPart> out;
  const auto found = pieces_.find({number, token});
  if (found == pieces_.end()) return out;
  for (const PieceOfPair& one : found->second) {
    const Pair& pair = pairs_[one.pair];
    AddParts(pair, pair.golden->pieces[one.piece], one.piece, out);
  }
  return out;
}

void RequestJoin::AddParts(const Pair& pair, const RequestPiece& piece,
                           size_t number, std::vector<JoinedPart>& out) const {
  JoinedPart part;
  part.golden_id = pair.golden->id;
  part.target_number = pair.target_number;
  if (pair.target == nullptr) {
    for (const auto& [first, interval] : pair.golden_owners) {
      part.missing.push_back({first, interval.end});
    }
    out.push_back(std::move(part));
    return;
  }
  part.target_id = pair.target->id;
  const JoinedPart empty = part;
  std::vector<RowRange> missing;
  const auto end_part = [&] {
    if (!part.golden.empty()) out.push_back(std::move(part));
    part = empty;
  };
  auto it = pair.golden_owners.lower_bound(piece.positions.first);
  for (; it != pair.golden_owners.end() && it->first < piece.positions.end;
       ++it) {
    if (it->second.piece != number) continue;
    int64_t next = it->first;
    for (const PieceRange& range : RangesIn(*pair.target, pair.target_owners,
                                            {it->first, it->second.end})) {
      if (range.positions.first > next) {
        missing.push_back({next, range.positions.first});
      }
      next = range.positions.end;
      if (part.target.size() == kJoinedTokensMax) end_part();
      if (!part.golden.empty() &&
          part.golden.back().positions.end == range.positions.first) {
        part.golden.back().positions.end = range.positions.end;
      } else {
        part.golden.push_back({piece, range.positions});
      }
      part.target.push_back(range);
    }
    if (next < it->second.end) missing.push_back({next, it->second.end});
  }
  end_part();
  if (missing.empty()) return;
  part.missing = std::move(missing);
  out.push_back(std::move(part));
}

}  // namespace msitd::compare
