// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Tensors of a token, over all ranks, that are put in order. A rank that would
// exceed this stays without one. Bounds the memory to some 60 MiB.
inline constexpr size_t kOrderedTensorsMax = size_t{1} << 18;

// What happened before what on several ranks at one token, as far as the golden
// run shows. Within a rank, sequence is the order. Between ranks, equal bytes
// tell. Tensors of one name that have equal bytes on several ranks are one
// moment of all of them, like the result of a collective. A tensor that one
// rank first has as an output, and another first as an input, was sent from the
// one to the other.
//
// Thread-compatible.
class RankOrder {
 public:
  // Adds the tensors of a rank. The position of a tensor is its index among the
  // pairs of the group. Returns false if there is no room for them.
  bool Add(const TensorGroup& group);

  // A tensor of a rank.
  struct Moment {
    int32_t rank = 0;
    int32_t position = 0;
  };

  // Returns, for every rank that has one, the first position that is `from` or
  // certainly behind it. Takes time in proportion to the number of tensors.
  std::map<int32_t, int32_t> PositionsFrom(Moment from) const;

  // Returns the position of the tensor of `rank` that has the name of that at
  // `other`; -1 if there is none.
  int32_t PositionOfName(Moment other, int32_t rank) const;

 private:
  // What ties a tensor to those of other ranks.
  struct Tensor {
    uint64_t name = 0;
    // Index of its moment in shared_, or -1.
    int32_t shared = -1;
    // Index of the message that it is in messages_, or -1.
    int32_t sent = -1;
  };
  struct Message {
    std::vector<Moment> receivers;
    std::vector<Moment> senders;
  };
  struct Rank {
    std::vector<Tensor> tensors;
    std::unordered_map<uint64_t, int32_t> by_name;
  };

  std::map<int32_t, Rank> ranks_;
  size_t tensor_count_ = 0;
  std::unordered_map<uint64_t, int32_t> shared_by_name_;
  std::vector<std::vector<Moment>> shared_;
  std::unordered_map<uint64_t, int32_t> message_by_hash_;
  std::vector<Message> messages_;
};

}  // namespace msitd::compare
