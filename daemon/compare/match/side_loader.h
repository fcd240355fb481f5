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

// One run of a comparison, with the selection of its tensors.
struct RunSide {
  storage::RunReader& run;
  Selector selector;
  const LayoutRules& layouts;
  const MeshSet& meshes;
  RankCount ranks;
  // Tensors without a layout are copies that all ranks of a mesh compute. See
  // GroupMatcher.
  bool has_copies;
};

// Loads the tensors of one run with one token and one group number, and
// assembles shards.
//
// The shards of thousands of ranks can exceed memory even if the assembled
// tensors do not. Splitting them by rank would not help, because a tensor needs
// all its shards. If there are more than kGroupTensorsMax tensors, counting
// shards, they are therefore loaded by ranges of ops, one range after the
// other, and each range is reduced to lean tensors (lean_shards.h) before the
// next one is loaded. The result is the same as if all were loaded at once. The
// cost is a scan of the index for counting, and another one for each range.
//
// Used once, by one thread. Borrows what `side` borrows.
class SideLoader {
 public:
  // Selects the tensors of a group to load. Empty to load all.
  using TakesTensor = std::function<bool(const TensorKey&)>;

  // `side.selector` must select the token, and the ranks and devices that have
  // tensors of the group. `takes` must select either all shards of a tensor or
  // none.
  SideLoader(RunSide side, int32_t group_number, storage::StopCheck stop,
             TakesTensor takes = {})
      : side_(std::move(side)),
        group_number_(group_number),
        stop_(stop),
        takes_(std::move(takes)) {}

  // Appends the tensors to `out`, in any order. Returns false if there are too
  // many: more than kGroupTensorsMax after assembly, or more shards than that
  // whose layout depends on their counterparts (`fit`).
  //
  // Errors: those of the reader and of `stop`.
  absl::StatusOr<bool> Load(std::vector<LogicalTensor>& out);

  // Calls `visit` for each tensor or shard as it is stored. Stops and returns
  // false if `visit` returns false.
  //
  // Errors: those of the reader and of `stop`.
  absl::StatusOr<bool> Visit(
      absl::FunctionRef<bool(const storage::TensorInfo&)> visit);

  // The number of tensors that Load ignored because a part is missing. Includes
  // tensors with other group numbers on the same ranks.
  uint64_t incomplete_count() const { return incomplete_count_; }

 private:
  // A part of the tensors: those of some ops and, if one op has too many, those
  // whose names belong to one piece.
  struct Range {
    std::set<std::string> ops;  // Empty for all ops.
    size_t piece = 0;
    size_t piece_count = 1;

    bool Has(const TensorKey& key) const;
  };
  struct Counts {
    std::map<std::string, size_t> by_op;
    size_t alone = 0;  // Tensors that are not shards.
  };

  // Loads a range. Returns false above kGroupTensorsMax.
  absl::StatusOr<bool> LoadRange(const Range& range, bool is_lean,
                                 std::vector<LogicalTensor>& out);
  // Counts the tensors by op. Returns false if there are too many to be loaded
  // in ranges.
  absl::StatusOr<bool> Count(Counts& counts);
  static std::vector<Range> RangesOf(const Counts& counts);

  RunSide side_;
  const int32_t group_number_;
  const storage::StopCheck stop_;
  const TakesTensor takes_;
  // The ranks that have tensors of the group. Only filled if there are copies.
  std::set<int32_t> ranks_seen_;
  size_t part_count_ = 0;  // The number of parts of tensors with several parts.
  uint64_t incomplete_count_ = 0;
  // Whether shards were found before the limit was exceeded.
  bool were_shards_ = false;
  LeanTable lean_;
};

}  // namespace msitd::compare
