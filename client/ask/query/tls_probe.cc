// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/tls_probe.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <csignal>
#include <ctime>
#include <memory>

#include "client/ask/query/connection.h"

namespace msitd::ask {
namespace {

using Clock = std::chrono::steady_clock;

struct Free {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

enum class Step { kDone, kFailed, kLate };

// Repeats a step of OpenSSL until it succeeds or fails.
template <typename Function>
Step Repeat(BIO* bio, Clock::time_point deadline, const Function& step) {
  while (true) {
    ERR_clear_error();
    if (step() > 0) return Step::kDone;
    if (!BIO_should_retry(bio)) return Step::kFailed;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - Clock::now());
    if (left.count() <= 0) return Step::kLate;
    const short events = BIO_should_read(bio) ? POLLIN : POLLOUT;
    pollfd waiting{static_cast<int>(BIO_get_fd(bio, nullptr)), events, 0};
    ::poll(&waiting, 1, static_cast<int>(left.count()));
  }
}

// Returns the names for which a certificate was issued.
std::string NamesOf(X509* certificate) {
  const int at = X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1);
  const std::unique_ptr<BIO, Free> text(BIO_new(BIO_s_mem()));
  if (at < 0 ||
      X509V3_EXT_print(text.get(), X509_get_ext(certificate, at), 0, 0) != 1) {
    return "no name";
  }
  char* data = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(text.get(), &data));
  return std::string(data, size);
}

std::string WhyNotTrusted(const SSL* ssl, const ConnectionOptions& options,
                          const std::string& host) {
  const long verdict = SSL_get_verify_result(ssl);
  switch (verdict) {
    case X509_V_OK:
      return "";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return fmt::format(
          "the certificate of the daemon is for {}, and not for {}",
          NamesOf(SSL_get0_peer_certificate(ssl)), host);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return options.ca_file.empty()
                 ? "the system does not trust the CA of the daemon's "
                   "certificate: use --ca-file FILE"
                 : fmt::format(
                       "the certificate of the daemon was not signed "
                       "by a CA in {}",
                       options.ca_file);
    default:
      return fmt::format("the certificate of the daemon is not valid: {}",
                         X509_verify_cert_error_string(verdict));
  }
}

// Describes why the daemon, which asked for a certificate, rejected the client.
// gRPC just closes the connection.
std::string WhyRefused(const ConnectionOptions& options) {
  if (options.cert_file.empty()) {
    return "the daemon requires a certificate: use --cert-file and --key-file";
  }
  return fmt::format(
      "the daemon rejects {}: it must be valid now, be for clients, and be "
      "signed by a CA in tls_client_ca",
      options.cert_file);
}

// Makes settings with which a handshake completes even if the certificate of
// the daemon is wrong.
std::unique_ptr<SSL_CTX, Free> NewContext(const ConnectionOptions& options) {
  std::unique_ptr<SSL_CTX, Free> out(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_verify(out.get(), SSL_VERIFY_NONE, nullptr);
  if (options.ca_file.empty()) {
    SSL_CTX_set_default_verify_paths(out.get());
  } else {
    SSL_CTX_load_verify_file(out.get(), options.ca_file.c_str());
  }
  if (!options.cert_file.empty()) {
    SSL_CTX_use_certificate_chain_file(out.get(), options.cert_file.c_str());
    SSL_CTX_use_PrivateKey_file(out.get(), options.key_file.c_str(),
                                SSL_FILETYPE_PEM);
  }
  constexpr unsigned char kProtocols[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(out.get(), kProtocols, sizeof(kProtocols));
  return out;
}

std::string Probe(const ConnectionOptions& options,
                  Clock::time_point deadline) {
  std::unique_ptr<BIO, Free> tcp(BIO_new_connect(options.endpoint.c_str()));
  BIO_set_nbio(tcp.get(), 1);
  if (Repeat(tcp.get(), deadline, [&] { return BIO_do_connect(tcp.get()); }) !=
      Step::kDone) {
    return "";
  }
  const std::string host = options.tls_host.empty()
                               ? BIO_get_conn_hostname(tcp.get())
                               : options.tls_host;
  const auto context = NewContext(options);
  bool is_asked = false;  // The daemon asks for a certificate.
  SSL_CTX_set_cert_cb(
      context.get(),
      [](SSL* /*ssl*/, void* out) {
        *static_cast<bool*>(out) = true;
        return 1;
      },
      &is_asked);
  const std::unique_ptr<BIO, Free> bio(BIO_new_ssl(context.get(), 1));
  BIO_push(bio.get(), tcp.release());
  SSL* ssl = nullptr;
  BIO_get_ssl(bio.get(), &ssl);
  SSL_set_tlsext_host_name(ssl, host.c_str());
  X509_VERIFY_PARAM* const checks = SSL_get0_param(ssl);
  if (X509_VERIFY_PARAM_set1_ip_asc(checks, host.c_str()) != 1) {
    X509_VERIFY_PARAM_set1_host(checks, host.c_str(), host.size());
  }

  const Step handshake =
      Repeat(bio.get(), deadline, [&] { return BIO_do_handshake(bio.get()); });
  const bool speaks_tls = SSL_get0_peer_certificate(ssl) != nullptr;
  if (!options.tls) {
    return speaks_tls ? "the daemon requires TLS: use --ca-file FILE, or --tls "
                        "to trust the CAs of the system"
                      : "";
  }
  if (handshake == Step::kLate) return "";
  if (handshake == Step::kFailed && !is_asked) {
    const char* const error = ERR_reason_error_string(ERR_peek_last_error());
    return speaks_tls ? fmt::format("TLS: {}", error == nullptr ? "" : error)
                      : "no TLS answer: the daemon closed the connection "
                        "because too many are open, or because this is not a "
                        "TLS address of a daemon. See the log of the daemon";
  }
  if (handshake == Step::kDone) {
    std::string distrust = WhyNotTrusted(ssl, options, host);
    if (!distrust.empty()) return distrust;
    // With TLS 1.3 the daemon checks the certificate after the handshake.
    char ignored = 0;
    const Step answer = Repeat(
        bio.get(), deadline, [&] { return BIO_read(bio.get(), &ignored, 1); });
    if (answer != Step::kFailed || !is_asked) return "";
  }
  return WhyRefused(options);
}

}  // namespace

std::string WhyTlsFails(const ConnectionOptions& options,
                        Clock::time_point deadline) {
  // OpenSSL may write to a closed socket, which must not end the process.
  sigset_t pipe;
  sigset_t before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  std::string why = Probe(options, deadline);
  const timespec no_time{};
  sigtimedwait(&pipe, nullptr, &no_time);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return why;
}

}  // namespace msitd::ask
