// SPDX-License-Identifier: Apache-2.0

// Per-target sums: additions to a virtual lane, and folding a block's virtual
// lanes into a running sum. Included once for every target, hence the toggled
// guard.
#if defined(MSITD_PROTOS_COMPUTE_FOLD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSITD_PROTOS_COMPUTE_FOLD_INL_H_
#undef MSITD_PROTOS_COMPUTE_FOLD_INL_H_
#else
#define MSITD_PROTOS_COMPUTE_FOLD_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "protos/compute/number/lane_sum.h"

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A vector of at most kFoldLanes doubles, even where the target has wider ones.
using FoldTag = hn::CappedTag<double, kFoldLanes>;

// Returns sum + x. On x86-64 with FMA the addition uses the ports of
// multiplications, for loops in which those of additions are the bottleneck.
// x * 1 is exact, so the bits are the same.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AddByMultiplier([[maybe_unused]] D d, V sum, V x) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::MulAdd(x, hn::Set(d, hn::TFromD<D>{1}), sum);
#else
  return hn::Add(sum, x);
#endif
}

// Adds lanes j and j + 8 in their own type, and returns the sums as double.
template <class D64>
HWY_INLINE hn::Vec<D64> FoldAt(D64 d64, const float* lanes, size_t j) {
  const hn::Rebind<float, D64> d32;
  return hn::PromoteTo(d64, hn::Add(hn::Load(d32, lanes + j),
                                    hn::Load(d32, lanes + j + kFoldLanes)));
}

template <class D64>
HWY_INLINE hn::Vec<D64> FoldAt(D64 d64, const double* lanes, size_t j) {
  return hn::Add(hn::Load(d64, lanes + j),
                 hn::Load(d64, lanes + j + kFoldLanes));
}

// Adds a block's virtual lanes, aligned for a vector, to `sum`.
template <typename T>
HWY_INLINE void AddLanes(const T* virtual_lanes, LaneSum& sum) {
  const FoldTag d64;
  if (HWY_UNLIKELY(sum.exponent != 0)) {
    alignas(64) double folded[kFoldLanes];
    for (size_t j = 0; j < kFoldLanes; j += hn::MaxLanes(d64)) {
      hn::Store(FoldAt(d64, virtual_lanes, j), d64, folded + j);
    }
    sum.Add(folded, 0);
    return;
  }
  for (size_t j = 0; j < kFoldLanes; j += hn::MaxLanes(d64)) {
    const auto old = hn::Load(d64, sum.lane + j);
    hn::Store(hn::Add(old, FoldAt(d64, virtual_lanes, j)), d64, sum.lane + j);
  }
}

}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MSITD_PROTOS_COMPUTE_FOLD_INL_H_
