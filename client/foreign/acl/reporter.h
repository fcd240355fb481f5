// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "protos/status/mutex.h"

namespace msitd::acl {

// Says on stderr what the user has to know, each thing once. Thread-safe.
class Reporter {
 public:
  // What comes after so many different things is not said.
  static constexpr size_t kMessagesMax = 32;

  // Says `message` of `file`, unless the same was said of another file. What
  // terminals would not print is left out. `file` may be empty. Says nothing
  // if there is no memory.
  void Say(std::string_view message, std::string_view file) noexcept;

 private:
  void TrySay(std::string_view message, std::string_view file);

  Mutex mu_;
  std::set<std::string, std::less<>> said_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::acl
