// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/compare/shard/mesh.h"
#include "daemon/compare/shard/shard_grid.h"
#include "protos/base/summary.h"
#include "storage/face/types.h"
#include "storage/run_ranks.h"

// Tensors that are put together from the shards of several ranks.
namespace msitd::compare {

// What is known of the shards of a tensor that does not hold them: see
// lean_shards.h.
struct LeanShards {
  // Of a shard, by which it is found again; the rest of its key is that of the
  // whole.
  struct Place {
    int32_t rank = 0;
    std::string device;

    friend auto operator<=>(const Place&, const Place&) = default;
  };

  // In the order of the grid. Tensors whose shards are in the same places share
  // them.
  std::shared_ptr<const std::vector<Place>> places;
  // Of the shapes and hashes of the shards.
  ContentHash digest;
  // If the whole has no bytes: each shard has its bytes, or else its sample.
  bool have_bytes_or_samples = false;
  // The same: see HasJoinedSample.
  bool has_sample = false;
};

// What a tensor is put together from.
struct Assembly {
  // What keeps the shards from being one tensor.
  enum class Problem { kNone, kShardsAmiss, kShardsUnfit, kUnsupported };

  std::string layout;        // `concat(0)`; see ComparedTensor.layout.
  int32_t group_number = 0;  // Number of the group of ranks.
  // The ranks that have a shard, ascending; see RanksOf.
  std::vector<int32_t> ranks;
  std::shared_ptr<const std::vector<int32_t>> shared_ranks;
  // Those whose bytes count, as the grid wants them. `key.run` is empty, and so
  // are `parts` of more than one.
  std::vector<storage::TensorInfo> shards;
  // If it is there, `shards` has only the first of them.
  std::optional<LeanShards> lean;
  ShardGrid grid;
  // kShardsAmiss: there are too few or too many. kShardsUnfit: their shapes,
  // types or placements do not go together. kUnsupported: they may, but nobody
  // here can do it.
  Problem problem = Problem::kNone;
  std::string problem_text;
  // kShardsAmiss for want of shards alone: the ranks that should have one, as
  // far as they are looked at (kMissingRowsMax).
  std::vector<storage::RankRange> missing;
  // Of shards that should be copies: which one is not as the first, and how.
  // Empty if all are equal.
  std::string difference;
  // The ranks with copies that are not as the most of them, ascending; empty if
  // no form of the copies has more than half of them.
  std::vector<int32_t> odd_copies = {};
  // Of whole copies that differ: of which rank each is, as far as they are
  // looked at (kCopiesMax).
  struct Copy {
    int32_t rank = 0;
    DType dtype = DType::kUnspecified;
    std::vector<int64_t> shape;
    ContentHash hash;
  };
  std::vector<Copy> copies = {};

  // What a row of it says that passes; empty for nothing.
  std::string remark;
  // Of copies that differ: the sum of the elements of all of them.
  double sum_of_copies = 0;
  // Ranks that come later may add shards.
  bool is_open_ended = false;
  // What it is put together with says how: see fitted_assembly.h. `missing` are
  // ranks without a shard, `grid` says nothing.
  bool awaits_fit = false;

  // Elements must be added to know the tensor.
  bool is_sum() const { return grid.is_sum; }
};

// A tensor as a comparison sees it: one of a rank, or one that is put together.
// Of the latter, the key is that of the first shard; all else is of the whole,
// or of the first shard if there is a problem.
struct LogicalTensor : storage::TensorInfo {
  // Null for a tensor of a rank. Shared with copies of this.
  std::shared_ptr<const Assembly> assembly;
  // False if `summary` is not that of the whole: of sums, which no index has,
  // and where there is a problem.
  bool knows_summary = true;

  // What stands for its rank: see LayoutRules::GroupNumbersOf.
  int32_t group_number() const {
    return assembly ? assembly->group_number : key.rank;
  }
};

// Puts together the shards of one tensor: at least one, ascending by rank. By a
// rule all are on the mesh of `placed`; else each names that mesh, and `placed`
// is what one of them says. `ranks` are those of the run. Takes time in
// proportion to the number of shards.
LogicalTensor Assemble(const PlacedMesh& placed, int32_t group_number,
                       RankCount ranks,
                       std::vector<storage::TensorInfo> shards);

// The same for copies, of whatever ranks have one; so more may come. So many
// ranks have recorded something that is told of if it is not as many.
LogicalTensor AssembleCopies(int32_t group_number, size_t rank_count,
                             std::vector<storage::TensorInfo> copies);

// The ranks that have a shard, ascending.
std::span<const int32_t> RanksOf(const Assembly& assembly);

// What a tensor is made of: its shards, or itself. Of a lean assembly, the
// first.
std::span<const storage::TensorInfo> ShardsOf(const LogicalTensor& tensor);

// False if something keeps the shards of `tensor` from being one.
bool HasAllShards(const LogicalTensor& tensor);

// More copies are not told apart by their counterpart.
inline constexpr size_t kCopiesMax = 4096;

// Returns the ranks with copies that are wrong, ascending; empty if that is not
// known. If some of the copies are equal to the counterpart, the others are
// wrong. Else those are that are not as the most of them.
std::vector<int32_t> WrongCopies(const Assembly& assembly,
                                 const LogicalTensor* counterpart);

// True if `tensor.hash` is that of its bytes.
bool HasHash(const LogicalTensor& tensor);

// True if hashes prove that both have the same bytes. They have equal shapes.
bool HashesAgree(const LogicalTensor& a, const LogicalTensor& b);

// Returns the rank whose shard has `element` of a tensor. Nothing for a tensor
// that is not joined, for a sum, to which all ranks add, and where the shards
// are not held (lean_shards.h).
std::optional<int32_t> RankOfElement(const LogicalTensor& tensor,
                                     uint64_t element);

// `concat(0) of ranks 0-3`; for messages.
std::string AssemblyText(const Assembly& assembly);

// `0-3,5`, from ascending ranks; not longer than a few dozen bytes.
std::string RanksText(std::span<const int32_t> ranks);
std::string RanksText(std::span<const storage::RankRange> ranks);

}  // namespace msitd::compare
