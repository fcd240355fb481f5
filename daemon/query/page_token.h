// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::query {

// Longer page tokens are refused.
inline constexpr size_t kPageTokenBytesMax = 16384;

// Returns the page token for a non-empty `position` in the response to a
// request. The token is opaque to clients, has a checksum, and is bound to
// `request_key`. The key must be the same for all pages of a request and
// different for all other requests; the serialized request without page_size
// and page_token is suitable.
std::string EncodePageToken(std::string_view request_key,
                            std::string_view position);

// Returns the position in `token`; empty for an empty token, which stands for
// the first page. The checksum detects accidental errors. It is not a
// signature: a client that uses the format can forge a position.
//
// Errors: INVALID_ARGUMENT with PAGE_TOKEN_INVALID if the token was not issued
// for this request.
absl::StatusOr<std::string> DecodePageToken(std::string_view request_key,
                                            std::string_view token);

}  // namespace msitd::query
