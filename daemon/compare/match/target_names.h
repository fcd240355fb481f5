// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/compare/match/pairing.h"
#include "daemon/compare/shard/assembly.h"

namespace msitd::compare {

// Returns the name that the two tensors of a pair share. It consists of `op`,
// and of call, io and index of `key`. The parts are separated by NUL, which
// they cannot contain.
std::string PairName(std::string_view op, const TensorKey& key);

// Returns the same with `call` as call number.
std::string PairName(std::string_view op, const TensorKey& key, int32_t call);

// Finds tensors of the target run by name. Each one is found once.
//
// If `with_device`, two tensors of ranks belong together only if their devices
// are equal. An assembled tensor has no device, and can belong to a tensor of
// any device.
//
// Thread-compatible.
class TargetNames {
 public:
  explicit TargetNames(bool with_device) : with_device_(with_device) {}

  // Adds target tensor number `index`. Tensors must be added in execution
  // order. `name` must not contain two consecutive NULs.
  void Add(std::string name, const LogicalTensor& target, size_t index);

  // Removes and returns the first free target tensor that has this name and
  // belongs to `golden`, or returns nothing. The caller must join the two.
  std::optional<size_t> Take(std::string name, const LogicalTensor& golden,
                             const Partners& partners);

 private:
  struct Queue {
    std::vector<size_t> targets;
    size_t next = 0;  // All targets before it have a partner.
  };

  std::optional<size_t> TakeFrom(const std::string& name,
                                 const Partners& partners);

  const bool with_device_;
  std::unordered_map<std::string, Queue> queues_;
};

}  // namespace msitd::compare
