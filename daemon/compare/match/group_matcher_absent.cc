// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>

#include "daemon/compare/match/group_matcher.h"
#include "daemon/compare/shard/shard_joiner.h"

// What ranks that are not there would have.
namespace msitd::compare {
namespace {

// The row that begins with rank `number` of the mesh.
storage::RankRange RowAt(const Mesh& mesh, int32_t number) {
  const int32_t first = mesh.RankAt(number);
  return {first, first + mesh.row_size() - 1};
}

bool HasAnyOf(const Mesh& mesh, const RankRanges& absent) {
  for (int32_t i = 0; i < mesh.size(); i += mesh.row_size()) {
    if (absent.HasAnyOf(RowAt(mesh, i))) return true;
  }
  return false;
}

// As far as they are looked at: kMissingRowsMax.
bool HasAllOf(const Mesh& mesh, const RankRanges& absent) {
  size_t row_count = 0;
  for (int32_t i = 0; i < mesh.size() && row_count++ < kMissingRowsMax;
       i += mesh.row_size()) {
    if (!absent.HasAll(RowAt(mesh, i))) return false;
  }
  return true;
}

}  // namespace

std::vector<int32_t> GroupMatcher::SelectedPlaces() const {
  std::vector<int32_t> out;
  const auto add = [&](int32_t place) {
    int32_t ignored = 0;
    if (matching_.TargetRank(place, ignored)) out.push_back(place);
  };
  for (const int32_t place : selector_.ranks) add(place);
  if (!selector_.ranks.empty()) return out;
  for (const auto& [golden, target] : matching_.ranks()) add(golden);
  return out;
}

GroupMatcher::Compared GroupMatcher::ComparedOf(bool is_target,
                                                const RankRanges& ranks) const {
  const LayoutRules& layouts = LayoutsOf(is_target);
  const MeshSet& meshes = is_target ? target_meshes_ : golden_meshes_;
  std::vector<storage::RankRange> places;
  if (selector_.ranks.empty() && matching_.ranks().empty()) {
    for (const storage::RankRange& range : ranks.ranges()) {
      layouts.AddPlacesOf(range.first, range.last, places);
    }
    for (const Mesh& mesh : meshes.meshes()) {
      if (!HasAnyOf(mesh, ranks)) continue;
      places.push_back({mesh.place(), mesh.place()});
    }
    return {ranks, RankRanges(std::move(places))};
  }
  std::vector<storage::RankRange> kept;
  for (const int32_t golden_place : SelectedPlaces()) {
    int32_t place = golden_place;
    if (is_target) matching_.TargetRank(golden_place, place);
    const size_t before = kept.size();
    for (const storage::RankRange& range :
         layouts.RanksNeeded(place, RanksOf(is_target))) {
      ranks.AddPartOf(range, kept);
    }
    for (const Mesh& mesh : meshes.meshes()) {
      if (mesh.place() != place) continue;
      for (int32_t i = 0; i < mesh.size(); i += mesh.row_size()) {
        ranks.AddPartOf(RowAt(mesh, i), kept);
      }
    }
    if (kept.size() > before) places.push_back({golden_place, golden_place});
  }
  return {RankRanges(std::move(kept)), RankRanges(std::move(places))};
}

std::optional<int64_t> GroupMatcher::LastToken(bool is_target,
                                               int32_t golden_place) const {
  const auto place = places_.find(golden_place);
  if (place == places_.end() || !selector_.tokens.empty()) return std::nullopt;
  const Holders& holders =
      is_target ? place->second.target : place->second.golden;
  std::optional<int64_t> out;
  for (const auto& [rank, last] : holders.last_tokens) {
    out = std::max(out.value_or(last), last);
  }
  if (out.has_value() && is_target) *out += matching_.token_offset();
  return out;
}

bool GroupMatcher::MayBeOn(const RankRanges& absent, bool is_target,
                           const LogicalTensor& other,
                           int32_t golden_place) const {
  const LayoutRules& layouts = LayoutsOf(is_target);
  const MeshSet& meshes = is_target ? target_meshes_ : golden_meshes_;
  const RankCount ranks = RanksOf(is_target);
  int32_t place = golden_place;
  if (is_target && !matching_.TargetRank(golden_place, place)) return false;
  const std::optional<std::string> op =
      is_target ? matching_.TargetOpOf(other.key.op)
                : std::optional(matching_.GoldenOpOf(other.key));
  if (!op.has_value()) {
    // Any rule may be for it.
    for (const storage::RankRange& range : layouts.RanksNeeded(place, ranks)) {
      if (absent.HasAll(range)) return true;
    }
  } else {
    TensorKey key = other.key;
    key.op = *op;
    const Layout* const layout = layouts.Find(key, /*is_placed=*/false);
    if (layout != nullptr) {
      const auto range = LayoutRules::RanksNeeded(*layout, place, ranks);
      if (range.has_value() && absent.HasAll(*range)) return true;
      if (!layout->unless_placed) return false;
    } else if (absent.Has(place) &&
               !(HasCopies() && meshes.SmallestOf(place) != nullptr)) {
      return true;
    }
  }
  return std::any_of(
      meshes.meshes().begin(), meshes.meshes().end(), [&](const Mesh& mesh) {
        if (mesh.place() != place) return false;
        return HasCopies() && mesh.size() > 1 ? HasAnyOf(mesh, absent)
                                              : HasAllOf(mesh, absent);
      });
}

}  // namespace msitd::compare
