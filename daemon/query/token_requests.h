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

// A request that a token belongs to; see protos/base/request.h.
struct TokenRequest {
  std::string id;
  // See v1.TokenRequest.rows; empty if no longer known.
  std::string rows;

  friend bool operator==(const TokenRequest&, const TokenRequest&) = default;
};

// Further requests of a token are omitted.
inline constexpr size_t kTokenRequestsMax = 4096;

// Looks up the requests of tokens of one run, which must outlive it.
// Thread-compatible.
class TokenRequests {
 public:
  explicit TokenRequests(storage::RunReader& run) : run_(run) {}

  // Returns all requests of the token of a rank, in the order of their first
  // appearance in the store. The result is valid until the next call.
  //
  // Errors: that of `stop`; those of the reader that do not concern a single
  // record.
  absl::StatusOr<const std::vector<TokenRequest>*> All(int32_t rank,
                                                       int64_t token,
                                                       storage::StopCheck stop);

  // Returns the requests that `ids` name, in the order of `ids`. `ids` must be
  // the same in each call.
  absl::StatusOr<const std::vector<TokenRequest>*> Of(
      int32_t rank, int64_t token, const std::vector<std::string>& ids);

 private:
  // Returns whether the cached result belongs to the same query.
  bool IsKnown(int32_t rank, int64_t token, bool is_all);
  void Keep(int32_t rank, int64_t token, bool is_all);

  storage::RunReader& run_;
  AlignedBuffer buffer_;
  // The cached result.
  int32_t rank_ = -1;
  int64_t token_ = -1;
  bool is_all_ = false;
  std::vector<TokenRequest> requests_;
};

}  // namespace msitd::query
