// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "protos/base/check.h"
#include "protos/status/status.h"

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

// Returns whether the target has more NaN or infinities than the golden tensor,
// if both numbers are known.
bool TurnsNonFinite(const v1::ComparisonRow& row) {
  if (row.has_golden() && !row.golden().has_nan_count()) return false;
  return row.has_target() &&
         (row.target().nan_count() > row.golden().nan_count() ||
          row.target().infinity_count() > row.golden().infinity_count());
}

// Returns whether the search has found a cause, instead of drift or a flip.
bool IsKnown(const v1::Maker& maker) {
  return maker.kind() != v1::Maker::DRIFT &&
         maker.kind() != v1::Maker::NOT_KNOWN &&
         maker.kind() != v1::Maker::FLIP;
}

// Returns the place of a cause: the same text for all tensors that lead to it.
std::string PlaceOf(const v1::Maker& maker) {
  return fmt::format("{}{}{}{}{}{}{}", static_cast<int>(maker.kind()), '\0',
                     maker.op(), '\0', maker.after(), '\0', maker.before());
}

// Orders causes that are not known before known ones, then by ascending errors.
bool IsLess(const Findings::Failure& a, const Findings::Failure& b) {
  return std::tuple(IsKnown(a.maker), a.maker.output_error()) <
         std::tuple(IsKnown(b.maker), b.maker.output_error());
}

// Orders known causes before others, then by execution order.
bool IsEarlier(const Findings::Failure& a, const Findings::Failure& b) {
  return std::tuple(!IsKnown(a.maker), a.position) <
         std::tuple(!IsKnown(b.maker), b.position);
}

// Returns whether both are the same cause, possibly on different ranks.
bool IsAlike(const v1::Maker& a, const v1::Maker& b) {
  return a.kind() == b.kind() && a.op() == b.op() && a.after() == b.after() &&
         a.before() == b.before() && a.row().io() == b.row().io() &&
         a.row().index() == b.row().index() &&
         a.row().call() == b.row().call() && a.kind() != v1::Maker::COPIES;
}

}  // namespace

bool IsNonFiniteOnBothSides(const v1::ComparisonRow& row) {
  const auto is_non_finite = [](const v1::ComparedTensor& side) {
    return side.nan_count() > 0 || side.infinity_count() > 0;
  };
  return is_non_finite(row.golden()) && is_non_finite(row.target());
}

