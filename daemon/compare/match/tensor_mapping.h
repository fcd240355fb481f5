// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {

// A tensor of a run, or all tensors of an op.
struct MappedTensor {
  std::string op;
  std::optional<int32_t> call = {};  // Nothing for every call.
  // Unspecified if the whole op is meant, which also has no index.
  Io io = Io::kUnspecified;
  std::string index = {};

  bool is_whole_op() const { return io == Io::kUnspecified; }
};

// Two tensors or ops that belong together. If one of them has no op, the other
// has no counterpart.
struct MappedPair {
  MappedTensor target;
  MappedTensor golden;
  std::string reason;
  int line = 0;  // Line of the attachment, from 1.
  // Valid texts of views; empty for none.
  std::string target_view = {};
  std::string golden_view = {};

  bool has_view() const { return !target_view.empty() || !golden_view.empty(); }

  bool is_alone() const { return target.op.empty() || golden.op.empty(); }
};

// A list of pairs that states which tensors belong together; see
// msitd.v1.MappingLine.
//
// Thread-compatible. Not changed any more after all pairs were added.
class TensorMapping {
 public:
  // Adds a pair. If one side has no call, it gets that of the other side.
  //
  // Errors, with the line of the earlier pair if there is one: INVALID_ARGUMENT
  // in these cases:
  // - One side is a whole op and the other is not.
  // - An earlier pair has the same target, and one of the two has no view or no
  //   counterpart.
  // - It has a view, but no golden tensor, or it is for whole ops.
  // - An earlier pair has the same golden tensor, and one of the two states
  //   that it has no counterpart.
  // - There are already kMappingPairsMax pairs.
  absl::Status Add(MappedPair pair);

  bool has_views() const { return has_views_; }
  size_t pair_count() const { return pairs_.size(); }
  const MappedPair& pair(size_t number) const { return pairs_[number]; }

  // Returns the number of the pair that applies to a target tensor, or nothing.
  // The most specific pair applies.
  std::optional<size_t> Find(const TensorKey& target) const;

  // Returns the numbers of the pairs that have the same target as pair
  // `number`, which Find returned, in the order of their lines.
  std::vector<size_t> WithSameTarget(size_t number) const;

  // Returns the PairName of the golden tensor that belongs to a target tensor.
  // `number` is the pair that applies to the target tensor, and must have both
  // sides.
  std::string GoldenName(size_t number, const TensorKey& target) const;

  // Returns the number of the first pair that names a golden tensor, among the
  // most specific ones, or nothing.
  std::optional<size_t> FindGolden(const TensorKey& golden) const;

 private:
  // The fields of a pair that are set in addition to the op.
  enum Form { kTensorAtCall, kTensor, kOpAtCall, kOp, kFormCount };

  static Form FormOf(const MappedTensor& tensor);
  static std::string NameOf(const MappedTensor& tensor);
  // Returns the name of a tensor in pairs of this form.
  static std::string NameOf(Form form, const TensorKey& key);

  absl::Status AddTarget(const MappedPair& pair);
  absl::Status AddGolden(const MappedPair& pair);
  std::optional<size_t> Find(
      const std::unordered_map<std::string, size_t>& numbers,
      const TensorKey& key) const;

  std::vector<MappedPair> pairs_;
  bool has_views_ = false;
  // Further pairs with a target, by the number of its first pair.
  std::unordered_map<size_t, std::vector<size_t>> same_target_;
  std::unordered_map<std::string, size_t> by_target_;
  // The first pair with this golden tensor.
  std::unordered_map<std::string, size_t> by_golden_;
  // Forms that occur. Both sides of a pair have the same form.
  std::array<bool, kFormCount> forms_ = {};
};

}  // namespace msitd::compare
