// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/compare/shard/assembly.h"
#include "daemon/compare/shard/layout.h"
#include "daemon/compare/shard/lean_shards.h"
#include "daemon/compare/shard/mesh.h"
#include "protos/base/selector.h"
#include "storage/face/run_reader.h"

namespace msitd::compare {

// One run of a comparison, with what is asked of it.
struct RunSide {
  storage::RunReader& run;
  Selector selector;
  const LayoutRules& layouts;
  const MeshSet& meshes;
  RankCount ranks;
  // What says nothing of how it lies is held by all ranks of a mesh alike.
  bool has_copies;
};

// Loads the tensors that a run has at one token with one group number, and puts
// those together that are shards.
//
// If they are more than kGroupTensorsMax, shards included, they are loaded by
// ranges of ops, as often as need be, and what is put together is lean: see
// lean_shards.h. The tensors are the same as if all were loaded at once.
//
// Used once, by one thread. Borrows what `side` borrows.
class SideLoader {
 public:
  // Which tensors of a group are taken; empty for all.
  using TakesTensor = std::function<bool(const TensorKey&)>;

  // `side.selector` selects the ranks, devices and the token that have them. If
  // only some tensors are taken, all shards of one or none of them are.
  SideLoader(RunSide side, int32_t group_number, storage::StopCheck stop,
             TakesTensor takes = {})
      : side_(std::move(side)),
        group_number_(group_number),
        stop_(stop),
        takes_(std::move(takes)) {}

  // Adds them to `out`, in any order. Returns false if there are too many: more
  // than kGroupTensorsMax when put together, or more shards than that which
  // cannot be put together before their counterparts are known.
  //
  // Errors: those of the reader and of `stop`.
  absl::StatusOr<bool> Load(std::vector<LogicalTensor>& out);

  // Calls `visit` with each of them as it is stored; false once that is false.
  //
  // Errors: those of the reader and of `stop`.
  absl::StatusOr<bool> Visit(
      absl::FunctionRef<bool(const storage::TensorInfo&)> visit);

  // Tensors that Load has passed over because a part of them is missing. Those
  // of other group numbers, which lie at the same ranks, are among them.
  uint64_t incomplete_count() const { return incomplete_count_; }

 private:
  // A share of the tensors: those of these ops whose names fall into `piece`.
  struct Range {
    std::set<std::string> ops;  // None: all.
    size_t piece = 0;
    size_t piece_count = 1;

    bool Has(const TensorKey& key) const;
  };
  struct Counts {
    std::map<std::string, size_t> by_op;
    size_t alone = 0;  // Those that are no shards.
  };

  // Loads a range; false above kGroupTensorsMax.
  absl::StatusOr<bool> LoadRange(const Range& range, bool is_lean,
                                 std::vector<LogicalTensor>& out);
  // Counts all of them; false if they are too many however they are loaded.
  absl::StatusOr<bool> Count(Counts& counts);
  static std::vector<Range> RangesOf(const Counts& counts);

  RunSide side_;
  const int32_t group_number_;
  const storage::StopCheck stop_;
  const TakesTensor takes_;
  std::set<int32_t> ranks_seen_;  // If there are copies.
  size_t part_count_ = 0;         // Of tensors of several.
  uint64_t incomplete_count_ = 0;
  // There were shards among those that were too many.
  bool were_shards_ = false;
  LeanTable lean_;
};

}  // namespace msitd::compare
