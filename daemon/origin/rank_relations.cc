// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/rank_relations.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "protos/status/status.h"

namespace msitd::origin {
namespace {

enum class Order { kBefore, kAfter, kUnknown };

bool HasSameName(const TensorKey& a, const TensorKey& b) {
  return a.op == b.op && a.call == b.call && a.io == b.io && a.index == b.index;
}

std::vector<SymptomPlace> PlacesOf(std::vector<RankOrigin> origins) {
  std::vector<SymptomPlace> places;
  for (RankOrigin& origin : origins) {
    const int32_t rank = origin.tensor.key.rank;
    // If there are too many places, their order is not determined anyway.
    const auto end = places.begin() + static_cast<ptrdiff_t>(std::min(
                                          places.size(), kPlacesMax + 1));
    const auto same =
        std::find_if(places.begin(), end, [&](const SymptomPlace& place) {
          return HasSameName(place.origin.tensor.key, origin.tensor.key);
        });
    if (same == end) {
      places.push_back({std::move(origin), {rank}});
      continue;
    }
    same->ranks.push_back(rank);
    // A rank with a complete record shows what happened on the others, unless
    // one of them sent the value.
    const bool may_be_received =
        same->origin.may_be_received || origin.may_be_received;
    if (same->origin.is_known() != origin.is_known() &&
        origin.is_known() != may_be_received) {
      same->origin = std::move(origin);
    }
  }
  return places;
}

// Returns the position of the tensor of `place` in the execution order of the
// rank of `other`. nullopt if that rank does not have it, or has another one of
// that name, as a stage of a pipeline has.
absl::StatusOr<std::optional<uint64_t>> PositionOn(storage::RunReader& run,
                                                   const SymptomPlace& place,
                                                   const SymptomPlace& other) {
  const storage::TensorInfo& tensor = place.origin.tensor;
  TensorKey key = tensor.key;
  key.rank = other.origin.tensor.key.rank;
  key.device = other.origin.tensor.key.device;
  const auto found = run.GetTensor(key);
  if (absl::IsNotFound(found.status())) return std::nullopt;
  MSITD_RETURN_IF_ERROR(found.status());
  if (found->dtype != tensor.dtype || found->shape != tensor.shape) {
    return std::nullopt;
  }
  return found->sequence;
}

bool HasSent(const SymptomPlace& from, const SymptomPlace& to) {
  return to.origin.may_be_received &&
         std::binary_search(from.origin.sent.begin(), from.origin.sent.end(),
                            to.origin.tensor.hash.low);
}

// Returns whether equal bytes prove that a tensor was sent. Those of constants
// do not.
bool IsTelling(const SymptomPlace& place) {
  const Summary& summary = place.origin.tensor.summary;
  return summary.has_extremes() && summary.min < summary.max;
}

bool IsProven(const SymptomPlace& from, const SymptomPlace& to) {
  return HasSent(from, to) && IsTelling(to);
}

// Returns whether equal bytes suggest that code received a tensor.
bool IsPossible(const SymptomPlace& from, const SymptomPlace& to) {
  return HasSent(from, to) && (to.origin.kind == OriginKind::kInput ||
                               to.origin.kind == OriginKind::kCode);
}

// The relation of a place to another one.
struct Relation {
  bool is_later = false;    // It is after the other place.
  bool may_follow = false;  // It may follow from the other place.
};

// Returns whether `a` is before or after `b` in the program.
absl::StatusOr<Order> OrderOf(storage::RunReader& run, const SymptomPlace& a,
                              const SymptomPlace& b) {
  MSITD_ASSIGN_OR_RETURN(const auto on_b, PositionOn(run, a, b));
  if (on_b.has_value()) {
    return *on_b < b.origin.tensor.sequence ? Order::kBefore : Order::kAfter;
  }
  MSITD_ASSIGN_OR_RETURN(const auto on_a, PositionOn(run, b, a));
  if (on_a.has_value()) {
    return *on_a < a.origin.tensor.sequence ? Order::kAfter : Order::kBefore;
  }
  return Order::kUnknown;
}

absl::StatusOr<Relation> RelationOf(storage::RunReader& run,
                                    const SymptomPlace& place,
                                    const SymptomPlace& other) {
  const bool has_sent = IsProven(place, other);
  const bool has_received = IsProven(other, place);
  if (has_sent || has_received) {
    return Relation{.is_later = has_received && !has_sent,
                    .may_follow = has_received};
  }
  MSITD_ASSIGN_OR_RETURN(const Order order, OrderOf(run, other, place));
  return Relation{
      .is_later = order == Order::kBefore,
      .may_follow = place.origin.may_be_received &&
                    (order != Order::kAfter || IsPossible(other, place))};
}

}  // namespace

absl::StatusOr<RankRelations> RelateRanks(storage::RunReader& run,
                                          std::vector<RankOrigin> origins,
                                          storage::StopCheck stop) {
  std::vector<SymptomPlace> places = PlacesOf(std::move(origins));
  RankRelations out;
  if (places.size() > kPlacesMax) {
    out.followers = std::move(places);
    return out;
  }
  const size_t count = places.size();
  std::vector<size_t> earlier_counts(count);
  std::vector<bool> follows(count);
  for (size_t b = 0; b < count; ++b) {
    for (size_t a = 0; a < count; ++a) {
      if (a == b) continue;
      MSITD_RETURN_IF_ERROR(stop());
      MSITD_ASSIGN_OR_RETURN(const Relation relation,
                             RelationOf(run, places[b], places[a]));
      if (relation.is_later) ++earlier_counts[b];
      if (relation.may_follow) follows[b] = true;
    }
  }
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return earlier_counts[a] < earlier_counts[b];
  });
  for (const size_t i : order) {
    (follows[i] ? out.followers : out.origins).push_back(std::move(places[i]));
  }
  return out;
}

}  // namespace msitd::origin
