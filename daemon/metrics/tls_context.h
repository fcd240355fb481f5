// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace msitd::metrics {

// Contents of PEM files, which have been checked.
struct TlsContent {
  std::string own;        // The private key and its certificate chain.
  std::string client_ca;  // Empty: clients need no certificate.
};

// The certificates and rules for TLS connections of a server. Immutable and
// therefore thread-safe.
class TlsContext {
 public:
  // Errors: INVALID_ARGUMENT if OpenSSL does not accept the content. The
  // message contains neither keys nor certificates.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> Create(
      const TlsContent& content);

  ~TlsContext() { SSL_CTX_free(context_); }
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Returns a new connection that keeps the context alive; null if there is no
  // memory.
  SSL* NewConnection() const { return SSL_new(context_); }

 private:
  explicit TlsContext(SSL_CTX* context) : context_(context) {}

  SSL_CTX* const context_;
};

}  // namespace msitd::metrics
