// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/shard/assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/compare/shard/lean_shards.h"
#include "daemon/compare/shard/shard_joiner.h"
#include "daemon/compare/shard/shard_locator.h"
#include "protos/base/check.h"

namespace msitd::compare {

using storage::TensorInfo;

LogicalTensor AssembleCopies(int32_t group_number, size_t rank_count,
                             std::vector<TensorInfo> copies) {
  MSITD_CHECK(!copies.empty());
  ShardJoiner joiner("replicated", group_number, std::move(copies));
  joiner.LeaveOpen();
  if (joiner.ranks().size() < rank_count) {
    joiner.Remark(fmt::format("copies on {} of {} ranks", joiner.ranks().size(),
                              rank_count));
  }
  joiner.CompareCopies();
  joiner.AddUpCopies();
  if (joiner.CheckOverlap()) joiner.JoinFirst();
  return std::move(joiner).Finish();
}

std::span<const int32_t> RanksOf(const Assembly& assembly) {
  if (assembly.shared_ranks != nullptr) return *assembly.shared_ranks;
  return assembly.ranks;
}

std::span<const storage::TensorInfo> ShardsOf(const LogicalTensor& tensor) {
  if (tensor.assembly != nullptr) return tensor.assembly->shards;
  const storage::TensorInfo& alone = tensor;
  return {&alone, 1};
}

bool HasAllShards(const LogicalTensor& tensor) {
  return tensor.assembly == nullptr ||
         tensor.assembly->problem == Assembly::Problem::kNone;
}

std::vector<int32_t> WrongCopies(const Assembly& assembly,
                                 const LogicalTensor* counterpart) {
  const bool is_known = counterpart != nullptr && HasAllShards(*counterpart) &&
                        HasHash(*counterpart) &&
                        (counterpart->assembly == nullptr ||
                         counterpart->assembly->difference.empty());
  if (!is_known) return assembly.odd_copies;
  std::vector<int32_t> wrong;
  bool is_any_right = false;
  for (const Assembly::Copy& copy : assembly.copies) {
    const bool is_right = copy.dtype == counterpart->dtype &&
                          copy.shape == counterpart->shape &&
                          copy.hash == counterpart->hash;
    is_any_right = is_any_right || is_right;
    if (!is_right && (wrong.empty() || wrong.back() != copy.rank)) {
      wrong.push_back(copy.rank);
    }
  }
  return is_any_right ? wrong : assembly.odd_copies;
}

bool HasHash(const LogicalTensor& tensor) {
  if (tensor.is_rearranged) return false;
  if (tensor.assembly == nullptr) return true;
  const Assembly& assembly = *tensor.assembly;
  return assembly.shards.size() == 1 && !assembly.lean.has_value() &&
         !assembly.is_sum();
}

bool HashesAgree(const LogicalTensor& a, const LogicalTensor& b) {
  if (a.dtype != b.dtype || a.is_rearranged || b.is_rearranged) return false;
  if (HasHash(a) && HasHash(b)) return a.hash == b.hash;
  if (HasHash(a) || HasHash(b)) return false;
  const Assembly& left = *a.assembly;
  const Assembly& right = *b.assembly;
  // A row needs the summary of a sum, which requires the bytes even if they are
  // equal.
  if (left.is_sum() || left.grid != right.grid) return false;
  if (left.lean.has_value() || right.lean.has_value()) {
    return ShardDigest(left) == ShardDigest(right);
  }
  return std::equal(left.shards.begin(), left.shards.end(),
                    right.shards.begin(), right.shards.end(),
                    [](const TensorInfo& one, const TensorInfo& other) {
                      return one.shape == other.shape && one.hash == other.hash;
                    });
}

std::optional<int32_t> RankOfElement(const LogicalTensor& tensor,
                                     uint64_t element) {
  if (tensor.assembly == nullptr || tensor.is_rearranged) return std::nullopt;
  const Assembly& assembly = *tensor.assembly;
  const ShardGrid& grid = assembly.grid;
  if (assembly.problem != Assembly::Problem::kNone || grid.axes.empty() ||
      grid.is_sum || assembly.lean.has_value()) {
    return std::nullopt;
  }
  const ShardLocator locator(grid, assembly.shards);
  if (element >= locator.element_count()) return std::nullopt;
  return assembly.shards[locator.Find(element).shard].key.rank;
}

std::string AssemblyText(const Assembly& assembly) {
  return fmt::format("{} of rank{} {}", assembly.layout,
                     RanksOf(assembly).size() == 1 ? "" : "s",
                     RankSet::Of(RanksOf(assembly)).Text());
}

}  // namespace msitd::compare
