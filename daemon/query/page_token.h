// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::query {

// A longer page token is refused.
inline constexpr size_t kPageTokenBytesMax = 16384;

// Returns the page token that stands for `position`, which is not empty, in the
// answer to a request: text that is opaque to clients, with a checksum, and
// bound to `request_key`. The key is the same for all pages of one request and
// for no other request; the serialised request without page_size and page_token
// will do.
std::string EncodePageToken(std::string_view request_key,
                            std::string_view position);

// Returns the position in `token`; empty for an empty token, the first page.
// The checksum catches honest mistakes. It is no signature: whoever knows the
// format can forge a position.
//
// Errors: INVALID_ARGUMENT with PAGE_TOKEN_INVALID for a token that was not
// given for this request.
absl::StatusOr<std::string> DecodePageToken(std::string_view request_key,
                                            std::string_view token);

}  // namespace msitd::query