bool IsAllowedUnmatched(const v1::ComparisonRow& row) {
  return row.verdict() == v1::SKIPPED && !row.not_compared() &&
         row.has_golden() != row.has_target();
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
  // Different hashes prove a difference, even if the bytes were not kept.
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
    later_.clear();
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

const Findings::Candidate* Findings::Find(const v1::ComparisonRow& row) const {
  if (unordered_run_.has_value()) return nullptr;
  const auto& all = row.token() == token_ ? candidates_ : later_;
  if (row.token() != token_ && row.token() != later_token_) return nullptr;
  const auto found = all.find(row.rank());
  return found == all.end() ? nullptr : &found->second;
}

bool Findings::HasMaker() const {
  return std::any_of(
      candidates_.begin(), candidates_.end(),
      [](const auto& entry) { return !entry.second.failures.empty(); });
}

bool Findings::WantsMaker(const v1::ComparisonRow& row) const {
  if (unordered_run_.has_value()) return false;
  if (row.token() == token_) {
    const Candidate* const found = Find(row);
    return found != nullptr && found->failures.empty();
  }
  if (HasMaker() || row.token() < token_) return false;
  if (later_.empty() || row.token() < later_token_) return true;
  return row.token() == later_token_ && Find(row) == nullptr &&
         later_.size() < kFailingRanksMax;
}

bool Findings::WantsFurtherMaker(const v1::ComparisonRow& row) const {
  const Candidate* const found = Find(row);
  return found != nullptr && !found->failures.empty();
}

void Findings::SetMaker(const v1::ComparisonRow& row, Failure failure) {
  changed_ = true;
  if (row.token() == token_) {
    Keep(std::move(failure), candidates_[row.rank()]);
    return;
  }
  if (row.token() != later_token_) later_.clear();
  later_token_ = row.token();
  Candidate& candidate = later_[row.rank()];
  candidate.row = row;
  Keep(std::move(failure), candidate);
}

void Findings::AddMaker(const v1::ComparisonRow& row, Failure failure) {
  auto& all = row.token() == token_ ? candidates_ : later_;
  changed_ = true;
  Keep(std::move(failure), all[row.rank()]);
}

void Findings::Keep(Failure failure, Candidate& candidate) {
  std::vector<Failure>& kept = candidate.failures;
  if (IsKnown(failure.maker)) {
    if (candidate.places.size() == kRankPlacesMax) return;
    if (!candidate.places.insert(PlaceOf(failure.maker)).second) return;
  }
  kept.push_back(std::move(failure));
  if (kept.size() <= kRankMakersMax) return;
  // The cause of the first failing row and the first one in execution order are
  // always kept.
  const size_t lead = LeadOf(candidate);
  size_t least = 0;
  for (size_t i = 1; i < kept.size(); ++i) {
    if (i == lead) continue;
    if (least == 0 || IsLess(kept[i], kept[least])) least = i;
  }
  kept.erase(kept.begin() + static_cast<ptrdiff_t>(least));
}

size_t Findings::LeadOf(const Candidate& candidate) {
  const auto& kept = candidate.failures;
  return static_cast<size_t>(
      std::min_element(kept.begin(), kept.end(), IsEarlier) - kept.begin());
}

bool Findings::IsFirstInputDifference(const v1::ComparisonRow& row) const {
  return !input_difference_.has_value() ||
         OrderOf(input_difference_->row()) > OrderOf(row);
}

void Findings::SetInputDifference(const v1::ComparisonRow& row,
                                  const std::string& bytes,
                                  const v1::InputDifference& description) {
  if (!IsFirstInputDifference(row)) return;
  input_difference_ = description;
  *input_difference_->mutable_row() = Parse(bytes);
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

namespace {

// A tensor of a rank, and the first position of each rank that is certainly
// after it.
struct Entry {
  RankOrder::Moment at;
  std::map<int32_t, int32_t> behind;
};

Entry EntryOf(const RankOrder& order, int32_t rank, int32_t position) {
  Entry out{{rank, position}, {}};
  out.behind = order.PositionsFrom(out.at);
  return out;
}

// Returns whether `a` is before `b`, and `b` not also before `a`.
bool IsBefore(const Entry& a, const Entry& b) {
  const auto there = a.behind.find(b.at.rank);
  const auto back = b.behind.find(a.at.rank);
  return there != a.behind.end() && there->second <= b.at.position &&
         (back == b.behind.end() || back->second > a.at.position);
}

// Returns whether `a` is listed before `b` if they are concurrent. If the rank
// of `b` has a tensor with the name of `a`, their order on that rank decides.
// Otherwise the lower rank is first.
bool Leads(const RankOrder& order, const RankOrder::Moment& a,
           const RankOrder::Moment& b) {
  const int32_t there = order.PositionOfName(a, b.rank);
  if (there >= 0 && there != b.position) return there < b.position;
  return a.rank < b.rank;
}

// Returns whether `inner` is the name of a part of `op`.
bool IsInside(const std::string& inner, const std::string& op) {
  return !op.empty() && inner.size() > op.size() && inner[op.size()] == '.' &&
         inner.compare(0, op.size(), op) == 0;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> Findings::FirstDivergences(
    const RankOrder& order, const Stop& stop) const {
  std::vector<Entry> entries;
  for (const auto& [rank, candidate] : candidates_) {
    MSITD_RETURN_IF_ERROR(stop());
    const int32_t failed =
        candidate.failures.empty() ? 0 : candidate.failures.front().failed;
    entries.push_back(EntryOf(order, rank, failed));
  }
  std::vector<const Entry*> first;
  for (const Entry& entry : entries) {
    const bool loses =
        std::any_of(entries.begin(), entries.end(), [&](const Entry& other) {
          return &other != &entry && IsBefore(other, entry);
        });
    if (!loses) first.push_back(&entry);
  }
  std::vector<int32_t> ranks;
  while (!first.empty() && ranks.size() <= kConcurrentMax) {
    auto best = first.begin();
    for (auto it = first.begin(); it != first.end(); ++it) {
      if (Leads(order, (*it)->at, (*best)->at)) best = it;
    }
    ranks.push_back((*best)->at.rank);
    first.erase(best);
  }
  return ranks;
}

std::vector<Findings::MakerNumber> Findings::MakersToPair() const {
  std::vector<MakerNumber> out;
  std::vector<MakerNumber> others;
  for (const auto& [rank, candidate] : candidates_) {
    if (candidate.failures.empty()) continue;
    const size_t lead = LeadOf(candidate);
    out.push_back({rank, lead});
    for (size_t i = 0; i < candidate.failures.size(); ++i) {
      if (i != lead) others.push_back({rank, i});
    }
  }
  SortMakers(candidates_, 0, others);
  others.resize(std::min(others.size(), kPairedMax));
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

absl::StatusOr<std::vector<Findings::MakerNumber>> Findings::FirstMakers(
    const RankOrder& order, const Stop& stop) const {
  struct Made {
    Entry entry;
    MakerNumber number;
    const Failure* failure = nullptr;
  };
  std::vector<Made> ordered;
  std::vector<Made> first;
  for (const MakerNumber& number : MakersToPair()) {
    MSITD_RETURN_IF_ERROR(stop());
    const Failure& failure = FailureOf(candidates_, number);
    Made made{
        EntryOf(order, number.rank,
                IsKnown(failure.maker) ? failure.position : failure.failed),
        number, &failure};
    // If a rank was not ordered, it is unknown which tensors are before this
    // one.
    (made.entry.behind.empty() ? first : ordered).push_back(std::move(made));
  }
  // A cause does not follow from another cause of its own rank, or from one
  // that both ranks have.
  const auto loses_to = [this](const Made& one, const Made& other) {
    if (one.number.rank == other.number.rank) return false;
    const v1::Maker& maker = other.failure->maker;
    const bool is_own =
        candidates_.at(one.number.rank).places.contains(PlaceOf(maker));
    if (is_own && IsKnown(one.failure->maker)) return false;
    if (IsBefore(other.entry, one.entry)) return true;
    return !IsBefore(one.entry, other.entry) &&
           IsInside(maker.op(), one.failure->maker.op());
  };
  for (const Made& one : ordered) {
    const bool loses =
        std::any_of(ordered.begin(), ordered.end(),
                    [&](const Made& other) { return loses_to(one, other); });
    if (!loses) first.push_back(one);
  }
  if (first.empty()) return std::vector<MakerNumber>();
  const auto leads = [&order](const Made& a, const Made& b) {
    const std::tuple of_a(a.entry.behind.empty(), !IsKnown(a.failure->maker));
    const std::tuple of_b(b.entry.behind.empty(), !IsKnown(b.failure->maker));
    if (of_a != of_b) return of_a < of_b;
    if (a.number.rank == b.number.rank) {
      return a.failure->position < b.failure->position;
    }
    return Leads(order, a.entry.at, b.entry.at);
  };
  auto lead = first.begin();
  for (auto it = first.begin(); it != first.end(); ++it) {
    if (leads(*it, *lead)) lead = it;
  }
  std::vector<MakerNumber> out = {lead->number};
  for (const Made& one : first) {
    if (one.number == lead->number) continue;
    const v1::Maker& maker = one.failure->maker;
    const bool needs_proof =
        one.entry.behind.empty() || maker.kind() == v1::Maker::OP;
    if (!needs_proof || one.failure->is_independent ||
        IsAlike(maker, lead->failure->maker)) {
      out.push_back(one.number);
    }
  }
  SortMakers(candidates_, 1, out);
  return out;
}

const Findings::Failure& Findings::FailureOf(
    const std::map<int32_t, Candidate>& candidates, const MakerNumber& number) {
  return candidates.at(number.rank).failures[number.failure];
}

void Findings::SortMakers(const std::map<int32_t, Candidate>& candidates,
                          size_t begin, std::vector<MakerNumber>& makers) {
  std::stable_sort(makers.begin() + static_cast<ptrdiff_t>(begin), makers.end(),
                   [&](const MakerNumber& a, const MakerNumber& b) {
                     return IsLess(FailureOf(candidates, b),
                                   FailureOf(candidates, a));
                   });
}

absl::Status Findings::SetOrder(const RankOrder& order, const Stop& stop) {
  Ranking ranking;
  MSITD_ASSIGN_OR_RETURN(ranking.divergences, FirstDivergences(order, stop));
  MSITD_ASSIGN_OR_RETURN(ranking.makers, FirstMakers(order, stop));
  ranking_ = std::move(ranking);
  ordered_count_ = candidates_.size();
  changed_ = true;
  return absl::OkStatus();
}

Findings::Ranking Findings::BySequence(
    const std::map<int32_t, Candidate>& candidates) {
  if (candidates.empty()) return {};
  const auto first = std::min_element(
      candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
        return OrderOf(a.second.row) < OrderOf(b.second.row);
      });
  Ranking out{{first->first}, {}};
  const std::vector<Failure>& failures = first->second.failures;
  for (size_t i = 0; i < failures.size(); ++i) {
    out.makers.push_back({first->first, i});
  }
  if (out.makers.empty()) return out;
  std::swap(out.makers.front(), out.makers[LeadOf(first->second)]);
  SortMakers(candidates, 1, out.makers);
  return out;
}

void Findings::ShowMakers(v1::Comparison& comparison) const {
  const bool is_later = IsOfLaterToken();
  const auto& candidates = is_later ? later_ : candidates_;
  const Ranking ranking = is_later ? BySequence(later_)
                                   : ranking_.value_or(BySequence(candidates_));
  auto& makers = *comparison.mutable_makers();
  std::set<std::string> places;
  std::set<std::string> shown;
  for (const MakerNumber& number : ranking.makers) {
    const auto found = candidates.find(number.rank);
    if (found == candidates.end() ||
        number.failure >= found->second.failures.size()) {
      continue;
    }
    const Candidate& candidate = found->second;
    places.insert(candidate.places.begin(), candidate.places.end());
    const v1::Maker& maker = candidate.failures[number.failure].maker;
    const auto alike = std::find_if(
        makers.begin(), makers.end(),
        [&maker](const v1::Maker& other) { return IsAlike(maker, other); });
    if (alike != makers.end()) {
      if (alike->ranks_size() < kAlikeRanksMax) {
        alike->add_ranks(number.rank);
      }
    } else if (makers.size() < kMakersMax) {
      *makers.Add() = maker;
      shown.insert(PlaceOf(maker));
    } else {
      places.insert(PlaceOf(maker));
    }
  }
  for (const std::string& place : shown) places.erase(place);
  comparison.set_more_makers_count(static_cast<int64_t>(places.size()));
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
  comparison.set_more_makers_count(0);
  const Ranking ranking = unordered_run_.has_value()
                              ? Ranking()
                              : ranking_.value_or(BySequence(candidates_));
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
  // If the model receives other inputs, these are the cause of all later
  // differences.
  if (unordered_run_.has_value()) {
    ShowAmong(comparison);
  } else if (!input_difference_ || (IsOfLaterToken() ? later_token_ : token_) <
                                       input_difference_->row().token()) {
    ShowMakers(comparison);
  }
}

}  // namespace msitd::compare
