// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/row_state.h"

#include <algorithm>
#include <cmath>

#include "daemon/compute/kernel/wide_integer.h"
#include "protos/compute/number/element.h"
#include "protos/compute/number/lane_sum.h"

namespace msitd::compute {
namespace {

using Chunk = double[kRowChunk];

double LargestOf(const Chunk& x, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, x[i]);
  return largest;
}

// The exponent by which a stretch with this largest magnitude is divided.
int64_t ScaleOf(double largest) {
  if (largest > kLargeMagnitude) return kScaleExponent;
  if (largest != 0 && largest < kSmallMagnitude) return -kScaleExponent;
  return 0;
}

// |t - g| and |g| of a stretch, both divided by a power of two.
struct Magnitudes {
  Chunk difference;
  Chunk golden;
  int64_t difference_exponent = 0;
  int64_t golden_exponent = 0;
};

void TakeMagnitudes(const RowState& state, const std::byte* target,
                    const std::byte* golden, size_t count, Magnitudes& out) {
  Chunk t;
  Chunk g;
  ToDouble(state.target, target, count, t);
  ToDouble(state.golden, golden, count, g);
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(t[i]) || !std::isfinite(g[i])) t[i] = g[i] = 0;
    largest = std::max({largest, std::fabs(t[i]), std::fabs(g[i])});
  }
  const bool is_large = largest > kLargeMagnitude;
  if (IsWide(state.target) || IsWide(state.golden)) {
    WideDifferences(state.target, target, state.golden, golden, count,
                    out.difference);
    for (size_t i = 0; i < count; ++i) {
      // Void where a side was not finite.
      if (t[i] == 0 && g[i] == 0) out.difference[i] = 0;
      if (is_large) out.difference[i] *= kScaleDown;
    }
  } else {
    const double factor = is_large ? kScaleDown : 1;
    for (size_t i = 0; i < count; ++i) {
      out.difference[i] = std::fabs(t[i] * factor - g[i] * factor);
    }
  }
  for (size_t i = 0; i < count; ++i) out.golden[i] = std::fabs(g[i]);
  out.difference_exponent = is_large ? kScaleExponent : 0;
}

void Multiply(LineVector<double>& sums, double factor) {
  for (double& sum : sums) sum *= factor;
}

// Divides the elements of a stretch so that their squares can be added to sums
// with `exponent`; moves that to larger elements first.
void Align(Chunk& x, size_t count, int64_t own, bool has_sums,
           int64_t& exponent, double& row, LineVector<double>& rows,
           LineVector<double>& channels) {
  const double largest = LargestOf(x, count);
  if (largest == 0) return;
  const int64_t wanted = own + (own == 0 ? ScaleOf(largest) : 0);
  if (!has_sums) {
    exponent = wanted;
  } else if (wanted > exponent) {
    const double factor = Scale(1, 2 * (exponent - wanted));
    row *= factor;
    Multiply(rows, factor);
    Multiply(channels, factor);
    exponent = wanted;
  }
  if (own == exponent) return;
  for (size_t i = 0; i < count; ++i) x[i] = Scale(x[i], own - exponent);
}

void AddChunkCarefully(const std::byte* target, const std::byte* golden,
                       size_t count, RowState& state) {
  Magnitudes x;
  TakeMagnitudes(state, target, golden, count, x);
  state.FlushFloats();
  Align(x.difference, count, x.difference_exponent, state.has_difference,
        state.difference_exponent, state.row_difference, state.rows.difference,
        state.channels.difference);
  Align(x.golden, count, x.golden_exponent, state.has_golden,
        state.golden_exponent, state.row_golden, state.rows.golden,
        state.channels.golden);
  size_t i = 0;
  while (i < count) {
    const size_t now =
        std::min<uint64_t>(count - i, state.row_elements - state.at);
    double difference = 0;
    double squares = 0;
    for (size_t j = i; j < i + now; ++j) {
      const double dd = x.difference[j] * x.difference[j];
      const double gg = x.golden[j] * x.golden[j];
      difference += dd;
      squares += gg;
      if (!state.has_channels()) continue;
      state.channels.difference[state.at + (j - i)] += dd;
      state.channels.golden[state.at + (j - i)] += gg;
    }
    state.AddStretch(difference, squares, now);
    i += now;
  }
}

}  // namespace

RowState::RowState(DType target_component, DType golden_component,
                   uint64_t elements, uint64_t rows_wanted,
                   uint64_t channel_count)
    : target(target_component),
      golden(golden_component),
      row_elements(elements),
      row_count(rows_wanted) {
  rows.difference.reserve(row_count);
  rows.golden.reserve(row_count);
  channels.difference.resize(channel_count);
  channels.golden.resize(channel_count);
  if (!FitsFloat(target) || !FitsFloat(golden)) return;
  float_difference.resize(channel_count);
  float_golden.resize(channel_count);
}

void RowState::FlushFloats() {
  float_rows = 0;
  if (!has_floats) return;
  has_floats = false;
  const size_t count = float_golden.size();
  for (size_t i = 0; i < count; ++i) {
    channels.difference[i] += static_cast<double>(float_difference[i]);
    channels.golden[i] += static_cast<double>(float_golden[i]);
  }
  std::fill(float_difference.begin(), float_difference.end(), 0.0F);
  std::fill(float_golden.begin(), float_golden.end(), 0.0F);
}

bool RowState::MakePlain() {
  if (difference_exponent > 0 || golden_exponent > 0) return false;
  if (difference_exponent < 0) {
    const double factor = Scale(1, 2 * difference_exponent);
    row_difference *= factor;
    Multiply(rows.difference, factor);
    Multiply(channels.difference, factor);
    difference_exponent = 0;
  }
  if (golden_exponent < 0) {
    const double factor = Scale(1, 2 * golden_exponent);
    row_golden *= factor;
    Multiply(rows.golden, factor);
    Multiply(channels.golden, factor);
    golden_exponent = 0;
  }
  return true;
}

void AddRowsCarefully(const std::byte* target, const std::byte* golden,
                      size_t count, RowState& state) {
  while (count > 0) {
    const size_t now = std::min(count, kRowChunk);
    AddChunkCarefully(target, golden, now, state);
    target += now * ElementBytes(state.target);
    golden += now * ElementBytes(state.golden);
    count -= now;
  }
}

}  // namespace msitd::compute
