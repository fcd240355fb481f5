// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "daemon/compare/match/matcher.h"

namespace msitd::compare {

// Tensors over all ranks of a token that are put in order; ranks that are added
// when there are more stay without one. Bounds its memory to some 60 MiB.
inline constexpr size_t kOrderedTensorsMax = size_t{1} << 18;

// What happened before what on several ranks at one token, as far as the golden
// run shows: within a rank by its sequence; between ranks where they hold equal
// bytes. Tensors of one name that have equal bytes on several ranks are taken
// for one moment of all of them, as the result of a collective is. A tensor
// that a rank first knows as an input, and another first as an output, was sent
// from that one to this.
//
// Thread-compatible.
class RankOrder {
 public:
  // Adds the tensors of a rank, whose position is their index among the pairs
  // of the group. Returns false if there is no room for them.
  bool Add(const TensorGroup& group);

  // A tensor of a rank.
  struct Moment {
    int32_t rank = 0;
    int32_t position = 0;
  };

  // For every rank the first position that is `from` or certainly behind it;
  // ranks without one are not there. Takes time in proportion to the number of
  // tensors.
  std::map<int32_t, int32_t> Behind(Moment from) const;

  // Where `rank` has the tensor of `other`, by its name; -1 if it has none.
  int32_t PositionOfName(Moment other, int32_t rank) const;

 private:
  // What one rank does not know by itself.
  struct Tensor {
    uint64_t name = 0;
    // Number of its moment, or -1.
    int32_t shared = -1;
    // Number of its message, or -1.
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
