// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/summary.h"
#include "storage/face/run_reader.h"

// Reductions of sets of tensors, computed only from the summaries in the index.
namespace msitd::query {

// The property that the members of a group share.
enum class GroupBy { kNone, kRank, kToken, kOp, kDevice };

// More groups are refused.
inline constexpr size_t kGroupsMax = 65'536;

struct Group {
  std::string key;  // Rank, token, op or device; empty for kNone.
  uint64_t tensor_count = 0;
  uint64_t tensor_bytes = 0;
  Summary summary;
};

// Returns the merged summaries of the tensors of `run` that match `selector`,
// in ascending order of rank or token, or in order of first appearance of ops
// and devices. kNone yields exactly one group.
//
// The tokens that the selector spans in the run are divided into two halves.
// Each half is merged in primary order, and then the upper half is merged into
// the lower one. Long reductions can therefore use two threads, and equal runs
// yield bit-identical results with one thread or two. `stop` must be
// thread-safe.
//
// Blocks on the reader. Errors: RESOURCE_EXHAUSTED (FIELD_INVALID) for more
// than kGroupsMax groups; those of RunReader::GetInfo and Scan.
absl::StatusOr<std::vector<Group>> SummarizeTensors(storage::RunReader& run,
                                                    const Selector& selector,
                                                    GroupBy group_by,
                                                    storage::StopCheck stop);

}  // namespace msitd::query
