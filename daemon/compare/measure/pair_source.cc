// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/pair_source.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "daemon/compare/shard/lean_shards.h"
#include "daemon/compare/view/tensor_view.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Returns the source of a view without its leaves.
TensorSource ViewOf(const LogicalTensor& tensor, std::string_view side,
                    storage::RunReader& run) {
  TensorSource out;
  out.side = side;
  out.run = &run;
  out.view = tensor.view->plan.get();
  out.is_summarized = !tensor.knows_summary;
  return out;
}

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
  if (IsRearranged(tensor)) {
    TensorSource out = ViewOf(tensor, side, run);
    for (const LogicalTensor& leaf : LeavesOf(tensor)) {
      MSITD_ASSIGN_OR_RETURN(out.leaves.emplace_back(),
                             StoredSource(leaf, side, run, observer));
    }
    return out;
  }
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
    // A view may have given the tensor another op.
    const TensorKey& key =
        tensor.assembly == nullptr ? RecordedKey(tensor) : shard.key;
    auto stored = run.GetTensor(key);
    if (!stored.ok()) {
      return Annotate(stored.status(), fmt::format("{} tensor", side));
    }
    shard = *std::move(stored);
  }
  return out;
}

TensorSource SourceAhead(const LogicalTensor& tensor, std::string_view side,
                         storage::RunReader& run, const PartsAhead& ahead) {
  if (IsRearranged(tensor)) {
    TensorSource out = ViewOf(tensor, side, run);
    PartsAhead next = ahead;
    for (const LogicalTensor& leaf : LeavesOf(tensor)) {
      out.leaves.push_back(SourceAhead(leaf, side, run, next));
      next.first += ShardsOf(leaf).size();
    }
    return out;
  }
  TensorSource out = SideOf(tensor, side, run);
  out.ahead = ahead;
  return out;
}

}  // namespace msitd::compare
