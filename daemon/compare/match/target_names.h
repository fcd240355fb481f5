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

// What the two tensors of a pair have in common: call, io and index of `key`,
// and `op`. Names hold no NUL, which keeps them apart.
std::string PairName(std::string_view op, const TensorKey& key);

// The same for a tensor whose call counts as `call`.
std::string PairName(std::string_view op, const TensorKey& key, int32_t call);

// Tensors of the target run by name, each of which is taken once.
//
// Devices keep two tensors of ranks apart if the table is told so. What is put
// together from shards has no device: it belongs to a tensor of any.
//
// Thread-compatible.
class TargetNames {
 public:
  explicit TargetNames(bool with_device) : with_device_(with_device) {}

  // Adds target tensor `index`, in the order of execution. `name` holds no two
  // NUL in a row.
  void Add(std::string name, const LogicalTensor& target, size_t index);

  // Takes the first target tensor that belongs to `golden` of this name and is
  // free. The caller joins the two.
  std::optional<size_t> Take(std::string name, const LogicalTensor& golden,
                             const Partners& partners);

 private:
  struct Queue {
    std::vector<size_t> targets;
    size_t next = 0;  // All before it are taken.
  };

  std::optional<size_t> TakeFrom(const std::string& name,
                                 const Partners& partners);

  const bool with_device_;
  std::unordered_map<std::string, Queue> queues_;
};

}  // namespace msitd::compare
