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

// Whole tensors that are assembled from the shards of several ranks.
//
// In a parallel job, a tensor of the model exists only as shards: pieces, terms
// of a sum, or copies. Two runs with different parallelism can be compared only
// as whole tensors. An assembly therefore lists the shards of one whole and
// describes their arrangement. Their bytes are joined later, while they are
// read (daemon/compare/measure). A whole that exceeds memory can therefore be
// compared. If two tensors have the same arrangement and the hashes of their
// shards are equal, they are not read at all.
//
// The hash of a whole cannot be computed from those of several shards.
// Summaries are merged, except for sums, whose summary requires their bytes.
namespace msitd::compare {

// The data that remains of the shards of a tensor after they were dropped from
// memory; see lean_shards.h.
struct LeanShards {
  // The part of the key of a shard that differs from the key of the whole
  // tensor.
  struct ShardKey {
    int32_t rank = 0;
    std::string device;

    friend auto operator<=>(const ShardKey&, const ShardKey&) = default;
  };

  // In the order of the grid. Tensors with equal lists share one.
  std::shared_ptr<const std::vector<ShardKey>> places;
  // Covers the shapes and hashes of the shards.
  ContentHash digest;
  // Each shard has its bytes or its sample. Set only if the whole tensor lacks
  // bytes.
  bool have_bytes_or_samples = false;
  // The shards have the sample of the whole; see HasJoinedSample. Set only if
  // the whole tensor lacks bytes.
  bool has_sample = false;
};

// The shards of a whole tensor and their arrangement.
struct Assembly {
  // Why the shards do not form a tensor:
  // - kShardsAmiss: there are too few or too many shards.
  // - kShardsUnfit: their shapes, types or placements contradict each other.
  // - kUnsupported: joining such shards is not implemented.
  enum class Problem { kNone, kShardsAmiss, kShardsUnfit, kUnsupported };

  std::string layout;  // See ComparedTensor.layout; for example, `concat(0)`.
  int32_t group_number = 0;  // See LayoutRules::GroupNumbersOf.
  // The ranks that have a shard, ascending. One of the two is set; read them by
  // RanksOf().
  std::vector<int32_t> ranks;
  std::shared_ptr<const std::vector<int32_t>> shared_ranks;
  // The shards that the grid consists of, in its order. `key.run` is empty.
  // `parts` may be empty for a shard of several parts; they are then looked up
  // before it is read.
  std::vector<storage::TensorInfo> shards;
  // If present, `shards` has only the first shard.
  std::optional<LeanShards> lean;
  ShardGrid grid;
  Problem problem = Problem::kNone;
  std::string problem_text;
  // The ranks that lack a shard, if the problem is kShardsAmiss only because
  // shards are missing. At most kMissingRowsMax rows of the mesh are checked.
  std::vector<RankRange> missing;
  // For shards that should be copies: which rank differs from which other rank,
  // and how. Empty if all copies are equal.
  std::string difference;
  // The ranks whose copies differ from the majority, ascending. Empty if no
  // more than half of the copies are equal.
  std::vector<int32_t> odd_copies = {};
  // A copy of the whole tensor. Recorded only if copies differ and there are at
  // most kCopiesMax.
  struct Copy {
    int32_t rank = 0;
    DType dtype = DType::kUnspecified;
    std::vector<int64_t> shape;
    ContentHash hash;
  };
  std::vector<Copy> copies = {};

  // A note for the row of the tensor if the row passes. Empty for none.
  std::string remark;
  // For copies: the sum of the elements of all copies, by their summaries.
  double sum_of_copies = 0;
  // The shards are copies as far as is known: no layout and no placement states
  // it. Ranks that join the run later may add shards.
  bool is_open_ended = false;
  // The layout is derived later, from the tensor that this one is compared
  // with; see fitted_assembly.h. Until then, `missing` lists the ranks without
  // a shard, and `grid` is unset.
  bool awaits_fit = false;

