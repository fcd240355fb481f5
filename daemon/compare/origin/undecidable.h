// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Finds pairs of a group whose difference says nothing about any op.
//
// Gradients of a conversion such as `Tensor.float` that only one run makes: a
// conversion to the type that its argument has returns the argument itself. Its
// gradients are then those of the argument, to which all uses of the argument
// contribute. That is usual if a run in bfloat16 is compared with one in
// float32. A call counts as such a conversion if in one run, its result has the
// type and the bytes of an argument, and in the other run, the types of all
// arguments differ from that of the result.
//
// Memory that was not written: the tensor that a call such as
// `Tensor.__setitem__` writes to, if neither run recorded its bytes before at
// this token. It is usually a result of `torch.empty`, whose content is
// arbitrary. Its content after the call is an output, which is compared. After
// token 0, the memory may be a cache that an earlier token has written, so that
// the outputs must be equal: then its former content has no effect.
//
// Immutable. Takes time and memory in proportion to the number of pairs.
class Undecidable {
 public:
  // `pairs` must outlive this object.
  explicit Undecidable(const std::vector<TensorPair>& pairs);

  // Returns why a pair is undecidable; empty if it is not.
  std::string ReasonOf(size_t pair) const;

 private:
  // The arguments and the result of a call in one run.
  struct Call {
    std::vector<const LogicalTensor*> inputs;
    const LogicalTensor* output = nullptr;
    bool has_other_outputs = false;

    void Add(const LogicalTensor& tensor);
    bool IsKnown() const;
    bool ReturnsArgument() const;
    bool Converts() const;
  };
  // One run.
  struct Side {
    // The calls whose gradients were recorded, by op and number.
    std::map<std::pair<std::string_view, int32_t>, Call> calls;
    // The first sequence number of each content, by the low half of its hash.
    std::unordered_map<uint64_t, uint64_t> first;

    void Add(const LogicalTensor& tensor);
    const Call* CallOf(const LogicalTensor& tensor) const;
    bool IsNew(const LogicalTensor& tensor) const;
  };

  // Returns whether the result that has replaced the argument `pair` is equal.
  bool HasEqualResult(size_t pair) const;

  const std::vector<TensorPair>& pairs_;
  Side golden_;
  Side target_;
};

}  // namespace msitd::compare
