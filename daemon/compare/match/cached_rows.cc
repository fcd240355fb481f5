// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/cached_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace msitd::compare {
namespace {

// Why a cache needs no counterpart if it is empty so far.
const std::shared_ptr<const std::string>& EmptyReason() {
  static const auto& reason = *new std::shared_ptr<const std::string>(
      std::make_shared<const std::string>(
          "it is a cache that has no position of this request yet"));
  return reason;
}

// Why the cache that a forward receives needs no counterpart.
const std::shared_ptr<const std::string>& ElsewhereReason() {
  static const auto& reason = *new std::shared_ptr<const std::string>(
      std::make_shared<const std::string>(
          "it is the cache before a forward, and the other run begins its "
          "forwards elsewhere"));
  return reason;
}

// The piece of the golden token, or of the target token with the same last
// position.
const RequestPiece& PieceOf(const JoinedPart& part, bool is_target) {
  return (is_target ? part.target : part.golden).back().piece;
}

// Returns a tensor of a group that pairs point to.
LogicalTensor& MutableIn(std::vector<LogicalTensor>& side,
                         const LogicalTensor& tensor) {
  return side[static_cast<size_t>(&tensor - side.data())];
}

}  // namespace

void CachedRows::Begin(const JoinedPart& part) {
  part_ = &part;
  tensors_.clear();
  by_view_.clear();
  cuts_ = CacheCuts();
}

LogicalTensor CachedRows::Add(bool is_target, const LogicalTensor& tensor,
                              const TokenCaches& caches) {
  const RequestPiece& piece = PieceOf(*part_, is_target);
  const std::string& id = is_target ? part_->target_id : part_->golden_id;
  int64_t count = piece.positions.first;
  if (tensor.key.io == Io::kOutput) {
    count =
        is_target ? piece.positions.end : part_->golden.back().positions.end;
  }
  count = std::min(count,
                   is_target ? part_->target_settled : part_->golden_settled);
  tensors_.emplace_back(tensor, caches.PlacesOf(RecordedKey(tensor), id),
                        count);
  const CachedTensor& cached = tensors_.back();
  LogicalTensor out = count > 0
                          ? cached.View(count, cuts_)
                          : cached.Refuse("it has no position of this request");
  by_view_.emplace(out.view.get(), &cached);
  return out;
}

const CachedTensor* CachedRows::Find(const LogicalTensor* tensor) const {
  if (tensor == nullptr) return nullptr;
  const auto found = by_view_.find(tensor->view.get());
  return found == by_view_.end() ? nullptr : found->second;
}

void CachedRows::Fit(TensorGroup& group) {
  if (tensors_.empty()) return;
  for (TensorPair& pair : group.pairs) {
    if (pair.golden != nullptr && pair.target != nullptr) {
      FitPair(pair, group);
    } else {
      FitAlone(pair, group);
    }
  }
}

void CachedRows::FitPair(TensorPair& pair, TensorGroup& group) {
  const CachedTensor* const golden = Find(pair.golden);
  const CachedTensor* const target = Find(pair.target);
  if (golden == nullptr && target == nullptr) return;
  if (golden == nullptr || target == nullptr) {
    const bool is_golden = golden == nullptr;
    LogicalTensor& other = is_golden ? MutableIn(group.golden, *pair.golden)
                                     : MutableIn(group.target, *pair.target);
    other = RefuseRows(other, "cached positions",
                       "the other run has a cache here, and this one not, or "
                       "where the request is in it was not recorded");
    return;
  }
  LogicalTensor& own = MutableIn(group.golden, *pair.golden);
  LogicalTensor& other = MutableIn(group.target, *pair.target);
  const int64_t count = golden->position_count();
  if (count == 0 || (target->position_count() < count && golden->is_before())) {
    own.seen_in = count == 0 ? EmptyReason() : ElsewhereReason();
    pair.target = nullptr;
    return;
  }
  if (target->position_count() < count) {
    other = target->Refuse(fmt::format("it has {} of {} that are compared",
                                       target->position_count(), count));
  } else if (target->position_count() != count) {
    other = target->View(count, cuts_);
  }
}

void CachedRows::FitAlone(const TensorPair& pair, TensorGroup& group) const {
  const bool is_golden = pair.golden != nullptr;
  const CachedTensor* const cached =
      Find(is_golden ? pair.golden : pair.target);
  if (cached == nullptr || !cached->is_before()) return;
  LogicalTensor& tensor = is_golden ? MutableIn(group.golden, *pair.golden)
                                    : MutableIn(group.target, *pair.target);
  if (cached->position_count() == 0) {
    tensor.seen_in = EmptyReason();
    return;
  }
  // A forward that begins a request may have no cache.
  if (PieceOf(*part_, is_golden).positions.first == 0) {
    tensor.seen_in = ElsewhereReason();
  }
}

}  // namespace msitd::compare
