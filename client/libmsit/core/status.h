// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "client/libmsit/include/msit/msit.h"

namespace msitd::libmsit {

// The result of a call, with the codes of the C interface. absl::Status is not
// used because the library depends only on the standard library.
struct Status {
  msit_code code = MSIT_OK;
  std::string message;
  // Only with DROPPED: there was no space in time, so that another attempt may
  // succeed.
  bool is_for_space = false;

  bool ok() const { return code == MSIT_OK; }
};

inline Status InvalidArgument(std::string message) {
  return {MSIT_ERROR_INVALID_ARGUMENT, std::move(message)};
}

inline Status Closed() { return {MSIT_ERROR_CLOSED, "the client is closed"}; }

inline Status Interrupted() {
  return {MSIT_ERROR_INTERRUPTED, "the host process ended the wait"};
}

}  // namespace msitd::libmsit
