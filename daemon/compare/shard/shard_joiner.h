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

// Forms a whole tensor from shards, step by step. The steps are common to all
// sources of layouts: placements, rules and fitted sizes. A step that returns
// bool returns false if it finds a problem. After that, only Finish() may be
// called, which returns the first shard with the problem.
//
// Thread-compatible.
class ShardJoiner {
 public:
  // `shards` are at least one, ascending by rank.
  ShardJoiner(std::string layout, int32_t group_number,
              std::vector<storage::TensorInfo> shards);

  const std::vector<storage::TensorInfo>& shards() const { return out_.shards; }
  std::span<const int32_t> ranks() const { return out_.ranks; }

  // Records a problem and returns false.
  bool Fail(Assembly::Problem problem, std::string text);

  // Requires that no rank has two shards.
  bool CheckOverlap();
  // Requires that `missing`, the ranks without a shard, is empty. `remark` is
  // appended to the text of the problem.
  bool CheckMissing(std::vector<RankRange> missing,
                    std::string_view remark = "");
  // Requires that the shards have this dimension. Negative numbers count from
  // the last one.
  bool CheckDim(int dim);

  // Keeps only `shards`, at least one. The first of them becomes the base of
  // the tensor.
  void Keep(std::vector<storage::TensorInfo> shards);
  // Sets the ranks that the tensor consists of.
  void SetRanks(std::vector<int32_t> ranks) { out_.ranks = std::move(ranks); }
  // Sets Assembly::difference, unless it is already set.
  void Differ(std::string difference);

  // Compares shards that should be equal: all of them, or `copies`, at least
  // one. Sets Assembly::difference and odd_copies. Without an argument, also
  // sets Assembly::copies.
  void CompareCopies();
  void CompareCopies(const std::vector<const storage::TensorInfo*>& copies);
  // Sets Assembly::sum_of_copies.
  void AddUpCopies();

  // Sets Assembly::remark.
  void Remark(std::string remark) { out_.remark = std::move(remark); }
  // Sets Assembly::is_open_ended.
  void LeaveOpen() { out_.is_open_ended = true; }

  // Forms the tensor from the shards, which are in the order of the grid.
  bool Join(ShardGrid grid);
  // Forms the tensor from the first shard only.
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

// Returns how the copy `shard` differs from `first`, or an empty string if they
// are equal.
std::string CopyDifference(const storage::TensorInfo& shard,
                           const storage::TensorInfo& first);

// Maximum number of rows of a mesh (Mesh::row_size) that are checked for
// missing ranks. It bounds the time for very large meshes.
inline constexpr size_t kMissingRowsMax = 1024;

}  // namespace msitd::compare
