// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace msitd {

// Divides a limit of a daemon among its callers, so that no caller can use it
// up for all others.
//
// The divided units, such as open streams or bytes of labels, cannot be revoked
// once a caller holds them. Some of them must therefore stay free in advance. A
// fixed share per caller would be the simplest rule, but it would leave most of
// a limit unused on the many machines that have one user. This rule lets a
// single caller use 11/16 of the units and reserves the rest:
//
//   |<------------ any caller: 11/16 ----------->|<- newcomers: 4/16 ->|1/16|
//                                                                     admins
//
// - The last sixteenth is reserved for admins, so that they can always clean
//   up.
// - A quarter is reserved for newcomers, which are callers that hold less than
//   a sixteenth each. Four newcomers always find room, regardless of what
//   others hold. Admins cannot use this part either.
//
// Limits below 8 are not divided, because each part would be smaller than one
// unit.
struct FairShare {
  static constexpr uint64_t kDividedMin = 8;

  uint64_t capacity = 0;

  constexpr uint64_t admin_reserve() const {
    return IsDivided() ? std::max<uint64_t>(capacity / 16, 1) : 0;
  }
  constexpr uint64_t newcomer_reserve() const {
    return IsDivided() ? capacity / 4 : 0;
  }
  // Maximum number of units that a newcomer holds.
  constexpr uint64_t newcomer_max() const {
    return IsDivided() ? std::max<uint64_t>(capacity / 16, 1) : capacity;
  }

  // Returns how many units all callers together may hold after this caller has
  // increased its own to `held_after`.
  constexpr uint64_t CapacityFor(bool is_admin, uint64_t held_after) const {
    const bool is_newcomer = held_after <= newcomer_max();
    return capacity - (is_admin ? 0 : admin_reserve()) -
           (is_newcomer ? 0 : newcomer_reserve());
  }

  // True if a caller that holds `held` of the `used` units may have `amount`
  // more.
  constexpr bool Admits(bool is_admin, uint64_t held, uint64_t used,
                        uint64_t amount) const {
    // A saturated sum is above every limit.
    const uint64_t limit = CapacityFor(is_admin, SaturatingSum(held, amount));
    return SaturatingSum(used, amount) <= limit;
  }

 private:
  constexpr bool IsDivided() const { return capacity >= kDividedMin; }
  static constexpr uint64_t SaturatingSum(uint64_t a, uint64_t b) {
    return a + b < a ? UINT64_MAX : a + b;
  }
};

}  // namespace msitd
