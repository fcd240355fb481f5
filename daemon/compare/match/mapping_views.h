// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/match/tensor_mapping.h"
#include "daemon/compare/shard/assembly.h"

namespace msitd::compare {

// The golden tensors that pairs of a mapping state views of: the number of each
// pair and a PairName, each combination once.
class ViewedGoldens {
 public:
  using Golden = std::pair<size_t, std::string>;

  void Add(size_t number, std::string name);
  void Add(const ViewedGoldens& others);
  const std::vector<Golden>& all() const { return all_; }

 private:
  std::vector<Golden> all_;
  std::set<Golden> known_;
};

// Sees the target tensors of a group as the pairs of a mapping state. A tensor
// that several pairs name is replaced by a copy for each of them. Copies have
// their pair as LogicalTensor::mapped_pair. Adds the golden tensors of these
// pairs to `goldens`. Returns false if there would be more than `tensors_max`
// tensors.
bool ApplyTargetViews(const TensorMapping& mapping, size_t tensors_max,
                      std::vector<LogicalTensor>& target,
                      ViewedGoldens& goldens);

// Adds a copy of a golden tensor for each pair that states a view of it; see
// ApplyTargetViews.
bool ApplyGoldenViews(const TensorMapping& mapping,
                      const ViewedGoldens& goldens, size_t tensors_max,
                      std::vector<LogicalTensor>& golden);

}  // namespace msitd::compare
