// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace msitd::server {

// Logs a warning once a day before the certificate of the daemon expires.
// Otherwise the expiry is noticed only when clients can no longer connect.
// Reads the file again when it changes. Thread-compatible.
class CertificateWatch {
 public:
  static constexpr std::chrono::hours kInterval{24};
  // Number of days before the expiry at which the warnings start.
  static constexpr int64_t kDaysAhead = 30;

  using Clock = std::chrono::system_clock;

  // `path` is a PEM file that has been validated; empty for none. `name`
  // identifies the file in the warning.
  CertificateWatch(std::string path, std::string name);

  // Returns the warning for `now`. Empty if there is nothing to report, or if
  // the same file was checked less than kInterval ago.
  std::string Check(Clock::time_point now);

  // Returns the end of the validity as Unix time, as the last Check read it. 0
  // if there is no certificate.
  int64_t last_s() const { return last_s_; }

 private:
  // Reads the file if it has changed.
  void Read();

  const std::string path_;
  const std::string name_;
  int64_t read_time_ns_ = 0;  // Modification time of the file that was read.
  int64_t last_s_ = 0;        // 0: there is no certificate.
  Clock::time_point next_{};
};

}  // namespace msitd::server
