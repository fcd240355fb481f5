// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/seen_tensors.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/compare/view/coverage.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/base/shape.h"

namespace msitd::compare {
namespace {

// Identifies a recorded tensor of a group.
std::string NameOf(const TensorKey& key) {
  return fmt::format("{}{}{}{}{}{}{}{}{}{}{}", key.op, '\0', key.call, '\0',
                     IoName(key.io), '\0', key.index, '\0', key.rank, '\0',
                     key.device);
}

// A tensor without a counterpart.
struct LoneTensor {
  size_t position = 0;  // In the tensors of its run.
  Coverage coverage;
};

void AddView(const TensorView& view,
             std::unordered_map<std::string, LoneTensor>& lone,
             uint64_t& budget) {
  for (uint32_t leaf = 0; leaf < view.leaves.size(); ++leaf) {
    const auto found = lone.find(NameOf(view.leaves[leaf].key));
    if (found == lone.end()) continue;
    for (const Gather& term : view.plan.terms) {
      found->second.coverage.Add(term, leaf, budget);
    }
  }
}

void MarkSide(const std::vector<TensorPair>& pairs,
              const LogicalTensor* TensorPair::*side,
              std::vector<LogicalTensor>& tensors) {
  std::unordered_map<std::string, LoneTensor> lone;
  for (const TensorPair& pair : pairs) {
    const bool is_alone = pair.golden == nullptr || pair.target == nullptr;
    const LogicalTensor* const tensor = pair.*side;
    if (!is_alone || tensor == nullptr || tensor->seen_in == nullptr) continue;
    const LogicalTensor& recorded =
        tensor->view == nullptr ? *tensor : tensor->view->leaves.front();
    lone.emplace(NameOf(recorded.key),
                 LoneTensor{static_cast<size_t>(tensor - tensors.data()),
                            Coverage(ElementCount(recorded.shape))});
  }
  if (lone.empty()) return;
  uint64_t budget = kCoverageBudget;
  for (const TensorPair& pair : pairs) {
    if (pair.golden == nullptr || pair.target == nullptr) continue;
    const LogicalTensor& tensor = *(pair.*side);
    if (tensor.view != nullptr && ViewProblem(tensor).empty()) {
      AddView(*tensor.view, lone, budget);
    }
  }
  for (const auto& [name, tensor] : lone) {
    tensors[tensor.position].is_seen_in_part =
        !tensor.coverage.IsComplete(budget);
  }
}

}  // namespace

void MarkPartlySeen(TensorGroup& group) {
  MarkSide(group.pairs, &TensorPair::golden, group.golden);
  MarkSide(group.pairs, &TensorPair::target, group.target);
}

}  // namespace msitd::compare
