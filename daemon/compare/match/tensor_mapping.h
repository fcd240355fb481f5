// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
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

struct MappedPair {
  MappedTensor target;
  MappedTensor golden;
  std::string reason;
  int line = 0;  // Of the attachment, from 1.
};

// Which tensors belong together, as a list of pairs says; see
// msitd.v1.MappingLine. Thread-compatible; immutable once it is filled.
class TensorMapping {
 public:
  // If one side has no call, it gets that of the other.
  //
  // Errors: INVALID_ARGUMENT if one side is a whole op and the other is not, if
  // there is a pair with the same target, whose line is named, or if there are
  // kMappingPairsMax.
  absl::Status Add(MappedPair pair);

  size_t pair_count() const { return pairs_.size(); }
  const MappedPair& pair(size_t number) const { return pairs_[number]; }

  // The number of the pair that counts for a target tensor.
  std::optional<size_t> Find(const TensorKey& target) const;

  // What pair `number` makes of a target tensor that it counts for: the
  // PairName of a golden one.
  std::string GoldenName(size_t number, const TensorKey& target) const;

  // True if a pair names the golden tensor.
  bool NamesGolden(const TensorKey& golden) const;

 private:
  // What a pair says of the tensor beside the op.
  enum Form { kTensorAtCall, kTensor, kOpAtCall, kOp, kFormCount };

  static Form FormOf(const MappedTensor& tensor);
  static std::string NameOf(const MappedTensor& tensor);
  // The name that a pair of this form has for the tensor.
  static std::string NameOf(Form form, const TensorKey& key);

  std::vector<MappedPair> pairs_;
  std::unordered_map<std::string, size_t> by_target_;
  std::unordered_set<std::string> goldens_;
  // Forms that occur; both sides of a pair have the same one.
  std::array<bool, kFormCount> forms_ = {};
};

}  // namespace msitd::compare
