// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/pair_source.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "protos/status/status.h"

namespace msitd::compare {
namespace {

TensorSource SideOf(const LogicalTensor& tensor, std::string_view side) {
  TensorSource out;
  out.side = side;
  if (tensor.assembly != nullptr) out.grid = tensor.assembly->grid;
  return out;
}

}  // namespace

absl::StatusOr<TensorSource> StoredSource(const LogicalTensor& tensor,
                                          const std::string& run,
                                          std::string_view side,
                                          storage::ChunkStore& store) {
  TensorSource out = SideOf(tensor, side);
  const std::span<const storage::TensorInfo> shards = ShardsOf(tensor);
  out.shards.reserve(shards.size());
  for (const storage::TensorInfo& shard : shards) {
    TensorKey key = shard.key;
    key.run = run;
    auto stored = store.GetTensor(key);
    if (!stored.ok()) {
      return Annotate(stored.status(), fmt::format("{} tensor", side));
    }
    // A client cannot change a tensor, but a run may go and come again.
    if (stored->dtype != shard.dtype || stored->shape != shard.shape) {
      return MakeStatus(absl::StatusCode::kAborted,
                        "{} tensor, rank {}: changed meanwhile", side,
                        key.rank);
    }
    out.shards.push_back(*std::move(stored));
  }
  return out;
}

TensorSource SourceAhead(const LogicalTensor& tensor, std::string_view side,
                         const PartsAhead& ahead) {
  TensorSource out = SideOf(tensor, side);
  out.ahead = ahead;
  const std::span<const storage::TensorInfo> shards = ShardsOf(tensor);
  out.shards.assign(shards.begin(), shards.end());
  return out;
}

}  // namespace msitd::compare
