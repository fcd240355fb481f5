// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

// Which requests a token of a rank works at, as an engine that batches them
// says: one document for each, beside the tensors of the token. Its device and
// how its op begins are below; the op ends with the id of the request. Its text
// says which rows of the batch are those of the request,
// `FIRST:END` as Python slices; it is empty if the rank did not say.
namespace msitd {

inline constexpr std::string_view kRequestOpPrefix = "request/";
inline constexpr std::string_view kRequestDevice = "cpu:0";

// A longer text is none.
inline constexpr size_t kRequestRowsBytesMax = 64;

}  // namespace msitd
