// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "protos/base/byte_codec.h"
#include "protos/base/summary.h"

// Encodes a summary as fields of an entry, independently of where the entry is
// stored.
namespace msitd {

// `Writer` is one of the writers of byte_codec.h.
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

// Inverse of PutSummary. `in.ok()` states whether all fields were present.
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
