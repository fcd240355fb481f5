// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "msitd/v1/comparison_matching.pb.h"
#include "protos/base/tensor_key.h"
#include "storage/run_ranks.h"

namespace msitd::compare {

// More rules for one run are refused.
inline constexpr int kLayoutsMax = 256;

// More sections of a shard, and longer ones, are refused.
inline constexpr int kSectionsMax = 16;
inline constexpr int32_t kSectionMax = 65'536;

// Consecutive ranks.
struct RankRange {
  int32_t first = 0;
  int32_t count = 0;

  int32_t end() const { return first + count; }
};

// The ranks of a run, from 0.
struct RankCount {
  int32_t count = 0;      // Its world size, or those seen so far.
  bool is_final = false;  // No more will come.
};

// How the shards of some ops become tensors. See msitd.v1.Layout.
struct Layout {
  std::string op_pattern;
  Io io = Io::kUnspecified;  // kUnspecified: all.
  std::optional<std::string> index;
  v1::Layout::Kind kind = v1::Layout::CONCAT;
  int dim = 0;
  int32_t rank = 0;
  int32_t group_size = 0;  // 0: all ranks.
  // Of each shard; two equal ones for ZIGZAG. None: one.
  std::vector<int64_t> sections = {};
  // Not for tensors that say themselves how they lie.
  bool unless_placed = false;

  // The number of the group that a rank is in.
  int32_t PlaceOf(int32_t rank_of_run) const {
    return group_size == 0 ? 0 : rank_of_run / group_size;
  }

  // The ranks of a group, in a run of `rank_count` ranks.
  RankRange RanksOf(int32_t place, int32_t rank_count) const {
    if (group_size == 0) return {0, rank_count};
    return {place * group_size, group_size};
  }

  // `concat(0)`, `concat(0,32:8:8)`, `zigzag(1)`, `sum`, `replicated`,
  // `pick(1)`.
  std::string Text() const;
};

// The layouts of one run.
//
// Immutable, hence thread-safe.
class LayoutRules {
 public:
  // No op has a layout.
  LayoutRules() = default;

  // Errors: INVALID_ARGUMENT with FIELD_INVALID; the message begins with the
  // field: `matching.golden_layouts[0].dim: ...`.
  static absl::StatusOr<LayoutRules> Create(
      const google::protobuf::RepeatedPtrField<v1::Layout>& layouts,
      const std::string& field);

  bool empty() const { return rules_.empty(); }
  // True if no op is without a layout.
  bool takes_all() const { return takes_all_; }

  // The first rule for this op, io and index; null if there is none. Lives as
  // long as the rules. `is_placed`: the tensor says itself how it lies.
  const Layout* Find(const TensorKey& key, bool is_placed) const;

  // Where tensors of a rank may have their place: the numbers of its groups,
  // and the rank itself unless a rule takes everything. Ascending.
  std::vector<int32_t> PlacesOf(int32_t rank) const;

  // Appends the same of several ranks in a row, as ranges in any order.
  void AddPlacesOf(int32_t first, int32_t last,
                   std::vector<storage::RankRange>& out) const;

  // The ranks of which tensors with this rule are made at a place; nothing if
  // there are none.
  static std::optional<RankRange> RanksNeeded(const Layout& rule, int32_t place,
                                              RankCount ranks);

  // The ranks of which tensors of a place are made, or will be; they may
  // overlap.
  std::vector<RankRange> RanksNeeded(int32_t place, RankCount ranks) const;

 private:
  // A rule that takes everything is the last one; none can come behind it.
  std::vector<Layout> rules_;
  bool takes_all_ = false;
};

}  // namespace msitd::compare
