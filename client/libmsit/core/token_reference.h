// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "protos/base/limits.h"

// References name a token whose number is not known yet.
//
// A client that appends to a run and does not wait for the daemon counts its
// tokens from 0 until the first answer states the token at which it begins. A
// number that was read before the answer denotes another token after it. Code
// that keeps a token for later use, such as a hook, therefore keeps a
// reference. It is relative to the token at which the client begins, and is
// valid before and after the answer.
namespace msitd::libmsit {

inline constexpr int64_t kTokenReferenceMin = int64_t{1} << 60;

constexpr bool IsTokenReference(int64_t token) {
  return token >= kTokenReferenceMin && token <= kTokenReferenceMin + kTokenMax;
}

// `counted` must not be negative.
constexpr int64_t MakeTokenReference(int64_t counted) {
  return kTokenReferenceMin + counted;
}

// Returns the relative token of a reference.
constexpr int64_t CountedOf(int64_t reference) {
  return reference - kTokenReferenceMin;
}

}  // namespace msitd::libmsit
