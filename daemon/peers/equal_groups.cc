// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/equal_groups.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::peers {
namespace {

absl::Status TooMany() {
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "a run of more than {} ranks and tokens, or {} devices",
                    kComparedGroupsMax, kComparedDevicesMax);
}

// Returns whether both select the same devices and the same tokens.
bool DifferInRanksAlone(const Selector& a, const Selector& b) {
  return a.devices == b.devices && a.tokens == b.tokens;
}

void AddToken(int64_t token, std::vector<TokenRange>& ranges) {
  if (!ranges.empty() && ranges.back().last + 1 == token) {
    ranges.back().last = token;
  } else {
    ranges.push_back({token, token});
  }
}

}  // namespace

uint32_t EqualGroups::DeviceOf(const std::string& name) {
  const auto [found, is_new] =
      device_numbers_.try_emplace(name, static_cast<uint32_t>(devices_.size()));
  if (is_new) devices_.push_back(name);
  return found->second;
}

absl::Status EqualGroups::AddOther(const query::GroupDigest& group) {
  if (others_.size() == kComparedGroupsMax) return TooMany();
  others_.push_back({group.at.rank, DeviceOf(group.at.device), group.at.token,
                     group.record_count, group.hash});
  return absl::OkStatus();
}

void EqualGroups::SortOthers() {
  if (std::exchange(are_others_sorted_, true)) return;
  std::sort(others_.begin(), others_.end(), [](const Other& a, const Other& b) {
    return std::tie(a.rank, a.device, a.token) <
           std::tie(b.rank, b.device, b.token);
  });
}

bool EqualGroups::IsEqual(const query::GroupDigest& group,
                          uint32_t device) const {
  const std::tuple key(group.at.rank, device, group.at.token);
  const auto found = std::lower_bound(
      others_.begin(), others_.end(), key, [](const Other& a, const auto& b) {
        return std::tuple(a.rank, a.device, a.token) < b;
      });
  return found != others_.end() &&
         std::tuple(found->rank, found->device, found->token) == key &&
         found->record_count == group.record_count && found->hash == group.hash;
}

absl::Status EqualGroups::Add(const query::GroupDigest& group) {
  SortOthers();
  if (groups_.size() == kComparedGroupsMax ||
      devices_.size() > kComparedDevicesMax) {
    return TooMany();
  }
  if (group.at.device.size() > kDeviceBytesMax || group.at.rank < 0 ||
      group.at.rank > kRankMax || group.at.token < 0 ||
      group.at.token > kTokenMax) {
    return absl::DataLossError("the digest of no rank, device and token");
  }
  const uint32_t device = DeviceOf(group.at.device);
  const bool is_of_section = !groups_.empty() &&
                             groups_.back().rank == group.at.rank &&
                             groups_.back().device == device;
  const bool is_of_rank =
      !groups_.empty() && groups_.back().rank == group.at.rank;
  if (!is_of_rank) devices_of_rank_.clear();
  if (!groups_.empty() &&
      (groups_.back().rank > group.at.rank ||
       (is_of_section && groups_.back().token >= group.at.token) ||
       (!is_of_section && !devices_of_rank_.insert(device).second))) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "the digest of rank {}, token {} is out of order",
                      group.at.rank, group.at.token);
  }
  if (groups_.empty()) devices_of_rank_.insert(device);
  if (!is_of_section) sections_.push_back(groups_.size());
  Group& added = groups_.emplace_back();
  added.rank = group.at.rank;
  added.device = device;
  added.token = group.at.token;
  added.is_equal = IsEqual(group, device);
  return absl::OkStatus();
}

void EqualGroups::Finish() {
  others_ = {};
  sections_.push_back(groups_.size());
}

size_t EqualGroups::FirstSectionOf(int32_t rank) const {
  const auto found =
      std::lower_bound(sections_.begin(), sections_.end() - 1, rank,
                       [this](size_t begin, int32_t wanted) {
                         return groups_[begin].rank < wanted;
                       });
  return static_cast<size_t>(found - sections_.begin());
}

std::vector<EqualGroups::Piece> EqualGroups::Cut(
    const Selector& selector) const {
  std::vector<Piece> out;
  Selector rest = selector;
  size_t i = 0;
  if (!selector.ranks.empty()) {
    const int32_t rank =
        *std::min_element(selector.ranks.begin(), selector.ranks.end());
    i = FirstSectionOf(rank);
  }
  const int32_t last_rank =
      selector.ranks.empty()
          ? kRankMax
          : *std::max_element(selector.ranks.begin(), selector.ranks.end());
  for (; i + 1 < sections_.size(); ++i) {
    const Group& first = groups_[sections_[i]];
    if (first.rank > last_rank) break;
    const std::string& device = devices_[first.device];
    if (!selector.HasRank(first.rank) || !selector.HasDevice(device)) continue;
    const auto begin = groups_.begin() + static_cast<ptrdiff_t>(sections_[i]);
    const auto end = groups_.begin() + static_cast<ptrdiff_t>(sections_[i + 1]);
    // Pieces of this rank and device begin at `own`.
    const size_t own = out.size();
    const auto take = [&](const Group& group) {
      const bool fits =
          out.size() > own && out.back().is_equal == group.is_equal &&
          out.back().selector.tokens.size() < Selector::kTokenRangesMax;
      if (!fits) {
        Piece& piece = out.emplace_back();
        piece.is_equal = group.is_equal;
        piece.selector = rest;
        piece.selector.ranks = {group.rank};
        piece.selector.devices = {device};
        piece.selector.tokens.clear();
      }
      AddToken(group.token, out.back().selector.tokens);
    };
    if (selector.tokens.size() == 1) {
      auto at = std::lower_bound(begin, end, selector.tokens[0].first,
                                 [](const Group& group, int64_t token) {
                                   return group.token < token;
                                 });
      for (; at != end && at->token <= selector.tokens[0].last; ++at) take(*at);
    } else {
      for (auto at = begin; at != end; ++at) {
        if (selector.HasToken(at->token)) take(*at);
      }
    }
    // Ranks with identical tokens are merged into one piece.
    if (own > 0 && out.size() == own + 1 &&
        out[own - 1].is_equal == out[own].is_equal &&
        DifferInRanksAlone(out[own - 1].selector, out[own].selector) &&
        out[own - 1].selector.ranks.size() < Selector::kRanksMax) {
      out[own - 1].selector.ranks.push_back(first.rank);
      out.pop_back();
    }
  }
  return out;
}

}  // namespace msitd::peers
