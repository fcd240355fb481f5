// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/os/aligned_buffer.h"
#include "storage/face/run_reader.h"

namespace msitd::query {

// A request that a token works at; see protos/base/request.h.
struct TokenRequest {
  std::string id;
  std::string rows;  // `FIRST:END`; empty if that is not known any more.

  friend bool operator==(const TokenRequest&, const TokenRequest&) = default;
};

// More requests of a token are left out.
inline constexpr size_t kTokenRequestsMax = 4096;

// Looks up the requests of tokens of one run, which outlives it.
// Thread-compatible.
class TokenRequests {
 public:
  explicit TokenRequests(storage::RunReader& run) : run_(run) {}

  // Returns all requests of the token of a rank, in the order of their first
  // appearance in the store. Valid until the next call.
  //
  // Errors: that of `stop`; those of the reader that are about no record.
  absl::StatusOr<const std::vector<TokenRequest>*> All(int32_t rank,
                                                       int64_t token,
                                                       storage::StopCheck stop);

  // Returns those of them that `ids` name, in their order. The same `ids` in
  // each call.
  absl::StatusOr<const std::vector<TokenRequest>*> Of(
      int32_t rank, int64_t token, const std::vector<std::string>& ids);

 private:
  // True if the last answer was to the same question.
  bool IsKnown(int32_t rank, int64_t token, bool is_all);
  void Keep(int32_t rank, int64_t token, bool is_all);
  absl::StatusOr<std::string> RowsOf(const storage::TensorInfo& document);

  storage::RunReader& run_;
  AlignedBuffer buffer_;
  // The last answer.
  int32_t rank_ = -1;
  int64_t token_ = -1;
  bool is_all_ = false;
  std::vector<TokenRequest> requests_;
};

}  // namespace msitd::query
