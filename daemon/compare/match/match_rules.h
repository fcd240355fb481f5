// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/match/tensor_mapping.h"
#include "daemon/compare/shard/layout.h"
#include "daemon/compare/view/view_rules.h"
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/tensor_key.h"

namespace re2 {
class RE2;
}

namespace msitd::compare {

inline constexpr size_t kRewritesMax = 64;
inline constexpr size_t kMappedOpsMax = size_t{1} << 16;

// Rules that translate names, ranks and tokens of the target run to those of
// the golden run. See msitd.v1.Matching.
//
// Thread-compatible. Immutable, except for UseMapping and UseBackwardOrder.
class MatchRules {
 public:
  // Creates rules that change nothing.
  MatchRules() = default;

  // Errors: INVALID_ARGUMENT with FIELD_INVALID. The message begins with the
  // invalid field: `matching.ops[3].target_op: ...`.
  static absl::StatusOr<MatchRules> Create(const v1::Matching& spec);

  // Return keys that are equal if a golden and a target op belong together. The
  // key of an op in the list of ops equals only that of the other op in its
  // entry.
  std::string KeyOfGolden(std::string_view op) const;
  std::string KeyOfTarget(std::string_view op) const;

  // Returns the golden op for a target op. The golden run need not have this
  // op. For a tensor, the mapping is applied as well.
  std::string GoldenOpOf(std::string_view op) const;
  std::string GoldenOpOf(const TensorKey& target) const;

  // Returns the target op for a golden op, or nothing if it cannot be
  // determined because several ops are possible.
  std::optional<std::string> TargetOpOf(std::string_view op) const;

  // The rewrites in their order, in the syntax of the flag of msitctl.
  size_t rewrite_count() const { return rewrites_.size(); }
  std::string RewriteText(size_t number) const;
  // Sets the marks of the rewrites that change a target op. `marks` has one
  // entry for each rewrite.
  void MarkRewrites(std::string_view op, std::vector<bool>& marks) const;

  // Returns the part of an op's name that fuzzy matching compares: in lower
  // case, with one kind of separator and without wrappers such as `module`.
  static std::string LooseName(std::string_view op);

  bool renames() const {
    return !rewrites_.empty() || !target_by_golden_.empty() || ignore_case_ ||
           fuzzy_ || is_mapped_ || target_views_.need_whole_group();
  }
  // Returns whether views of golden tensors read other tensors or have other
  // names, so that a filter by op applies after them.
  bool golden_views_read_others() const {
    return golden_views_.need_whole_group() ||
           (mapping_ != nullptr && mapping_->has_views());
  }
  // Returns whether tensors are paired only by their own names, so that a pair
  // does not depend on other tensors.
  bool pairs_by_names_alone() const {
    return !fuzzy_ && !is_mapped_ && !backward_order_;
  }
  bool ignore_case() const { return ignore_case_; }
  bool fuzzy() const { return fuzzy_; }
  // Backward order: `grad_input` and `grad_output` are paired by the order of
  // the backward calls of their op within a rank and token, if each run has
  // call numbers that the other lacks. Otherwise they are paired by number.
  bool backward_order() const { return backward_order_; }
  // The user requires pairs by number; UseBackwardOrder must not be called.
  bool backward_by_number() const { return backward_by_number_; }
  void UseBackwardOrder() { backward_order_ = true; }
  int64_t token_offset() const { return token_offset_; }
  // Rows are compared by request and position.
  bool by_request() const { return by_request_; }

  // The rules include a mapping of tensors, which takes precedence. If
  // `pairs_others`, tensors that it does not name are paired by the other
  // rules.
  bool is_mapped() const { return is_mapped_; }
  bool pairs_others() const { return pairs_others_; }
  // Null until UseMapping is called, which must happen before tensors are
  // paired if is_mapped.
  const std::shared_ptr<const TensorMapping>& mapping() const {
    return mapping_;
  }
  void UseMapping(std::shared_ptr<const TensorMapping> mapping) {
    mapping_ = std::move(mapping);
  }

  // Return false if the rank is not compared. Otherwise set the second argument
  // to its counterpart in the other run.
  bool TargetRank(int32_t golden, int32_t& target) const;
  bool GoldenRank(int32_t target, int32_t& golden) const;

  // Pairs of ranks, by golden rank. If there are any, only these ranks are
  // compared.
  const std::map<int32_t, int32_t>& ranks() const {
    return target_by_golden_rank_;
  }

  // Layout rules for shards of each run. With these, the ranks above are group
  // numbers.
  const LayoutRules& golden_layouts() const { return golden_layouts_; }
  const LayoutRules& target_layouts() const { return target_layouts_; }
  // Views of the tensors of each run.
  const ViewRules& golden_views() const { return golden_views_; }
  const ViewRules& target_views() const { return target_views_; }
  // Recorded placements are ignored.
  bool ignore_placements() const { return ignore_placements_; }

 private:
  struct Rewrite {
    std::shared_ptr<const re2::RE2> regex;
    std::string replacement;
  };

  absl::Status AddRewrites(const v1::Matching& spec);
  absl::Status AddOps(const v1::Matching& spec);
  absl::Status AddRanks(const v1::Matching& spec);
  std::string Rewritten(std::string_view op) const;

  std::vector<Rewrite> rewrites_;
  bool ignore_case_ = false;
  bool fuzzy_ = false;
  bool backward_order_ = false;
  bool backward_by_number_ = false;
  int64_t token_offset_ = 0;
  bool by_request_ = false;
  std::map<std::string, std::string, std::less<>> target_by_golden_;
  std::map<std::string, std::string, std::less<>> golden_by_target_;
  std::map<int32_t, int32_t> target_by_golden_rank_;
  std::map<int32_t, int32_t> golden_by_target_rank_;
  LayoutRules golden_layouts_;
  LayoutRules target_layouts_;
  ViewRules golden_views_;
  ViewRules target_views_;
  bool ignore_placements_ = false;
  bool is_mapped_ = false;
  bool pairs_others_ = false;
  std::shared_ptr<const TensorMapping> mapping_;
};

}  // namespace msitd::compare
