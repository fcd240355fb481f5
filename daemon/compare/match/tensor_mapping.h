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

// One tensor of a run, or all of a whole op.
struct MappedTensor {
  std::string op;
  std::optional<int32_t> call = {};  // Nothing: every call.
  // Unspecified for a whole op, which has no index either.
  Io io = Io::kUnspecified;
  std::string index = {};

  bool is_whole_op() const { return io == Io::kUnspecified; }
};

// Two that belong together; or one that belongs to none, and then the other has
// no op.
struct MappedPair {
  MappedTensor target;
  MappedTensor golden;
  std::string reason;
  int line = 0;  // Of the attachment, from 1.

  bool is_alone() const { return target.op.empty() || golden.op.empty(); }
};

// Which tensors belong together, as a list of pairs says; see
// msitd.v1.MappingLine. Thread-compatible; immutable once it is filled.
class TensorMapping {
 public:
  // If one side has no call, it gets that of the other.
  //
  // Errors: INVALID_ARGUMENT if one side is a whole op and the other is not, if
  // there is a pair with the same target, or one says that the golden tensor
  // belongs to none, whose line is named, or if there are kMappingPairsMax.
  absl::Status Add(MappedPair pair);

  size_t pair_count() const { return pairs_.size(); }
  const MappedPair& pair(size_t number) const { return pairs_[number]; }

  // The number of the pair that counts for a target tensor.
  std::optional<size_t> Find(const TensorKey& target) const;

  // What pair `number`, which is not alone, makes of a target tensor that it
  // counts for: the PairName of a golden one.
  std::string GoldenName(size_t number, const TensorKey& target) const;

  // The number of the first pair that names a golden tensor, of those that say
  // most.
  std::optional<size_t> FindGolden(const TensorKey& golden) const;

 private:
  // What a pair says of the tensor beside the op.
  enum Form { kTensorAtCall, kTensor, kOpAtCall, kOp, kFormCount };

  static Form FormOf(const MappedTensor& tensor);
  static std::string NameOf(const MappedTensor& tensor);
  // The name that a pair of this form has for the tensor.
  static std::string NameOf(Form form, const TensorKey& key);

  absl::Status AddTarget(const MappedPair& pair);
  absl::Status AddGolden(const MappedPair& pair);
  std::optional<size_t> Find(
      const std::unordered_map<std::string, size_t>& numbers,
      const TensorKey& key) const;

  std::vector<MappedPair> pairs_;
  std::unordered_map<std::string, size_t> by_target_;
  std::unordered_map<std::string, size_t> by_golden_;  // The first pair.
  // Forms that occur; both sides of a pair have the same one.
  std::array<bool, kFormCount> forms_ = {};
};

}  // namespace msitd::compare
