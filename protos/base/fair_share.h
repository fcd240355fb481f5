// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace msitd {

// How a limit that holds for a whole daemon is divided among its callers, so
// that no caller can use it up for all others.
//
// What is divided, such as open streams or bytes of labels, cannot be taken
// back from a caller once it has it. So a part has to stay free before it is
// needed. A fixed share for each caller would be the simplest rule, and would
// leave most of a limit unused on the many machines that have one user. This
// rule lets a caller that is alone have 11 of 16 parts, and keeps the rest:
//
//   |<------------- anybody: 11/16 ------------>|<- newcomers: 4/16 ->|1/16|
//                                                                     admins
//
// - The last sixteenth is for admins only, who can then clean up.
// - A quarter is only for newcomers, which are callers that hold less than a
//   sixteenth each. Four of them find room whatever the others hold. Admins
//   leave it to them as well.
//
// Limits below 8 are not divided: each part would be smaller than one unit.
struct FairShare {
  static constexpr uint64_t kDividedMin = 8;

  uint64_t capacity = 0;

  constexpr uint64_t admin_reserve() const {
    return IsDivided() ? std::max<uint64_t>(capacity / 16, 1) : 0;
  }
  constexpr uint64_t newcomer_reserve() const {
    return IsDivided() ? capacity / 4 : 0;
  }
  // What a newcomer holds at most.
  constexpr uint64_t newcomer_max() const {
    return IsDivided() ? std::max<uint64_t>(capacity / 16, 1) : capacity;
  }

  // Returns how much all callers together may hold once this caller has taken
  // more and holds `held_after`.
  constexpr uint64_t CapacityFor(bool is_admin, uint64_t held_after) const {
    const bool is_newcomer = held_after <= newcomer_max();
    return capacity - (is_admin ? 0 : admin_reserve()) -
           (is_newcomer ? 0 : newcomer_reserve());
  }

  // True if a caller that holds `held` of the `used` units may have `amount`
  // more.
  constexpr bool Admits(bool is_admin, uint64_t held, uint64_t used,
                        uint64_t amount) const {
    // A sum that overflows is above every limit.
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
