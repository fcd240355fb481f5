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

// Tensors of more shards than memory may hold: the shards are looked at when
// the tensor is put together, and looked up again when its bytes are read.
namespace msitd::compare {

// Makes the tensors of one group lean.
//
// Thread-compatible.
class LeanTable {
 public:
  // Drops the shards of `tensor` but for the first, if it has several and they
  // make a tensor. Nobody else has its assembly yet, which does not await a
  // fit.
  void MakeLean(LogicalTensor& tensor);

 private:
  using Places = std::vector<LeanShards::Place>;
  using Ranks = std::vector<int32_t>;

  // Most tensors of a group have one of a few lists.
  std::map<Places, std::shared_ptr<const Places>> places_;
  std::map<Ranks, std::shared_ptr<const Ranks>> ranks_;
};

// A digest of the shapes and hashes of the shards, in their order.
ContentHash ShardDigest(const Assembly& assembly);

// How many shards it has, in memory or not.
size_t ShardCount(const Assembly& assembly);

// Looks up the shards of a lean tensor of `run`.
//
// Errors: NOT_FOUND for one that is not there any more, DATA_LOSS if they are
// others than before; those of the reader and of `stop`.
absl::StatusOr<std::vector<storage::TensorInfo>> LoadShards(
    const LogicalTensor& tensor, storage::RunReader& run,
    storage::StopCheck stop);

}  // namespace msitd::compare
