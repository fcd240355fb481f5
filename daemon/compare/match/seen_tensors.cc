// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/seen_tensors.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/compare/view/coverage.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/base/shape.h"

namespace msitd::compare {
namespace {

// Identifies a recorded tensor of one run. The rows of a request are those of
// several tokens.
std::string NameOf(const TensorKey& key) {
  return fmt::format("{}{}{}{}{}{}{}{}{}{}{}{}{}", key.op, '\0', key.call, '\0',
                     IoName(key.io), '\0', key.index, '\0', key.rank, '\0',
                     key.token, '\0', key.device);
}

// A tensor without a counterpart, with the elements of its leaves that views of
// other tensors read.
struct LoneTensor {
  size_t position = 0;  // In the tensors of its run.
  std::vector<Coverage> leaves;
};

// A leaf of a lone tensor.
struct LoneLeaf {
  size_t tensor = 0;
  size_t leaf = 0;
};

using LoneLeaves = std::unordered_map<std::string, LoneLeaf>;

bool HasRowsOfRequest(const LogicalTensor& tensor) {
  return tensor.view != nullptr && tensor.view->is_of_request &&
         ViewProblem(tensor).empty();
}

// Returns the recorded tensors whose elements must be compared.
std::span<const LogicalTensor> NeededLeaves(const LogicalTensor& tensor) {
  if (tensor.view == nullptr) return {&tensor, 1};
  const std::span<const LogicalTensor> all = tensor.view->leaves;
  return HasRowsOfRequest(tensor) ? all : all.first(1);
}

void AddView(const TensorView& view, const LoneLeaves& leaves,
             std::vector<LoneTensor>& lone, uint64_t& budget) {
  for (uint32_t leaf = 0; leaf < view.leaves.size(); ++leaf) {
    const auto found = leaves.find(NameOf(view.leaves[leaf].key));
    if (found == leaves.end()) continue;
    Coverage& coverage = lone[found->second.tensor].leaves[found->second.leaf];
    for (const Gather& term : view.plan->terms) {
      coverage.Add(term, leaf, budget);
    }
  }
}

// Returns whether all elements that would be compared are read.
bool IsSeen(const LogicalTensor& tensor, const LoneTensor& lone,
            uint64_t& budget) {
  if (!HasRowsOfRequest(tensor)) return lone.leaves.front().IsComplete(budget);
  for (uint32_t leaf = 0; leaf < lone.leaves.size(); ++leaf) {
    for (const Gather& term : tensor.view->plan->terms) {
      if (!lone.leaves[leaf].Covers(term, leaf, budget)) return false;
    }
  }
  return true;
}

void MarkSide(const std::vector<TensorPair>& pairs,
              const LogicalTensor* TensorPair::*side,
              std::vector<LogicalTensor>& tensors) {
  std::vector<LoneTensor> lone;
  LoneLeaves leaves;
  for (const TensorPair& pair : pairs) {
    const bool is_alone = pair.golden == nullptr || pair.target == nullptr;
    const LogicalTensor* const tensor = pair.*side;
    if (!is_alone || tensor == nullptr || tensor->seen_in == nullptr) continue;
    LoneTensor one{static_cast<size_t>(tensor - tensors.data()), {}};
    for (const LogicalTensor& leaf : NeededLeaves(*tensor)) {
      leaves.emplace(NameOf(leaf.key),
                     LoneLeaf{lone.size(), one.leaves.size()});
      one.leaves.emplace_back(ElementCount(leaf.shape));
    }
    lone.push_back(std::move(one));
  }
  if (lone.empty()) return;
  uint64_t budget = kCoverageBudget;
  for (const TensorPair& pair : pairs) {
    if (pair.golden == nullptr || pair.target == nullptr) continue;
    const LogicalTensor& tensor = *(pair.*side);
    if (tensor.view != nullptr && ViewProblem(tensor).empty()) {
      AddView(*tensor.view, leaves, lone, budget);
    }
  }
  for (const LoneTensor& one : lone) {
    LogicalTensor& tensor = tensors[one.position];
    tensor.is_seen_in_part = !IsSeen(tensor, one, budget);
  }
}

}  // namespace

void MarkPartlySeen(TensorGroup& group) {
  MarkSide(group.pairs, &TensorPair::golden, group.golden);
  MarkSide(group.pairs, &TensorPair::target, group.target);
}

}  // namespace msitd::compare
