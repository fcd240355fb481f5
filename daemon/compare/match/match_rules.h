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
#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/tensor_key.h"

namespace re2 {
class RE2;
}

namespace msitd::compare {

inline constexpr size_t kRewritesMax = 64;
inline constexpr size_t kMappedOpsMax = size_t{1} << 16;

// Which names, ranks and tokens of the target run stand for which of the
// golden run. See msitd.v1.Matching.
//
// Thread-compatible; immutable, but for UseMapping and UseBackwardOrder.
class MatchRules {
 public:
  // Everything stands for itself.
  MatchRules() = default;

  // Errors: INVALID_ARGUMENT with FIELD_INVALID; the message begins with the
  // field: `matching.ops[3].target_op: ...`.
  static absl::StatusOr<MatchRules> Create(const v1::Matching& spec);

  // Equal for a golden and a target op that belong to each other. What is in
  // the list of ops equals nothing but its other side.
  std::string KeyOfGolden(std::string_view op) const;
  std::string KeyOfTarget(std::string_view op) const;

  // The golden op that a target op stands for, whether or not there is one. Of
  // a tensor, the mapping counts as well.
  std::string GoldenOpOf(std::string_view op) const;
  std::string GoldenOpOf(const TensorKey& target) const;

  // The target op that stands for a golden op; nothing if several may.
  std::optional<std::string> TargetOpOf(std::string_view op) const;

  // The rewrites, in their order, as the flag of msitctl takes them.
  size_t rewrite_count() const { return rewrites_.size(); }
  std::string RewriteText(size_t number) const;
  // Marks those that change a target op; `marks` has as many.
  void MarkRewrites(std::string_view op, std::vector<bool>& marks) const;

  // An op without what fuzzy matching does not look at.
  static std::string LooseName(std::string_view op);

  bool renames() const {
    return !rewrites_.empty() || !target_by_golden_.empty() || ignore_case_ ||
           fuzzy_ || is_mapped_;
  }
  // Tensors belong together by their own names, whatever else there is.
  bool pairs_by_names_alone() const {
    return !fuzzy_ && !is_mapped_ && !backward_order_;
  }
  bool ignore_case() const { return ignore_case_; }
  bool fuzzy() const { return fuzzy_; }
  // `grad_input` and `grad_output` belong together by the order of the backward
  // calls of their op in a rank and token, if each run has numbers of these
  // calls that the other lacks; else by the numbers.
  bool backward_order() const { return backward_order_; }
  // Whoever asks may not use it.
  bool backward_by_number() const { return backward_by_number_; }
  void UseBackwardOrder() { backward_order_ = true; }
  int64_t token_offset() const { return token_offset_; }

  // A mapping of tensors takes precedence; `pairs_others` if what it does not
  // name belongs together by the other rules.
  bool is_mapped() const { return is_mapped_; }
  bool pairs_others() const { return pairs_others_; }
  // Null until UseMapping. Nothing is paired before, if is_mapped.
  const std::shared_ptr<const TensorMapping>& mapping() const {
    return mapping_;
  }
  void UseMapping(std::shared_ptr<const TensorMapping> mapping) {
    mapping_ = std::move(mapping);
  }

  // False for a golden rank that is not to be compared; else `target` is its
  // counterpart. FromTarget is the other way round.
  bool TargetRank(int32_t golden, int32_t& target) const;
  bool GoldenRank(int32_t target, int32_t& golden) const;

  // Pairs of ranks, golden ones first; if there are any, only these count.
  const std::map<int32_t, int32_t>& ranks() const {
    return target_by_golden_rank_;
  }

  // How shards of either run become tensors. The ranks above are group numbers
  // then.
  const LayoutRules& golden_layouts() const { return golden_layouts_; }
  const LayoutRules& target_layouts() const { return target_layouts_; }
  // What shards say of themselves does not count.
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
  std::map<std::string, std::string, std::less<>> target_by_golden_;
  std::map<std::string, std::string, std::less<>> golden_by_target_;
  std::map<int32_t, int32_t> target_by_golden_rank_;
  std::map<int32_t, int32_t> golden_by_target_rank_;
  LayoutRules golden_layouts_;
  LayoutRules target_layouts_;
  bool ignore_placements_ = false;
  bool is_mapped_ = false;
  bool pairs_others_ = false;
  std::shared_ptr<const TensorMapping> mapping_;
};

}  // namespace msitd::compare
