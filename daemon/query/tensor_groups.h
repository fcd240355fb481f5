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

// Reductions of sets of tensors, from the summaries in the index alone.
namespace msitd::query {

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
// devices, and exactly one group for kNone.
//
// The tokens that the selector spans in the run are cut into two halves. Each
// half is merged in primary order, and then the upper one into the lower one.
// So two threads can share long work, and equal runs give equal bits whether or
// not they did. `stop` must be thread-safe.
//
// Blocks on the reader. Errors: RESOURCE_EXHAUSTED (FIELD_INVALID) for
// more than kGroupsMax groups; those of RunReader::GetInfo and Scan.
absl::StatusOr<std::vector<Group>> SummarizeTensors(storage::RunReader& run,
                                                    const Selector& selector,
                                                    GroupBy group_by,
                                                    storage::StopCheck stop);

}  // namespace msitd::query
