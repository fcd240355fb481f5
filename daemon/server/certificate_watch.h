// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace msitd::server {

// Warns in the log before the certificate of the daemon expires, once a day:
// nobody else notices until no client connects any more. Reads the file again
// when it changes. Thread-compatible.
class CertificateWatch {
 public:
  static constexpr std::chrono::hours kInterval{24};
  // Days before the end from which on there are warnings.
  static constexpr int64_t kDaysAhead = 30;

  using Clock = std::chrono::system_clock;

  // `path` is a PEM file that has been checked; empty for none. `name` is what
  // the warning calls it.
  CertificateWatch(std::string path, std::string name);

  // Returns the warning for `now`; empty for none, and within kInterval of the
  // last check of the same file.
  std::string Check(Clock::time_point now);

 private:
  // Reads the file if it is another one than before.
  void Read();

  const std::string path_;
  const std::string name_;
  int64_t read_time_ns_ = 0;  // When the file that was read had changed.
  int64_t last_s_ = 0;        // 0: there is no certificate.
  Clock::time_point next_{};
};

}  // namespace msitd::server
