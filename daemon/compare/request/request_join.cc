// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/request_join.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "protos/status/status.h"

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

absl::StatusOr<std::unique_ptr<const RequestJoin>> RequestJoin::Create(
    Requests golden, Requests target, std::vector<std::string> selected,
    std::function<bool(int64_t)> has_token, storage::StopCheck stop) {
  std::unique_ptr<RequestJoin> out(
      new RequestJoin(std::move(golden), std::move(target), std::move(selected),
                      std::move(has_token)));
  MSITD_RETURN_IF_ERROR(out->Join(stop));
  return out;
}

absl::Status RequestJoin::Join(storage::StopCheck stop) {
  Tables tables{TableOf(golden_), TableOf(target_), PairByOrder(), {}};
  for (const auto& [number, requests] : golden_) {
    for (const RequestHistory& request : requests) {
      MSITD_RETURN_IF_ERROR(stop());
      if (IsSelected(request.id)) AddPair(number, request, tables);
    }
  }
  for (const auto& [place, pieces] : pieces_) {
    tokens_[place.first].push_back(place.second);
  }
  Count(tables.renamed);
  return absl::OkStatus();
}

RequestJoin::RequestTable RequestJoin::TableOf(const Requests& requests) {
  RequestTable out;
  for (const auto& [number, histories] : requests) {
    for (const RequestHistory& request : histories) {
      out[request.id].emplace(number, &request);
    }
  }
  return out;
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

RequestJoin::LastTokens RequestJoin::LastTokensOf(const RequestHistory& history,
                                                  const Owners& owners) {
  LastTokens out;
  for (const auto& [first, interval] : owners) {
    const int64_t token = history.pieces[interval.piece].token;
    if (out.empty() || token > out.back().second)
      out.emplace_back(first, token);
  }
  return out;
}

int64_t RequestJoin::SettledAt(const LastTokens& tokens, int64_t token) {
  const auto found = std::upper_bound(
      tokens.begin(), tokens.end(), token,
      [](int64_t value, const auto& entry) { return value < entry.second; });
  return found == tokens.end() ? std::numeric_limits<int64_t>::max()
                               : found->first;
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
                          Tables& tables) {
  Pair pair;
  pair.golden = &golden;
  const auto other = tables.renamed.find(golden.id);
  const auto found = tables.target.find(
      other == tables.renamed.end() ? golden.id : other->second);
  if (found != tables.target.end()) {
    const auto own = found->second.find(number);
    const auto& [target_number, target] =
        own == found->second.end() ? *found->second.begin() : *own;
    pair.target = target;
    pair.target_number = target_number;
    pair.is_of_other_rank = target_number != number &&
                            tables.golden.at(golden.id).contains(target_number);
    std::shared_ptr<const OwnersOfTarget>& known = tables.owners[target];
    if (known == nullptr) {
      OwnersOfTarget owners{OwnersOf(*target), {}};
      owners.last_tokens = LastTokensOf(*target, owners.owners);
      known = std::make_shared<const OwnersOfTarget>(std::move(owners));
    }
    pair.target_owners = known;
  }
  pair.golden_owners = OwnersOf(golden);
  pair.golden_last_tokens = LastTokensOf(golden, pair.golden_owners);
  pair.own_positions.resize(golden.pieces.size());
  for (const auto& [first, interval] : pair.golden_owners) {
    pair.own_positions[interval.piece].push_back({first, interval.end});
  }
  bool has_piece = false;
  for (size_t i = 0; i < golden.pieces.size(); ++i) {
    const int64_t token = golden.pieces[i].token;
    if (has_token_ != nullptr && !has_token_(token)) continue;
    // A request without a counterpart is reported once.
    if (pair.target == nullptr && has_piece) break;
    pieces_[{number, token}].push_back({pairs_.size(), i});
    has_piece = true;
  }
  if (has_piece) pairs_.push_back(std::move(pair));
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
    for (const auto& [first, interval] : pair.target_owners->owners) {
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
  part.is_of_other_rank = pair.is_of_other_rank;
  if (pair.target == nullptr) {
    for (const auto& [first, interval] : pair.golden_owners) {
      part.missing.push_back({first, interval.end});
    }
    out.push_back(std::move(part));
    return;
  }
  part.target_id = pair.target->id;
  part.golden_settled = SettledAt(pair.golden_last_tokens, piece.token);
  const JoinedPart empty = part;
  const size_t first = out.size();
  std::vector<RowRange> missing;
  const auto end_part = [&] {
    if (!part.golden.empty()) {
      part.target_settled = SettledAt(pair.target_owners->last_tokens,
                                      part.target.back().piece.token);
      out.push_back(std::move(part));
    }
    part = empty;
  };
  for (const RowRange& own : pair.own_positions[number]) {
    int64_t next = own.first;
    for (const PieceRange& range :
         RangesIn(*pair.target, pair.target_owners->owners, own)) {
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
    if (next < own.end) missing.push_back({next, own.end});
  }
  end_part();
  if (out.size() > first) out.back().is_last_of_piece = true;
  if (missing.empty()) return;
  part.missing = std::move(missing);
  out.push_back(std::move(part));
}

}  // namespace msitd::compare
