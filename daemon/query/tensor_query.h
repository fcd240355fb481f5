// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "storage/face/run_reader.h"

// Queries that need only the index. Pure functions of a run. They may be called
// on any thread and block on reads.
namespace msitd::query {

// A page ends after its condition was evaluated for this many tensors, or after
// this time, so that neither a condition nor a pattern that hardly any tensor
// matches can occupy a thread for long.
inline constexpr uint64_t kPageScanMax = 20'000;
inline constexpr std::chrono::milliseconds kPageTimeMax{100};
// A page ends with the tensor whose value and stack raise the total text above
// this size, so that a full page fits into a message of gRPC's default limit.
inline constexpr size_t kPageTextBytesMax = size_t{1} << 20;

struct TensorPage {
  // The position of the next page; empty on the last page.
  std::string position;
  // Tensors of the selector that were skipped because a part of them is
  // missing, so that it is unknown whether the condition holds for them.
  uint64_t incomplete_count = 0;
};

// Passes at most `page_size` tensors of `run` that match `selector` and
// `condition` to `take`, in primary order starting at `position`, and returns
// where the next page starts. A page may be short, or even empty, if it reached
// kPageScanMax, kPageTimeMax or kPageTextBytesMax. Even then its position
// advances, so requesting page after page reaches the end.
//
// Errors: those of RunReader::Scan; that of `stop`.
absl::StatusOr<TensorPage> ListTensors(
    storage::RunReader& run, const Selector& selector,
    std::string_view position, size_t page_size,
    absl::FunctionRef<bool(const storage::TensorInfo&)> condition,
    absl::FunctionRef<void(const storage::TensorInfo&)> take,
    storage::StopCheck stop);

}  // namespace msitd::query
