// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/tensor_query.h"

#include <memory>
#include <utility>

#include "protos/status/status.h"

namespace msitd::query {

using Clock = std::chrono::steady_clock;

absl::StatusOr<TensorPage> ListTensors(
    storage::RunReader& run, const Selector& selector,
    std::string_view position, size_t page_size,
    absl::FunctionRef<bool(const storage::TensorInfo&)> condition,
    absl::FunctionRef<void(const storage::TensorInfo&)> take,
    storage::StopCheck stop) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<storage::TensorScan> scan,
                         run.Scan(selector, position));
  const auto deadline = Clock::now() + kPageTimeMax;
  bool is_over = false;
  const auto stop_or_end = [&]() -> absl::Status {
    MSITD_RETURN_IF_ERROR(stop());
    is_over = Clock::now() >= deadline && scan->position() != position;
    return is_over ? absl::CancelledError("the page is over")
                   : absl::OkStatus();
  };
  TensorPage page;
  storage::TensorInfo tensor;
  size_t count = 0;
  size_t text_bytes = 0;
  for (uint64_t scanned = 0;; ++scanned) {
    const bool full = count == page_size || scanned == kPageScanMax ||
                      text_bytes > kPageTextBytesMax;
    // Looking ahead by one tensor avoids an empty last page.
    std::string here = full ? scan->position() : std::string();
    const uint64_t incomplete = scan->incomplete_count();
    const absl::StatusOr<bool> found = scan->Next(tensor, stop_or_end);
    if (is_over) {
      page.position = scan->position();
      page.incomplete_count = scan->incomplete_count();
      return page;
    }
    MSITD_RETURN_IF_ERROR(found.status());
    if (!*found) {
      page.incomplete_count = scan->incomplete_count();
      return page;
    }
    if (full) {
      page.position = std::move(here);
      page.incomplete_count = incomplete;
      return page;
    }
    if (!condition(tensor)) continue;
    text_bytes += tensor.value.size() + tensor.stack.size();
    if (tensor.alias_of.has_value()) {
      // Each byte of the name may be escaped as three.
      text_bytes +=
          3 * (tensor.alias_of->op.size() + tensor.alias_of->index.size());
    }
    ++count;
    take(tensor);
  }
}

}  // namespace msitd::query
