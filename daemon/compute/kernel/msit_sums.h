// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstddef>

namespace msitd::compute {

// Element i of a pair is added to lane i % 8. So sums are the same wherever a
// tensor is cut, and on every CPU.
inline constexpr size_t kMsitLanes = 8;

template <typename T>
struct MsitLanes {
  alignas(64) std::array<T, kMsitLanes> lane = {};
};

// What msit sums up of a pair, in float. It leaves out errors where golden is
// nearly zero. The members say what the kernels compute.
struct MsitSums {
  MsitLanes<double> tt;
  MsitLanes<double> gg;
  MsitLanes<double> tg;
  MsitLanes<double> noise;
  MsitLanes<double> signal;
  MsitLanes<double> relative;
  MsitLanes<double> absolute;
  MsitLanes<float> max_relative;
  MsitLanes<float> max_absolute;
  // True if an element is not finite: nothing else counts then.
  bool has_non_finite = false;

  void Add(size_t i, float t, float g) {
    has_non_finite |= !(std::fabs(t) <= FLT_MAX) || !(std::fabs(g) <= FLT_MAX);
    tt.lane[i] += double{t} * t;
    gg.lane[i] += double{g} * g;
    tg.lane[i] += double{t} * g;
    const float d = t - g;
    noise.lane[i] += d * d;
    signal.lane[i] += g * g;
    const float quotient = t / g;
    const bool counts = std::fabs(g) > FLT_EPSILON;
    const float relative_error = counts ? std::fabs(quotient - 1) : 0;
    const float absolute_error = counts ? std::fabs(d) : 0;
    max_relative.lane[i] = std::max(max_relative.lane[i], relative_error);
    max_absolute.lane[i] = std::max(max_absolute.lane[i], absolute_error);
    relative.lane[i] += relative_error;
    absolute.lane[i] += absolute_error;
  }
};

}  // namespace msitd::compute
