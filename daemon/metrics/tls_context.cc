// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics/tls_context.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "protos/status/status.h"

namespace msitd::metrics {
namespace {

// Certificates of one file; a file of a system's CAs has a few hundred.
constexpr int kCertificatesMax = 4096;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Owned<BIO> Open(const std::string& text) {
  return Owned<BIO>(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// An entry that stays in the thread's error queue would be reported as the next
// error.
absl::Status Invalid(const char* what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(what);
}

Owned<X509> NextCertificate(BIO* bio) {
  return Owned<X509>(PEM_read_bio_X509_AUX(bio, nullptr, nullptr, nullptr));
}

// Without it, OpenSSL would prompt for a passphrase on the terminal.
int RefusePassphrase(char* /*buffer*/, int /*size*/, int /*writes*/,
                     void* /*data*/) {
  return -1;
}

absl::Status UseOwn(const std::string& own, SSL_CTX* context) {
  const Owned<BIO> key_bio = Open(own);
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr,
                                                    RefusePassphrase, nullptr));
  if (key == nullptr) return Invalid("there is no usable private key");
  const Owned<BIO> bio = Open(own);
  Owned<X509> certificate = NextCertificate(bio.get());
  if (certificate == nullptr ||
      SSL_CTX_use_certificate(context, certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return Invalid("OpenSSL does not accept the certificate and its key");
  }
  for (int i = 0; i < kCertificatesMax; ++i) {
    certificate = NextCertificate(bio.get());
    if (certificate == nullptr) break;
    if (SSL_CTX_add1_chain_cert(context, certificate.get()) != 1) {
      return Invalid("OpenSSL does not accept the certificate chain");
    }
  }
  ERR_clear_error();
  return absl::OkStatus();
}

absl::Status RequireClients(const std::string& client_ca, SSL_CTX* context) {
  const Owned<BIO> bio = Open(client_ca);
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  int count = 0;
  for (; count < kCertificatesMax; ++count) {
    const Owned<X509> certificate = NextCertificate(bio.get());
    if (certificate == nullptr) break;
    if (X509_STORE_add_cert(store, certificate.get()) != 1 ||
        SSL_CTX_add_client_CA(context, certificate.get()) != 1) {
      return Invalid("OpenSSL does not accept the CA for clients");
    }
  }
  ERR_clear_error();
  if (count == 0) return Invalid("there is no CA for clients");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     nullptr);
  return absl::OkStatus();
}

}  // namespace

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

ssl_st* TlsContext::NewConnection() const { return SSL_new(context_); }

absl::StatusOr<std::shared_ptr<const TlsContext>> TlsContext::Create(
    const TlsContent& content) {
  Owned<SSL_CTX> context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr ||
      SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1) {
    ERR_clear_error();
    return absl::InternalError("OpenSSL has no TLS 1.2");
  }
  // A scrape is a connection of its own, and a resumed session would not be
  // checked against a new CA.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET |
                                         SSL_OP_NO_RENEGOTIATION |
                                         SSL_OP_NO_COMPRESSION |
                                         SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  MSITD_RETURN_IF_ERROR(UseOwn(content.own, context.get()));
  if (!content.client_ca.empty()) {
    MSITD_RETURN_IF_ERROR(RequireClients(content.client_ca, context.get()));
  }
  return std::shared_ptr<const TlsContext>(new TlsContext(context.release()));
}

}  // namespace msitd::metrics
