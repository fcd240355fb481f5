// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/chunk_store.h"

// Questions that the index answers alone. Pure functions of a store; safe from
// any thread; they block on its reads.
namespace msitd::query {

// Asked now and then by long work; an error ends the work and is its result.
using StopCheck = absl::FunctionRef<absl::Status()>;

// A page looks at no more tensors than this, so that a condition that hardly
// anything meets cannot keep a thread.
inline constexpr uint64_t kPageScanMax = 20'000;

struct TensorPage {
  std::vector<storage::TensorInfo> tensors;
  // Where the next page begins; empty on the last one.
  std::string position;
};

// Returns at most `page_size` tensors of `run` that agree with `selector` and
// `condition`, in primary order from `position` on. A page may be short
// because it reached kPageScanMax.
//
// Errors: those of ChunkStore::GetRun and Scan.
absl::StatusOr<TensorPage> ListTensors(
    storage::ChunkStore& store, std::string_view run,
    const storage::TensorSelector& selector, std::string_view position,
    size_t page_size,
    absl::FunctionRef<bool(const storage::TensorInfo&)> condition,
    StopCheck stop);

// What the members of one group have in common.
enum class GroupBy { kNone, kRank, kToken, kOp, kDevice };

// More groups are refused.
inline constexpr size_t kGroupsMax = 65'536;

struct Group {
  std::string key;  // Rank, token, op or device; empty for kNone.
  uint64_t tensor_count = 0;
  uint64_t tensor_bytes = 0;
  Summary summary;
};

// Returns the merged summaries of the tensors of `run` that agree with
// `selector`: ascending by rank or token, by first appearance for ops and
// devices, and exactly one group for kNone. Merges in primary order, so equal
// stores give equal bits.
//
// Errors: RESOURCE_EXHAUSTED (FIELD_INVALID) for more than kGroupsMax groups;
// those of ChunkStore::GetRun and Scan.
absl::StatusOr<std::vector<Group>> SummarizeTensors(
    storage::ChunkStore& store, std::string_view run,
    const storage::TensorSelector& selector, GroupBy group_by, StopCheck stop);

}  // namespace msitd::query
