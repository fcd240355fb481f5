// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "protos/base/limits.h"

// How a token is named whose number is not known yet.
//
// A client that appends to a run and does not wait for the daemon counts its
// tokens from 0 until the first answer says at which token it begins. A number
// that was read before the answer names another token after it. So code that
// keeps a token and names it later, such as a hook, keeps a reference: it
// counts from the token at which the client begins, and holds before and after.
namespace msitd::client {

inline constexpr int64_t kTokenReferenceMin = int64_t{1} << 60;

constexpr bool IsTokenReference(int64_t token) {
  return token >= kTokenReferenceMin && token <= kTokenReferenceMin + kTokenMax;
}

// `counted` is not negative.
constexpr int64_t MakeTokenReference(int64_t counted) {
  return kTokenReferenceMin + counted;
}

// Returns the token of a reference, as the client counts it.
constexpr int64_t CountedOf(int64_t reference) {
  return reference - kTokenReferenceMin;
}

}  // namespace msitd::client
