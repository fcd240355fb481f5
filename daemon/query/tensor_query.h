// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"

// Questions that the index answers alone. Pure functions of a run; safe from
// any thread; they block on its reads.
namespace msitd::query {

// A page ends once its condition was asked about this many tensors, or after
// this time. So neither a condition that hardly any tensor meets nor a pattern
// that hardly any matches can keep a thread.
inline constexpr uint64_t kPageScanMax = 20'000;
inline constexpr std::chrono::milliseconds kPageTimeMax{100};
// A page ends with the tensor whose value and stack make these more bytes than
// this in all, so that a full one fits a message of gRPC's default limit.
inline constexpr size_t kPageTextBytesMax = size_t{1} << 20;

struct TensorPage {
  std::vector<storage::TensorInfo> tensors;
  // Where the next page begins; empty on the last one.
  std::string position;
  // Tensors of the selector that the page passed over, since a part of them is
  // missing; whether the condition holds for them is not known.
  uint64_t incomplete_count = 0;
};

// Returns at most `page_size` tensors of `run` that agree with `selector` and
// `condition`, in primary order from `position` on. A page may be short, even
// empty, because it reached kPageScanMax, kPageTimeMax or kPageTextBytesMax.
// Even then its position has moved on, so page after page leads to the end.
//
// Errors: those of RunReader::Scan; that of `stop`.
absl::StatusOr<TensorPage> ListTensors(
    storage::RunReader& run, const Selector& selector,
    std::string_view position, size_t page_size,
    absl::FunctionRef<bool(const storage::TensorInfo&)> condition,
    storage::StopCheck stop);

}  // namespace msitd::query
