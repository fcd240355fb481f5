// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/query/stop_check.h"
#include "storage/chunk_store.h"

// Questions that the index answers alone. Pure functions of a store; safe from
// any thread; they block on its reads.
namespace msitd::query {

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

}  // namespace msitd::query
