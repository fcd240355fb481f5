// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/msit_kernels.h"

#include <cfloat>
#include <cstring>

#include "protos/compute/kernel/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/compute/kernel/msit_kernels.cc"
// The order matters: from here on this file is compiled once for every target.
// clang-format off
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "protos/compute/kernel/loaders-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace {

using Double = hn::CappedTag<double, kMsitLanes>;
using Float = hn::Rebind<float, Double>;

// Adds the pairs of as many lanes as a vector has, from lane `first` on, to
// their sums.
HWY_INLINE void AddLanes(const std::byte* target, const std::byte* golden,
                         size_t count, size_t first, MsitSums& sums) {
  const Double d64;
  const Float d32;
  const auto largest = hn::Set(d32, FLT_MAX);
  const auto smallest = hn::Set(d32, FLT_EPSILON);
  const auto one = hn::Set(d32, 1);
  const auto load = [&](auto d, const auto& lanes)
                        HWY_ATTR { return hn::Load(d, &lanes.lane[first]); };
  auto tt = load(d64, sums.tt);
  auto gg = load(d64, sums.gg);
  auto tg = load(d64, sums.tg);
  auto noise = load(d64, sums.noise);
  auto signal = load(d64, sums.signal);
  auto relative = load(d64, sums.relative);
  auto absolute = load(d64, sums.absolute);
  auto max_relative = load(d32, sums.max_relative);
  auto max_absolute = load(d32, sums.max_absolute);
  auto non_finite = hn::Zero(d32);
  for (size_t i = first; i < count; i += kMsitLanes) {
    const auto t = LoadAt(d32, target + i * sizeof(float));
    const auto g = LoadAt(d32, golden + i * sizeof(float));
    const auto t_magnitude = hn::Abs(t);
    const auto g_magnitude = hn::Abs(g);
    const auto are_finite =
        hn::And(hn::Le(t_magnitude, largest), hn::Le(g_magnitude, largest));
    non_finite = hn::IfThenElse(are_finite, non_finite, one);
    // Products of floats are exact in double, so a fused multiplication changes
    // nothing.
    const auto t64 = hn::PromoteTo(d64, t);
    const auto g64 = hn::PromoteTo(d64, g);
    tt = hn::MulAdd(t64, t64, tt);
    gg = hn::MulAdd(g64, g64, gg);
    tg = hn::MulAdd(t64, g64, tg);
    const auto difference = hn::Sub(t, g);
    noise = hn::Add(noise, hn::PromoteTo(d64, hn::Mul(difference, difference)));
    signal = hn::Add(signal, hn::PromoteTo(d64, hn::Mul(g, g)));
    const auto counts = hn::Gt(g_magnitude, smallest);
    const auto relative_error =
        hn::IfThenElseZero(counts, hn::Abs(hn::Sub(hn::Div(t, g), one)));
    const auto absolute_error = hn::IfThenElseZero(counts, hn::Abs(difference));
    max_relative = hn::Max(max_relative, relative_error);
    max_absolute = hn::Max(max_absolute, absolute_error);
    relative = hn::Add(relative, hn::PromoteTo(d64, relative_error));
    absolute = hn::Add(absolute, hn::PromoteTo(d64, absolute_error));
  }
  const auto store = [&](auto d, auto vector, auto& lanes)
                         HWY_ATTR { hn::Store(vector, d, &lanes.lane[first]); };
  store(d64, tt, sums.tt);
  store(d64, gg, sums.gg);
  store(d64, tg, sums.tg);
  store(d64, noise, sums.noise);
  store(d64, signal, sums.signal);
  store(d64, relative, sums.relative);
  store(d64, absolute, sums.absolute);
  store(d32, max_relative, sums.max_relative);
  store(d32, max_absolute, sums.max_absolute);
  sums.has_non_finite |= !hn::AllFalse(d32, hn::Ne(non_finite, hn::Zero(d32)));
}

void AddMsitPairs(const std::byte* target, const std::byte* golden,
                  size_t count, MsitSums& sums) {
  for (size_t first = 0; first < kMsitLanes; first += hn::Lanes(Double())) {
    AddLanes(target, golden, count, first, sums);
  }
}

}  // namespace
}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msitd::compute {
namespace {

void AddByReference(const std::byte* target, const std::byte* golden,
                    size_t count, MsitSums& sums) {
  for (size_t i = 0; i < count; ++i) {
    float t = 0;
    float g = 0;
    std::memcpy(&t, target + i * sizeof t, sizeof t);
    std::memcpy(&g, golden + i * sizeof g, sizeof g);
    sums.Add(i % kMsitLanes, t, g);
  }
}

}  // namespace

HWY_EXPORT(AddMsitPairs);

MsitKernel MsitKernelOf(int64_t target) {
  if (target == kReferenceTarget) return AddByReference;
  hwy::ChosenTarget chosen;
  chosen.Update(target);
  return HWY_DISPATCH_TABLE(AddMsitPairs)[chosen.GetIndex()];
}

MsitKernel ChosenMsitKernel() {
  static const MsitKernel chosen = MsitKernelOf(ChosenKernels().target);
  return chosen;
}

}  // namespace msitd::compute
#endif  // HWY_ONCE
