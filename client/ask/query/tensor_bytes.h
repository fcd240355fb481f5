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
  bool is_sample = false;  // Those of its sample.
};

// Gives the bytes to `sink`, as ResumingRead does.
Outcome ReadTensorBytes(Connection& connection, const WantedBytes& wanted,
                        ByteSink sink);

// True for an error that is about this tensor alone, so that others can be
// read: its bytes have been given up or are damaged, or it is gone.
bool IsOfTensor(const Outcome& outcome);

}  // namespace msitd::ask
