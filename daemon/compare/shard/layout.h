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

// More rules for one run are refused.
inline constexpr int kLayoutsMax = 256;

// More sections of a shard, and longer ones, are refused.
inline constexpr int kSectionsMax = 16;
inline constexpr int32_t kSectionMax = 65'536;

// A rule of the user for the shards of some ops: the placement that they would
// have told themselves, but for the ranks. See msitd.v1.Layout.
struct Layout {
  std::string op_pattern;
  Io io = Io::kUnspecified;  // kUnspecified: all.
  std::optional<std::string> index;
  // Not for tensors that say themselves how they lie.
  bool unless_placed = false;

  int32_t group_size = 0;  // 0: all ranks.
  // What is along the ranks of a group, without their number.
  Placement::MeshDim dim = {};
  PlacementRule rule = {};

  // The number of the group that a rank is in.
  int32_t GroupOf(int32_t rank) const {
    return group_size == 0 ? 0 : rank / group_size;
  }

  // How the tensors of a group lie, in a run of `rank_count` ranks, of which
  // the group has some.
  PlacedMesh PlacedOn(int32_t group, int32_t rank_count) const;
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
  // True if a rule leaves it to the sizes of both sides: see fitted_assembly.h.
  bool has_fit() const { return has_fit_; }

  // The first rule for this op, io and index; null if there is none. Lives as
  // long as the rules. `is_placed`: the tensor says itself how it lies.
  const Layout* Find(const TensorKey& key, bool is_placed) const;

  // The group numbers that tensors of a rank may have: those of its groups, and
  // the rank itself unless a rule takes everything. Ascending.
  std::vector<int32_t> GroupNumbersOf(int32_t rank) const;

  // Appends the same of several ranks in a row, as ranges in any order.
  void AddGroupNumbersOf(int32_t first, int32_t last,
                         std::vector<storage::RankRange>& out) const;

  // The ranks of which tensors with this rule and number are made; nothing if
  // there are none.
  static std::optional<storage::RankRange> RanksNeeded(const Layout& rule,
                                                       int32_t group_number,
                                                       RankCount ranks);

  // The ranks of which tensors of that number are made, or will be; they may
  // overlap.
  std::vector<storage::RankRange> RanksNeeded(int32_t group_number,
                                              RankCount ranks) const;

 private:
  // A rule that takes everything is the last one; none can come behind it.
  std::vector<Layout> rules_;
  bool takes_all_ = false;
  bool has_fit_ = false;
};

}  // namespace msitd::compare