  // Returns whether the elements of the shards must be added.
  bool is_sum() const { return grid.is_sum; }
};

struct TensorView;  // daemon/compare/view/tensor_view.h

// A tensor as a comparison uses it: a tensor of one rank, or a whole that is
// assembled from shards. The key of a whole is that of its first shard. The
// other fields describe the whole or, if the assembly has a problem, its first
// shard.
struct LogicalTensor : storage::TensorInfo {
  // Null for a tensor of one rank. Copies of this object share the assembly.
  std::shared_ptr<const Assembly> assembly;
  // Whether `summary` is that of the whole. It is not for sums, whose summary
  // is not in an index, and for assemblies with a problem.
  bool knows_summary = true;
  // The view of the tensor; null if it is compared as it was recorded. The key
  // may then have another op, and the other fields describe what is seen.
  std::shared_ptr<const TensorView> view = {};
  // The elements are not those of the shards in their order, because of the
  // view. The tensor then has no hash.
  bool is_rearranged = false;
  // Not all elements of the tensor are compared in its place (see seen_in), or
  // this is not known. Set after pairing, for a tensor without a counterpart.
  bool is_seen_in_part = false;
  // The pair of the mapping that this copy of the tensor is for, if the mapping
  // has several pairs or a view for the tensor.
  std::optional<uint32_t> mapped_pair = {};
  // Why the tensor needs no counterpart: what is compared in its place. Null if
  // it needs one.
  std::shared_ptr<const std::string> seen_in = {};

  // The number that represents its rank in a comparison; see
  // LayoutRules::GroupNumbersOf.
  int32_t group_number() const {
    return assembly ? assembly->group_number : key.rank;
  }
};

// Assembles the shards of one tensor. `shards` are at least one, ascending by
// rank. If `placed` is a rule, its mesh contains all of them. Otherwise
// `placed` is the placement that one of them recorded, and the others should
// have recorded the same. `ranks` are those of the run. Time is proportional to
// the number of shards.
LogicalTensor Assemble(const PlacedMesh& placed, int32_t group_number,
                       RankCount ranks,
                       std::vector<storage::TensorInfo> shards);

// Assembles copies from any ranks. Other ranks may add copies later. If fewer
// than `rank_count` ranks have a copy, the remark says so.
LogicalTensor AssembleCopies(int32_t group_number, size_t rank_count,
                             std::vector<storage::TensorInfo> copies);

// Returns the ranks that have a shard, ascending.
std::span<const int32_t> RanksOf(const Assembly& assembly);

// Returns the shards of a tensor, or the tensor itself if it is not assembled.
// For a lean assembly, returns only the first shard.
std::span<const storage::TensorInfo> ShardsOf(const LogicalTensor& tensor);

// Returns whether `tensor` can be compared: its shards form a tensor, or it is
// not assembled.
bool HasAllShards(const LogicalTensor& tensor);

// Maximum number of copies that are kept for WrongCopies().
inline constexpr size_t kCopiesMax = 4096;

// Returns the ranks with wrong copies, ascending; empty if they cannot be
// determined. If some copies are equal to the counterpart, all others are
// wrong. Otherwise the copies that differ from the majority are wrong.
std::vector<int32_t> WrongCopies(const Assembly& assembly,
                                 const LogicalTensor* counterpart);

// Returns whether `tensor.hash` is the hash of its bytes.
bool HasHash(const LogicalTensor& tensor);

// Returns whether hashes prove that two tensors of equal shapes have equal
// bytes.
bool HashesAgree(const LogicalTensor& a, const LogicalTensor& b);

// Returns the rank whose shard contains `element` of a tensor. Returns nothing
// if the tensor is not concatenated, is a sum, to which all ranks contribute,
// or does not have its shards in memory (lean_shards.h).
std::optional<int32_t> RankOfElement(const LogicalTensor& tensor,
                                     uint64_t element);

// Returns text for messages, such as `concat(0) of ranks 0-3`.
std::string AssemblyText(const Assembly& assembly);

}  // namespace msitd::compare
