// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/view/view_step.h"
#include "protos/base/tensor_key.h"

namespace msitd::compare {

// Finds the tensors of a group that views read. Borrows the tensors, and finds
// those that exist when it is created.
//
// Thread-compatible.
class LeafTable {
 public:
  explicit LeafTable(const std::vector<LogicalTensor>& tensors);

  // Returns the position of the tensor that `leaf` names in a view of `key`, or
  // nothing. If tensors on several devices have the name, returns the one on
  // the same device. `stars` replace the `*` of the name.
  std::optional<size_t> Find(const TensorKey& key, const LeafName& leaf,
                             const std::vector<std::string_view>& stars) const;

  // Returns the tensor at a position as it was recorded.
  const LogicalTensor& Recorded(size_t position) const;

 private:
  const std::vector<LogicalTensor>& tensors_;
  std::unordered_map<std::string, std::vector<size_t>> by_name_;
};

// Lists what is compared in place of tensors of a group; see
// LogicalTensor::seen_in.
class SeenIn {
 public:
  // Records that a tensor is read in a view that is compared as `op`.
  void Add(size_t position, const std::string& op);

  // Sets LogicalTensor::seen_in of the recorded tensors.
  void Set(std::vector<LogicalTensor>& tensors) const;

 private:
  std::unordered_map<size_t, std::vector<std::string>> ops_;
};

}  // namespace msitd::compare
