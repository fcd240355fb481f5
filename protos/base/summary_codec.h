// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "protos/base/byte_codec.h"
#include "protos/base/summary.h"

// A summary as fields of an entry, wherever the entry is kept.
namespace msitd {

// `Writer` is one of byte_codec.h.
template <typename Writer>
void PutSummary(Writer& out, const Summary& summary) {
  out.PutVarint(summary.count);
  out.PutVarint(summary.nan_count);
  out.PutVarint(summary.positive_infinity_count);
  out.PutVarint(summary.negative_infinity_count);
  out.PutVarint(summary.zero_count);
  for (const double value : {summary.min, summary.max, summary.sum, summary.l1,
                             summary.sum_squares}) {
    out.PutFixed64(std::bit_cast<uint64_t>(value));
  }
  out.PutSigned(summary.sum_squares_exponent);
}

// The inverse. Whether all fields were there, `in` says.
inline void GetSummary(ByteReader& in, Summary& summary) {
  summary.count = in.GetVarint();
  summary.nan_count = in.GetVarint();
  summary.positive_infinity_count = in.GetVarint();
  summary.negative_infinity_count = in.GetVarint();
  summary.zero_count = in.GetVarint();
  summary.min = in.GetDouble();
  summary.max = in.GetDouble();
  summary.sum = in.GetDouble();
  summary.l1 = in.GetDouble();
  summary.sum_squares = in.GetDouble();
  summary.sum_squares_exponent = in.GetSigned();
}

}  // namespace msitd
