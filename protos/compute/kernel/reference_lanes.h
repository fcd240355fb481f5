// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "protos/base/dtype.h"
#include "protos/compute/kernel/reference.h"
#include "protos/compute/number/lane_sum.h"

// Building blocks of the reference kernels, which process one element at a
// time.
namespace msitd::compute {

template <typename T>
using VirtualLanes = std::array<T, kVirtualLanes>;

// Adds element i of a block to lane i % 16, in order.
template <typename T>
VirtualLanes<T> SumLanes(const std::array<T, kBlockElements>& block) {
  VirtualLanes<T> lanes = {};
  for (size_t i = 0; i < kBlockElements; ++i) lanes[i % 16] += block[i];
  return lanes;
}

// Adds lanes j and j + 8 in T, then to lane j of the running sum in double.
template <typename T>
void AddTo(LaneSum& sum, const VirtualLanes<T>& lanes) {
  double folded[kFoldLanes];
  for (size_t j = 0; j < kFoldLanes; ++j) {
    folded[j] = static_cast<double>(lanes[j] + lanes[j + kFoldLanes]);
  }
  sum.Add(folded, 0);
}

template <typename T>
bool AllAtMost(const VirtualLanes<T>& lanes, T bound) {
  return std::all_of(lanes.begin(), lanes.end(),
                     [bound](T lane) { return lane <= bound; });
}

template <typename T>
bool AnyAtLeast(const VirtualLanes<T>& lanes, T bound) {
  return std::any_of(lanes.begin(), lanes.end(),
                     [bound](T lane) { return lane >= bound; });
}

template <typename T>
std::array<T, kBlockElements> ReadBlock(DType component,
                                        const std::byte* bytes) {
  std::array<T, kBlockElements> block;
  for (size_t i = 0; i < kBlockElements; ++i) {
    block[i] = static_cast<T>(ReferenceElement(component, bytes, i));
  }
  return block;
}

template <typename T, typename F>
std::array<T, kBlockElements> Map(const std::array<T, kBlockElements>& in,
                                  F function) {
  std::array<T, kBlockElements> out;
  std::transform(in.begin(), in.end(), out.begin(), function);
  return out;
}

template <typename T, typename F>
std::array<T, kBlockElements> Map(const std::array<T, kBlockElements>& a,
                                  const std::array<T, kBlockElements>& b,
                                  F function) {
  std::array<T, kBlockElements> out;
  std::transform(a.begin(), a.end(), b.begin(), out.begin(), function);
  return out;
}

}  // namespace msitd::compute
