// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/view/view_step.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "msitd/v1/comparison_matching.pb.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {

// Maximum number of view rules for one run.
inline constexpr int kViewsMax = 256;

// The view rules of one run; see msitd.v1.View.
//
// Immutable, hence thread-safe.
class ViewRules {
 public:
  // Creates rules that match no tensor.
  ViewRules() = default;

  // Errors: INVALID_ARGUMENT with FIELD_INVALID. The message begins with the
  // invalid field: `matching.golden_views[0].view: ...`.
  static absl::StatusOr<ViewRules> Create(
      const google::protobuf::RepeatedPtrField<v1::View>& views,
      const std::string& field);

  bool empty() const { return rules_.empty(); }
  size_t count() const { return rules_.size(); }
  // Returns whether a view depends on several tensors or adds tensors, so that
  // all tensors of a group are needed.
  bool need_whole_group() const { return need_whole_group_; }

  // Returns a rule in the syntax of the flags of msitctl, such as
  // `*.qkv@output/0=split(-1,1:1:1,0) as *.q`. An index for all sides, which
  // flags cannot give, is `@*/0`.
  std::string Text(size_t number) const;

  // Applies the rules to the tensors of a group. The view of a tensor
  // replaces it, and tensors that rules add are appended. Tensors that only
  // serve views of other tensors receive LogicalTensor::seen_in. Records that
  // are neither tensors nor statistics stay as they are. Returns false if there
  // would be more than `tensors_max` tensors.
  bool Apply(size_t tensors_max, std::vector<LogicalTensor>& tensors) const;

 private:
  struct Rule {
    std::string op_pattern;
    Io io = Io::kUnspecified;  // kUnspecified: all sides.
    std::optional<std::string> index;
    std::string text;
    std::vector<ViewStep> steps;
    std::string as_op;  // Empty to replace the tensor.

    bool Matches(const TensorKey& key) const;
  };
  class Application;

  static absl::StatusOr<Rule> ToRule(const v1::View& view,
                                     const std::string& field);

  // Returns the numbers of the rules that apply to a tensor, in order: those
  // with `as_op`, up to the first one without.
  std::vector<size_t> Find(const TensorKey& key) const;

  std::vector<Rule> rules_;
  bool need_whole_group_ = false;
};

}  // namespace msitd::compare
