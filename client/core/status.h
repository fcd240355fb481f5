// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "client/include/msit/msit.h"

namespace msitd::client {

// What became of a call, with the codes of the C interface. The library depends
// on the standard library only, hence no absl::Status.
struct Status {
  msit_code code = MSIT_OK;
  std::string message;

  bool ok() const { return code == MSIT_OK; }
};

inline Status InvalidArgument(std::string message) {
  return {MSIT_ERROR_INVALID_ARGUMENT, std::move(message)};
}

inline Status Interrupted() {
  return {MSIT_ERROR_INTERRUPTED, "the host process ended the wait"};
}

}  // namespace msitd::client
