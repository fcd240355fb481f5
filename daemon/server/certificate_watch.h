// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace msitd::server {

// Warns in the log before the certificate of the daemon expires, once a day:
// nobody else notices until no client connects any more. The certificate is the
// one that was read at the start, like that of gRPC. Thread-compatible.
class CertificateWatch {
 public:
  static constexpr std::chrono::hours kInterval{24};
  // Days before the end from which on there are warnings.
  static constexpr int64_t kDaysAhead = 30;

  using Clock = std::chrono::system_clock;

  // `path` is a PEM file that has been checked; empty for none.
  explicit CertificateWatch(std::string path);

  // Returns the warning for `now`; empty for none, and within kInterval of the
  // last check.
  std::string Check(Clock::time_point now);

 private:
  const std::string path_;
  int64_t last_s_ = 0;  // 0: there is no certificate.
  Clock::time_point next_{};
};

}  // namespace msitd::server
