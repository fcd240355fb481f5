// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/shard/assembly.h"
#include "protos/base/summary.h"
#include "storage/face/run_reader.h"

// Tensors with more shards than memory can hold. A comparison of runs with
// thousands of ranks has many tensors, each with thousands of shards. The
// shards are examined when the tensor is assembled and are then dropped. If the
// bytes of the tensor are read later, the shards are loaded again from the
// index of the run. This saves memory at the cost of a second scan for each
// tensor that hashes cannot decide.
namespace msitd::compare {

// Makes the tensors of one group lean, and shares their lists of ranks.
//
// Thread-compatible.
class LeanTable {
 public:
  // Drops all shards of `tensor` except for the first, if it has several. The
  // assembly must not be shared yet, and must not await a fit.
  void MakeLean(LogicalTensor& tensor);

 private:
  using Places = std::vector<LeanShards::ShardKey>;
  using Ranks = std::vector<int32_t>;

  // Most tensors of a group have one of a few lists, which they share.
  std::map<Places, std::shared_ptr<const Places>> places_;
  std::map<Ranks, std::shared_ptr<const Ranks>> ranks_;
};

// Returns a digest of the shapes and hashes of the shards, in their order.
ContentHash ShardDigest(const Assembly& assembly);

// Loads the shards of a lean tensor from `run`.
//
// Errors: NOT_FOUND if a shard does not exist any more, DATA_LOSS if the shards
// have changed; those of the reader and of `stop`.
absl::StatusOr<std::vector<storage::TensorInfo>> LoadShards(
    const LogicalTensor& tensor, storage::RunReader& run,
    storage::StopCheck stop);

}  // namespace msitd::compare
