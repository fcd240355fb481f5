// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace msitd {

// gRPC's names of its status codes, by number.
inline constexpr std::array<const char*, 17> kStatusCodeNames = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

// Returns UNKNOWN for an invalid code.
constexpr const char* StatusCodeName(int64_t code) {
  return kStatusCodeNames[code >= 0 && code < std::ssize(kStatusCodeNames)
                              ? static_cast<size_t>(code)
                              : 2];
}

}  // namespace msitd
