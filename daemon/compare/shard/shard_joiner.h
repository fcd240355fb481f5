// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/shard/shard_grid.h"
#include "storage/face/types.h"

namespace msitd::compare {

// The steps by which shards become a tensor, whoever says how they lie. A step
// returns false once it has found a problem, after which only Finish counts.
//
// Thread-compatible.
class ShardJoiner {
 public:
  // `shards` are at least one, ascending by rank.
  ShardJoiner(std::string layout, int32_t group_number,
              std::vector<storage::TensorInfo> shards);

  const std::vector<storage::TensorInfo>& shards() const { return out_.shards; }
  std::span<const int32_t> ranks() const { return out_.ranks; }

  // Says that there is a problem: returns false.
  bool Fail(Assembly::Problem problem, std::string text);

  // No rank has two shards.
  bool CheckOverlap();
  // All ranks have one, but for these; `remark` ends what is said of them.
  bool CheckMissing(std::vector<storage::RankRange> missing,
                    std::string_view remark = "");
  // The shards have this dimension.
  bool CheckDim(int dim);

  // Leaves shards out; at least one stays. The tensor is like the first then.
  void Keep(std::vector<storage::TensorInfo> shards);
  // The ranks that the tensor is of.
  void SetRanks(std::vector<int32_t> ranks) { out_.ranks = std::move(ranks); }
  // See Assembly::difference. The first that is said stays.
  void Differ(std::string difference);

  // All of them should be the same, or those of `copies`, at least one. See
  // Assembly::difference, odd_copies, and for all of them copies.
  void CompareCopies();
  void CompareCopies(const std::vector<const storage::TensorInfo*>& copies);
  // See Assembly::sum_of_copies.
  void AddUpCopies();

  // See Assembly::remark.
  void Remark(std::string remark) { out_.remark = std::move(remark); }
  // See Assembly::is_open_ended.
  void LeaveOpen() { out_.is_open_ended = true; }

  // Makes the tensor of the shards, which are in the order of the grid.
  bool Join(ShardGrid grid);
  // The same of the first shard alone.
  bool JoinFirst();

  LogicalTensor Finish() &&;

 private:
  bool CheckTypes();
  bool CheckSections();
  void AddUp();
  void Concatenate();

  LogicalTensor whole_;
  Assembly out_;
};

// Returns how `shard` differs from `first`, which should be the same; empty if
// it is.
std::string CopyDifference(const storage::TensorInfo& shard,
                           const storage::TensorInfo& first);

// More rows of a mesh (Mesh::row_size) are not looked at, however large it is.
inline constexpr size_t kMissingRowsMax = 1024;

}  // namespace msitd::compare
