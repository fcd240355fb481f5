// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "protos/base/check.h"

namespace msitd::compare {
namespace {

auto OrderOf(const v1::ComparisonRow& row) {
  return std::tuple(row.token(), row.sequence(), row.rank(), row.row());
}

v1::ComparisonRow Parse(const std::string& bytes) {
  v1::ComparisonRow row;
  MSITD_CHECK(row.ParseFromString(bytes));
  return row;
}

// True if the target has more NaN or infinities than the golden tensor, as far
// as both are known.
bool TurnsNonFinite(const v1::ComparisonRow& row) {
  if (row.has_golden() && !row.golden().has_nan_count()) return false;
  return row.has_target() &&
         (row.target().nan_count() > row.golden().nan_count() ||
          row.target().infinity_count() > row.golden().infinity_count());
}

bool IsKnown(const v1::Maker& maker) {
  return maker.kind() != v1::Maker::DRIFT &&
         maker.kind() != v1::Maker::NOT_KNOWN;
}

// True if both are the same maker, though maybe of different ranks.
bool IsAlike(const v1::Maker& a, const v1::Maker& b) {
  return a.kind() == b.kind() && a.op() == b.op() && a.after() == b.after() &&
         a.before() == b.before() && a.row().io() == b.row().io() &&
         a.row().index() == b.row().index() && a.row().call() == b.row().call();
}

}  // namespace

bool IsNonFiniteOnBothSides(const v1::ComparisonRow& row) {
  const auto is_non_finite = [](const v1::ComparedTensor& side) {
    return side.nan_count() > 0 || side.infinity_count() > 0;
  };
  return is_non_finite(row.golden()) && is_non_finite(row.target());
}

bool IsAllowedUnmatched(const v1::ComparisonRow& row) {
  return row.verdict() == v1::SKIPPED && row.has_golden() != row.has_target();
}

void Findings::Offer(const v1::ComparisonRow& row, const std::string& bytes,
                     std::optional<v1::ComparisonRow>& first) {
  if (first.has_value() && OrderOf(*first) <= OrderOf(row)) return;
  first = Parse(bytes);
  changed_ = true;
}

void Findings::AddRow(const v1::ComparisonRow& row, const std::string& bytes,
                      bool has_equal_values) {
  const bool is_judged = row.verdict() == v1::PASS || row.verdict() == v1::FAIL;
  // Bytes that are not kept differ all the same.
  const bool has_other_hash = row.verdict() == v1::SKIPPED &&
                              row.golden().dtype() == row.target().dtype() &&
                              !row.golden().hash().empty() &&
                              !row.target().hash().empty() &&
                              row.golden().hash() != row.target().hash();
  if (((is_judged && !has_equal_values) || has_other_hash) &&
      !unordered_run_.has_value()) {
    Offer(row, bytes, inequality_);
  }
  if (TurnsNonFinite(row)) Offer(row, bytes, non_finite_);
  if (IsNonFiniteOnBothSides(row)) Offer(row, bytes, both_non_finite_);
  if (row.verdict() == v1::SKIPPED && !IsAllowedUnmatched(row)) {
    Offer(row, bytes, skipped_);
  }
  if (row.not_compared()) Offer(row, bytes, not_compared_);
  if (row.verdict() == v1::UNMATCHED && !row.for_want_of_ranks()) {
    Offer(row, bytes, unmatched_);
  }
  if (row.verdict() != v1::FAIL) return;
  if (!candidates_.empty() && row.token() > token_) return;
  if (!candidates_.empty() && row.token() < token_) {
    candidates_.clear();
    among_.clear();
    ranking_.reset();
  }
  token_ = row.token();
  if (unordered_run_.has_value()) AddAmong(row, bytes);
  const auto found = candidates_.find(row.rank());
  if (found == candidates_.end()) {
    if (candidates_.size() == kFailingRanksMax) return;
    candidates_[row.rank()].row = Parse(bytes);
  } else if (OrderOf(row) < OrderOf(found->second.row)) {
    found->second.row = Parse(bytes);
  } else {
    return;
  }
  changed_ = true;
}

void Findings::AddAmong(const v1::ComparisonRow& row,
                        const std::string& bytes) {
  const auto at = std::upper_bound(
      among_.begin(), among_.end(), row,
      [](const v1::ComparisonRow& a, const v1::ComparisonRow& b) {
        return OrderOf(a) < OrderOf(b);
      });
  constexpr size_t kRowsMax = size_t{kConcurrentMax} + 1;
  if (at == among_.end() && among_.size() == kRowsMax) return;
  among_.insert(at, Parse(bytes));
  if (among_.size() > kRowsMax) among_.pop_back();
  changed_ = true;
}

bool Findings::WantsMaker(const v1::ComparisonRow& row) const {
  if (row.token() != token_ || unordered_run_.has_value()) return false;
  const auto found = candidates_.find(row.rank());
  return found != candidates_.end() && !found->second.failure.has_value();
}

void Findings::SetMaker(const v1::ComparisonRow& row, Failure failure) {
  candidates_[row.rank()].failure = std::move(failure);
  changed_ = true;
}

void Findings::SetInputDifference(const v1::ComparisonRow& row,
                                  const std::string& bytes,
                                  std::string difference) {
  if (input_difference_.has_value() &&
      OrderOf(input_difference_->row()) <= OrderOf(row)) {
    return;
  }
  input_difference_.emplace();
  *input_difference_->mutable_row() = Parse(bytes);
  input_difference_->set_difference(std::move(difference));
  changed_ = true;
}

bool Findings::WantsOrder() const {
  return candidates_.size() > 1 && !unordered_run_.has_value() &&
         (!ranking_.has_value() || ordered_count_ != candidates_.size());
}

std::vector<int32_t> Findings::FailingRanks() const {
  std::vector<int32_t> ranks;
  for (const auto& [rank, candidate] : candidates_) ranks.push_back(rank);
  return ranks;
}

bool Findings::MakesPartOf(int32_t rank, int32_t other) const {
  const auto& part = candidates_.at(rank).failure;
  const auto& whole = candidates_.at(other).failure;
  if (!part.has_value() || !whole.has_value()) return false;
  const std::string& op = whole->maker.op();
  const std::string& inner = part->maker.op();
  return !op.empty() && inner.size() > op.size() && inner[op.size()] == '.' &&
         inner.compare(0, op.size(), op) == 0;
}

std::vector<int32_t> Findings::FirstOf(const RankOrder& order,
                                       bool of_makers) const {
  struct Entry {
    RankOrder::Moment at;
    bool is_known = true;
    std::map<int32_t, int32_t> behind;
  };
  std::vector<Entry> entries;
  for (const auto& [rank, candidate] : candidates_) {
    if (of_makers && !candidate.failure.has_value()) continue;
    const Failure none;
    const Failure& failure = candidate.failure.value_or(none);
    const bool is_known = !of_makers || IsKnown(failure.maker);
    entries.push_back(
        {{rank, of_makers && is_known ? failure.position : failure.failed},
         is_known,
         {}});
    entries.back().behind = order.PositionsFrom(entries.back().at);
  }
  const auto is_before = [](const Entry& a, const Entry& b) {
    const auto there = a.behind.find(b.at.rank);
    const auto back = b.behind.find(a.at.rank);
    return there != a.behind.end() && there->second <= b.at.position &&
           (back == b.behind.end() || back->second > a.at.position);
  };
  const auto loses = [&](const Entry& entry) {
    return std::any_of(entries.begin(), entries.end(), [&](const Entry& other) {
      if (&other == &entry) return false;
      if (is_before(other, entry)) return true;
      return of_makers && !is_before(entry, other) &&
             MakesPartOf(other.at.rank, entry.at.rank);
    });
  };
  std::vector<const Entry*> first;
  for (const Entry& entry : entries) {
    if (!loses(entry)) first.push_back(&entry);
  }
  // The order of concurrent ones: known makers before others; then what comes
  // first by its name where both ranks do the same; then the lower rank.
  const auto leads = [&](const Entry* a, const Entry* b) {
    if (a->is_known != b->is_known) return a->is_known;
    const int32_t there = order.PositionOfName(a->at, b->at.rank);
    if (there >= 0 && there != b->at.position) return there < b->at.position;
    return a->at.rank < b->at.rank;
  };
  std::vector<int32_t> ranks;
  while (!first.empty()) {
    auto best = first.begin();
    for (auto it = first.begin(); it != first.end(); ++it) {
      if (leads(*it, *best)) best = it;
    }
    ranks.push_back((*best)->at.rank);
    first.erase(best);
  }
  return ranks;
}

void Findings::SetOrder(const RankOrder& order) {
  ranking_ = Ranking{FirstOf(order, false), FirstOf(order, true)};
  ordered_count_ = candidates_.size();
  changed_ = true;
}

Findings::Ranking Findings::BySequence() const {
  if (candidates_.empty()) return {};
  const auto first = std::min_element(
      candidates_.begin(), candidates_.end(), [](const auto& a, const auto& b) {
        return OrderOf(a.second.row) < OrderOf(b.second.row);
      });
  return {{first->first}, {first->first}};
}

void Findings::ShowMakers(v1::Comparison& comparison) const {
  const Ranking ranking = ranking_.value_or(BySequence());
  for (const int32_t rank : ranking.makers) {
    const auto found = candidates_.find(rank);
    if (found == candidates_.end() || !found->second.failure.has_value()) {
      continue;
    }
    const v1::Maker& maker = found->second.failure->maker;
    auto& makers = *comparison.mutable_makers();
    const auto alike = std::find_if(
        makers.begin(), makers.end(),
        [&maker](const v1::Maker& other) { return IsAlike(maker, other); });
    if (alike != makers.end()) {
      if (alike->ranks_size() < kAlikeRanksMax) alike->add_ranks(rank);
    } else if (makers.size() < kConcurrentMax) {
      *makers.Add() = maker;
    }
  }
  if (comparison.makers_size() > 0 && IsKnown(comparison.makers(0))) {
    *comparison.mutable_first_origin() = comparison.makers(0).row();
  }
}

void Findings::ShowAmong(v1::Comparison& comparison) const {
  if (among_.empty()) return;
  *comparison.mutable_first_divergence() = among_.front();
  for (size_t i = 1; i < among_.size(); ++i) {
    *comparison.add_concurrent_divergences() = among_[i];
  }
  v1::Maker& maker = *comparison.add_makers();
  maker.set_kind(v1::Maker::NOT_KNOWN);
  *maker.mutable_row() = among_.front();
  maker.set_note(fmt::format(
      "run {} does not record in which order its tensors were computed",
      *unordered_run_));
}

void Findings::Show(v1::Comparison& comparison) const {
  changed_ = false;
  comparison.clear_first_divergence();
  comparison.clear_concurrent_divergences();
  comparison.clear_first_origin();
  comparison.clear_makers();
  const Ranking ranking =
      unordered_run_.has_value() ? Ranking() : ranking_.value_or(BySequence());
  for (const int32_t rank : ranking.divergences) {
    const v1::ComparisonRow& row = candidates_.at(rank).row;
    if (!comparison.has_first_divergence()) {
      *comparison.mutable_first_divergence() = row;
    } else if (comparison.concurrent_divergences_size() < kConcurrentMax) {
      *comparison.add_concurrent_divergences() = row;
    }
  }
  if (inequality_) *comparison.mutable_first_inequality() = *inequality_;
  if (non_finite_) *comparison.mutable_first_non_finite() = *non_finite_;
  if (both_non_finite_) {
    *comparison.mutable_first_both_non_finite() = *both_non_finite_;
  }
  if (unmatched_) *comparison.mutable_first_unmatched() = *unmatched_;
  if (skipped_) *comparison.mutable_first_skipped() = *skipped_;
  if (not_compared_) {
    *comparison.mutable_first_not_compared() = *not_compared_;
  }
  if (input_difference_) {
    *comparison.mutable_input_difference() = *input_difference_;
  }
  // Other inputs of the model make all that follows.
  if (unordered_run_.has_value()) {
    ShowAmong(comparison);
  } else if (!input_difference_ || token_ < input_difference_->row().token()) {
    ShowMakers(comparison);
  }
}

}  // namespace msitd::compare
