// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/shard/mesh.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "msitd/v1/comparison_matching.pb.h"
#include "protos/base/placement.h"
#include "protos/base/tensor_key.h"
#include "storage/run_ranks.h"

namespace msitd::compare {

// Maximum number of layout rules for one run.
inline constexpr int kLayoutsMax = 256;

// Maximum number of sections of a shard, and maximum relative length of one.
inline constexpr int kSectionsMax = 16;
inline constexpr int32_t kSectionMax = 65'536;

// A layout rule of the user for the shards of some ops. It describes the shards
// as a recorded placement would, except for their ranks. See msitd.v1.Layout.
struct Layout {
  std::string op_pattern;
  Io io = Io::kUnspecified;  // kUnspecified: all sides.
  std::optional<std::string> index;
  // The rule does not apply to tensors that have a recorded placement.
  bool unless_placed = false;

  // Number of consecutive ranks in a group. 0: all ranks of the run.
  int32_t group_size = 0;
  // How a tensor is distributed over the ranks of a group. The size is set by
  // PlacedOn().
  Placement::MeshDim dim = {};
  PlacementRule rule = {};

  // Returns the number of the group that contains `rank`.
  int32_t GroupOf(int32_t rank) const {
    return group_size == 0 ? 0 : rank / group_size;
  }

  // Returns the distribution of a tensor over the ranks of a group.
  // `rank_count` is the number of ranks of the run; the group need not have all
  // of its ranks.
  PlacedMesh PlacedOn(int32_t group, int32_t rank_count) const;
};

// The layout rules of one run. The first rule that matches a tensor applies.
//
// Immutable, hence thread-safe.
class LayoutRules {
 public:
  // Creates rules that match no tensor.
  LayoutRules() = default;

  // Errors: INVALID_ARGUMENT with FIELD_INVALID. The message begins with the
  // invalid field: `matching.golden_layouts[0].dim: ...`.
  static absl::StatusOr<LayoutRules> Create(
      const google::protobuf::RepeatedPtrField<v1::Layout>& layouts,
      const std::string& field);

  bool empty() const { return rules_.empty(); }
  // Returns whether every tensor matches a rule.
  bool takes_all() const { return takes_all_; }
  // Returns whether a rule derives layouts from the sizes of both sides; see
  // fitted_assembly.h.
  bool has_fit() const { return has_fit_; }

  // Returns the first rule for this op, io and index, or null if there is none.
  // The rule lives as long as this object. `is_placed`: the tensor has a
  // recorded placement.
  const Layout* Find(const TensorKey& key, bool is_placed) const;

  // Returns the group numbers that tensors of a rank may have, in ascending
  // order. These are the numbers of its groups and, unless the rules match
  // every tensor, the rank itself for tensors without a rule.
  std::vector<int32_t> GroupNumbersOf(int32_t rank) const;

  // Appends the group numbers of the consecutive ranks from `first` to `last`,
  // as ranges in any order.
  void AddGroupNumbersOf(int32_t first, int32_t last,
                         std::vector<RankRange>& out) const;

  // Returns the ranks whose shards form the tensors with this rule and group
  // number, or nothing if there are no such ranks.
  static std::optional<RankRange> RanksNeeded(const Layout& rule,
                                              int32_t group_number,
                                              RankCount ranks);

  // Returns the ranks whose shards form the tensors with this group number, now
  // or later. The ranges may overlap.
  std::vector<RankRange> RanksNeeded(int32_t group_number,
                                     RankCount ranks) const;

 private:
  // Only the last rule can match every tensor, because Create() refuses rules
  // after it.
  std::vector<Layout> rules_;
  bool takes_all_ = false;
  bool has_fit_ = false;
};

}  // namespace msitd::compare
