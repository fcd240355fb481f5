// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

// Types of OpenSSL, whose headers only the sources include.
struct ssl_st;
struct ssl_ctx_st;

namespace msitd::metrics {

// Contents of PEM files, which have been checked.
struct TlsContent {
  std::string own;        // The private key and its certificate chain.
  std::string client_ca;  // Empty: clients need no certificate.

  friend bool operator==(const TlsContent&, const TlsContent&) = default;
};

// The certificates and rules for TLS connections of a server. Immutable and
// therefore thread-safe.
class TlsContext {
 public:
  // Errors: INVALID_ARGUMENT if OpenSSL does not accept the content. The
  // message contains neither keys nor certificates.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> Create(
      const TlsContent& content);

  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Returns a new connection that keeps the context alive; null if there is no
  // memory.
  ssl_st* NewConnection() const;

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}

  ssl_ctx_st* const context_;
};

}  // namespace msitd::metrics
