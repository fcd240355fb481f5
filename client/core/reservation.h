// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/core/chunker.h"
#include "protos/base/dtype.h"

namespace msitd::client {

// The places of a record whose bytes come later: made by Client::Reserve, ended
// by Client::Publish. Their memory stays where it is in between. No other
// thread may use it meanwhile.
struct Reservation {
  struct Part {
    Chunker::Place place;
    // Where the bytes of the part go: in the place or in `scratch`.
    std::span<std::byte> bytes;
    bool has_digest = false;
  };

  DType dtype = DType::kUnspecified;
  uint64_t tensor_bytes = 0;
  // RecordSpec::sequence of the record, which identifies the reservation.
  uint64_t sequence = 0;
  std::vector<Part> parts;
  // Places of records that are aliases of this one. They are complete, but
  // share its fate: without their original, nobody could read them. Guarded by
  // the lock of the client.
  std::vector<Chunker::Place> aliases;
  // Of the parts of which only digests are sent.
  std::span<std::byte> scratch;
};

}  // namespace msitd::client
