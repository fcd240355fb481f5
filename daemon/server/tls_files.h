// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/metrics/tls_context.h"
#include "protos/os/unique_fd.h"

namespace msitd::server {

// Validated copies of the TLS files of one listener. gRPC itself would load
// files that are half written or do not match, and then fail all handshakes
// until they are repaired. It therefore reads copies in memory, which are
// replaced only by valid contents. The metrics server uses the same contents.
//
// Thread-compatible.
class TlsFiles {
 public:
  // How often the files are checked for changes.
  static constexpr std::chrono::seconds kInterval{5};
  // How often a problem with the files is logged.
  static constexpr std::chrono::hours kWarnInterval{24};

  using Clock = std::chrono::steady_clock;

  struct Paths {
    std::string certificate;
    std::string key;
    std::string client_ca;  // Empty for none.
    // The beginning of the three configuration keys, for messages.
    std::string prefix = "tls_";
  };

  // Reads and validates the files.
  //
  // Errors: INVALID_ARGUMENT if a file is not PEM, the files do not match, or
  // OpenSSL does not accept them; those of reading. They name the file.
  static absl::StatusOr<std::unique_ptr<TlsFiles>> Open(Paths paths);

  // Paths of the copies: one contains the key and the certificates, the other
  // one the certificates of the CA. They are valid as long as this object
  // exists.
  std::string own_copy() const;
  std::string client_ca_copy() const;  // Empty for none.

  // A server context with the contents of the copies. Never null.
  std::shared_ptr<const metrics::TlsContext> context() const {
    return context_;
  }

  // Checks the files, at most once per kInterval, and takes over changed files
  // if all of them are valid. Returns whether the contents have changed.
  bool Refresh(Clock::time_point now);

  // Checks the files now. Returns why changed files are not used; empty if the
  // files are in use.
  std::string Reload(Clock::time_point now);

 private:
  explicit TlsFiles(Paths paths) : paths_(std::move(paths)) {}

  using Content = metrics::TlsContent;

  absl::StatusOr<Content> Read() const;
  // Takes over `content` if OpenSSL accepts it. Otherwise, nothing changes.
  absl::Status Publish(Content content);

  const Paths paths_;
  Content content_;  // That of the copies and `context_`.
  std::shared_ptr<const metrics::TlsContext> context_;
  UniqueFd own_;
  UniqueFd client_ca_;
  Clock::time_point next_{};
  std::string problem_;            // The problem that was logged last.
  Clock::time_point warn_time_{};  // When to log it again.
};

}  // namespace msitd::server
