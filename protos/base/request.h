// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

// Documents that record which requests a rank processes at a token, as reported
// by an engine that batches requests. There is one document per request, next
// to the tensors of the token. Its device and the prefix of its op are defined
// below; the op ends with the id of the request. Its text is the rows of the
// batch that belong to the request, `FIRST:END` as Python slices, and is empty
// if the rank did not report them.
namespace msitd {

inline constexpr std::string_view kRequestOpPrefix = "request/";
inline constexpr std::string_view kRequestDevice = "cpu:0";

// Longer texts are treated as absent.
inline constexpr size_t kRequestRowsBytesMax = 64;

}  // namespace msitd
