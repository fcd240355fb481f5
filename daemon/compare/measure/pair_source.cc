// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/pair_source.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "daemon/compare/shard/lean_shards.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

TensorSource SideOf(const LogicalTensor& tensor, std::string_view side,
                    storage::RunReader& run) {
  TensorSource out;
  out.side = side;
  out.run = &run;
  if (tensor.assembly != nullptr) out.grid = tensor.assembly->grid;
  const std::span<const storage::TensorInfo> shards = ShardsOf(tensor);
  out.shards.assign(shards.begin(), shards.end());
  return out;
}

}  // namespace

absl::StatusOr<TensorSource> StoredSource(const LogicalTensor& tensor,
                                          std::string_view side,
                                          storage::RunReader& run,
                                          WorkObserver& observer) {
  TensorSource out = SideOf(tensor, side, run);
  if (tensor.assembly != nullptr && tensor.assembly->lean.has_value()) {
    auto shards =
        LoadShards(tensor, run, [&observer] { return observer.Check(); });
    if (!shards.ok()) {
      return Annotate(shards.status(), fmt::format("{} tensor", side));
    }
    out.shards = *std::move(shards);
    return out;
  }
  for (storage::TensorInfo& shard : out.shards) {
    if (!shard.parts.empty()) continue;
    auto stored = run.GetTensor(shard.key);
    if (!stored.ok()) {
      return Annotate(stored.status(), fmt::format("{} tensor", side));
    }
    shard = *std::move(stored);
  }
  return out;
}

TensorSource SourceAhead(const LogicalTensor& tensor, std::string_view side,
                         storage::RunReader& run, const PartsAhead& ahead) {
  TensorSource out = SideOf(tensor, side, run);
  out.ahead = ahead;
  return out;
}

}  // namespace msitd::compare
