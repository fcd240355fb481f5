// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "client/ask/query/byte_sink.h"
#include "client/ask/query/outcome.h"

namespace msitd::ask {

class Connection;

// Which bytes of which tensor.
struct WantedBytes {
  std::string name;
  int64_t size_bytes = 0;
  bool is_sample = false;  // The bytes of the tensor's sample.
};

// Passes the bytes to `sink`, like ResumingRead.
Outcome ReadTensorBytes(Connection& connection, const WantedBytes& wanted,
                        ByteSink sink);

// Returns true for an error that concerns only this tensor, so that others can
// be read: its bytes have been discarded or are damaged, or the tensor no
// longer exists.
bool IsOfTensor(const Outcome& outcome);

}  // namespace msitd::ask
