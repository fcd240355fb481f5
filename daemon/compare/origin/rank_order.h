// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Maximum number of tensors of a token, over all ranks, that are ordered. Ranks
// that would exceed it are left out. Limits the memory to about 60 MiB.
inline constexpr size_t kOrderedTensorsMax = size_t{1} << 18;

// Determines which tensors of different ranks were computed before which, at
// one token of the golden run.
//
// Sequence numbers order the tensors of one rank, but not those of different
// ranks. The communication between ranks would, but is not recorded. It does
// leave equal bytes on several ranks, and these show a partial order:
//
// - Tensors of one name that have equal bytes on several ranks are one moment
//   of all these ranks, such as the result of a collective.
// - If a tensor occurs first as an output on one rank, and first as an input on
//   another rank, the first rank sent it to the second.
//
// Equal bytes of constants prove nothing and are ignored. Tensors whose order
// these rules do not show are concurrent.
//
// Thread-compatible.
class RankOrder {
 public:
  // Adds the tensors of a rank. The position of a tensor is its index among the
  // pairs of the group. Returns false, and adds nothing, if this would exceed
  // kOrderedTensorsMax.
  bool Add(const TensorGroup& group);

  // A tensor, by its rank and its position.
  struct Moment {
    int32_t rank = 0;
    int32_t position = 0;
  };

  // Returns the first position of each rank that is `from` or certainly after
  // it. Ranks without such a position are absent. Takes time in proportion to
  // the number of tensors.
  std::map<int32_t, int32_t> PositionsFrom(Moment from) const;

  // Returns the position of the tensor of `rank` that has the same name as the
  // tensor at `other`; -1 if there is none.
  int32_t PositionOfName(Moment other, int32_t rank) const;

 private:
  // The relation of a tensor to those of other ranks.
  struct Tensor {
    uint64_t name = 0;  // Hash of its name.
    // Index of its moment in shared_; -1 if there is none.
    int32_t shared = -1;
    // Index in messages_ of the message that this tensor was sent as; -1 if
    // there is none.
    int32_t sent = -1;
  };
  // Tensors of several ranks with the same bytes: outputs that were sent, and
  // inputs that received them.
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
