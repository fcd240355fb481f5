// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "protos/status/mutex.h"

namespace msitd::acl {

// Prints messages for the user on stderr, each one once. Thread-safe.
class Reporter {
 public:
  // After this many different messages, further ones are not printed.
  static constexpr size_t kMessagesMax = 32;

  // Prints `message` about `file`, unless the same message was printed about
  // another file. Unprintable characters are removed. `file` may be empty.
  // Prints nothing if there is not enough memory.
  void Say(std::string_view message, std::string_view file) noexcept;

 private:
  void TrySay(std::string_view message, std::string_view file);

  Mutex mu_;
  std::set<std::string, std::less<>> said_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::acl
