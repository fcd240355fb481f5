// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/libmsit/core/chunker.h"
#include "protos/base/dtype.h"

namespace msitd::libmsit {

// The places of a record whose bytes are supplied later. Created by
// Client::Reserve and ended by Client::Publish. The memory does not move in
// between, and no other thread may use it.
struct Reservation {
  struct ReservedPart {
    Chunker::PartPlace place;
    // Where the bytes of the part are written: in the place or in `scratch`.
    std::span<std::byte> bytes;
    bool has_digest = false;
  };

  DType dtype = DType::kUnspecified;
  uint64_t tensor_bytes = 0;
  // RecordSpec::sequence of the record, which identifies the reservation.
  uint64_t sequence = 0;
  std::vector<ReservedPart> parts;
  // Places of records that are aliases of this one. They are complete, but
  // cannot be read without their original, so they are withdrawn with it.
  // Guarded by the lock of the client.
  std::vector<Chunker::PartPlace> aliases;
  // For the parts of which only digests are sent.
  std::span<std::byte> scratch;
};

}  // namespace msitd::libmsit
