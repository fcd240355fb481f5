// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/row_reference.h"

#include <algorithm>

#include "protos/compute/kernel/reference.h"
#include "protos/compute/kernel/reference_lanes.h"

namespace msitd::compute {
namespace {

// The total of the lanes, in the order of LaneSum.
template <typename T>
double TotalOf(const VirtualLanes<T>& lanes) {
  LaneSum sum;
  AddTo(sum, lanes);
  return sum.Mantissa();
}

// Adds elements of a chunk that belong to one row. Element i of them goes to
// lane i % 16.
template <typename T>
void AddRowStretch(const std::byte* target, const std::byte* golden,
                   size_t begin, size_t count, LineVector<T>& differences,
                   LineVector<T>& goldens, RowState& state) {
  VirtualLanes<T> difference_lanes = {};
  VirtualLanes<T> golden_lanes = {};
  for (size_t i = 0; i < count; ++i) {
    const auto t =
        static_cast<T>(ReferenceElement(state.target, target, begin + i));
    const auto g =
        static_cast<T>(ReferenceElement(state.golden, golden, begin + i));
    const T difference = t - g;
    const T difference_square = difference * difference;
    const T golden_square = g * g;
    difference_lanes[i % kVirtualLanes] += difference_square;
    golden_lanes[i % kVirtualLanes] += golden_square;
    if (!state.has_channels()) continue;
    differences[state.at + i] += difference_square;
    goldens[state.at + i] += golden_square;
  }
  state.AddStretch(TotalOf(difference_lanes), TotalOf(golden_lanes), count);
}

}  // namespace

void ReferenceRowKernel(const std::byte* target, const std::byte* golden,
                        size_t count, Arithmetic arithmetic, RowState& state) {
  for (size_t chunk = 0; chunk < count; chunk += kRowChunk) {
    const size_t end = std::min(count, chunk + kRowChunk);
    size_t at = chunk;
    while (at < end) {
      const size_t now =
          std::min<uint64_t>(end - at, state.row_elements - state.at);
      if (arithmetic == Arithmetic::kFloat) {
        state.has_floats = state.has_channels();
        AddRowStretch<float>(target, golden, at, now, state.float_difference,
                             state.float_golden, state);
      } else {
        AddRowStretch<double>(target, golden, at, now,
                              state.channels.difference, state.channels.golden,
                              state);
      }
      at += now;
    }
  }
}

}  // namespace msitd::compute
