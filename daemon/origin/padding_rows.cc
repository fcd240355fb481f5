// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/padding_rows.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "protos/status/status.h"

namespace msitd::origin {
namespace {

using Rows = std::pair<int64_t, int64_t>;

// Parses `FIRST:END`.
std::optional<Rows> ParseRows(std::string_view text) {
  Rows rows;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, rows.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') {
    return std::nullopt;
  }
  const auto last = std::from_chars(first.ptr + 1, end, rows.second);
  if (last.ec != std::errc() || last.ptr != end) return std::nullopt;
  return rows;
}

}  // namespace

std::optional<int64_t> UnusedRows(std::span<const query::TokenRequest> requests,
                                  int64_t row_count) {
  std::vector<Rows> used;
  for (const query::TokenRequest& request : requests) {
    const std::optional<Rows> rows = ParseRows(request.rows);
    if (!rows.has_value() || rows->first < 0 || rows->second < rows->first ||
        rows->second > row_count) {
      return std::nullopt;
    }
    used.push_back(*rows);
  }
  std::sort(used.begin(), used.end());
  int64_t used_count = 0;
  int64_t end = 0;
  for (const auto& [first, last] : used) {
    used_count += std::max<int64_t>(0, last - std::max(first, end));
    end = std::max(end, last);
  }
  return row_count - used_count;
}

absl::StatusOr<bool> PaddingRows::Explains(const storage::TensorInfo& tensor,
                                           const Summary& summary,
                                           storage::StopCheck stop) {
  if (tensor.shape.empty() || tensor.shape[0] <= 0 || summary.count == 0) {
    return false;
  }
  const auto row_count = static_cast<uint64_t>(tensor.shape[0]);
  const uint64_t bad = summary.count - summary.finite_count();
  if (summary.count % row_count != 0) return false;
  const uint64_t row_size = summary.count / row_count;
  if (bad == summary.count || bad % row_size != 0) return false;
  MSITD_ASSIGN_OR_RETURN(
      const auto* const requests,
      requests_.All(tensor.key.rank, tensor.key.token, stop));
  if (requests->empty()) return false;
  const std::optional<int64_t> unused = UnusedRows(*requests, tensor.shape[0]);
  return unused.has_value() && *unused > 0 &&
         bad / row_size == static_cast<uint64_t>(*unused);
}

}  // namespace msitd::origin
