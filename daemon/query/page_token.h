// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::query {

// A longer page token is refused.
inline constexpr size_t kPageTokenBytesMax = 16384;

// Returns the page token that stands for `position` in the answer to a
// request: text that is opaque to clients, checksummed and bound to
// `request_key`, which is equal for the pages of one request and for no other
// request, such as its serialised form without page_size and page_token.
// `position` is not empty.
std::string EncodePageToken(std::string_view request_key,
                            std::string_view position);

// Returns the position in `token`; empty for an empty token, the first page.
// The checksum keeps honest mistakes out. It is no signature: what comes back
// may be forged by somebody who knows the format.
//
// Errors: INVALID_ARGUMENT with PAGE_TOKEN_INVALID for a token that was not
// given for this request.
absl::StatusOr<std::string> DecodePageToken(std::string_view request_key,
                                            std::string_view token);

}  // namespace msitd::query
