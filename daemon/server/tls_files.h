// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::server {

// The files of TLS, as gRPC is to see them. gRPC would take files that are half
// written, or do not fit, and shake no hand until they are mended. So it reads
// copies in memory, which change only to what has been checked.
//
// Thread-compatible.
class TlsFiles {
 public:
  // How often the files are looked at.
  static constexpr std::chrono::seconds kInterval{5};
  // How often it is said that they are no good.
  static constexpr std::chrono::hours kWarnInterval{24};

  using Clock = std::chrono::steady_clock;

  struct Paths {
    std::string certificate;
    std::string key;
    std::string client_ca;  // Empty for none.
  };

  // Reads and checks the files.
  //
  // Errors: INVALID_ARGUMENT for what is no PEM or does not fit; those of
  // reading. They name the file.
  static absl::StatusOr<std::unique_ptr<TlsFiles>> Open(Paths paths);

  // Paths of the copies: one has the key and the certificates, the other one
  // those of the CA. They are good for as long as this lives.
  std::string own_copy() const;
  std::string client_ca_copy() const;  // Empty for none.

  // Looks at the files unless that was done within kInterval, and takes over
  // what has changed if all of it is good.
  void Refresh(Clock::time_point now);

 private:
  struct Content {
    std::string own;
    std::string client_ca;

    friend bool operator==(const Content&, const Content&) = default;
  };

  explicit TlsFiles(Paths paths) : paths_(std::move(paths)) {}

  absl::StatusOr<Content> Read() const;
  absl::Status Publish(const Content& content);

  const Paths paths_;
  Content content_;
  UniqueFd own_;
  UniqueFd client_ca_;
  Clock::time_point next_{};
  std::string problem_;            // That was logged last.
  Clock::time_point warn_time_{};  // When it is logged again.
};

}  // namespace msitd::server
