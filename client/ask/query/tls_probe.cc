// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/tls_probe.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "protos/os/unique_fd.h"
#include "protos/pem/pem.h"

namespace msitd::ask {
namespace {

using Clock = std::chrono::steady_clock;

// The greeting of gRPC: the preface of HTTP/2 and empty settings.
constexpr std::string_view kGreeting(
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
constexpr unsigned char kProtocols[] = {2, 'h', '2'};

// Most names of a certificate that an error repeats.
constexpr int kNamesShown = 4;

struct Free {
  void operator()(addrinfo* addresses) const { ::freeaddrinfo(addresses); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

struct HostPort {
  std::string host;
  std::string port;
};

HostPort Split(const std::string& endpoint) {
  const size_t colon = endpoint.rfind(':');
  std::string host = endpoint.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') {
    host = host.substr(1, host.size() - 2);
  }
  return {host, endpoint.substr(colon + 1)};
}

bool IsAddress(const std::string& host) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

// False at the deadline.
bool Await(int fd, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd waiting{fd, events, 0};
    const int count = ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
}

UniqueFd ConnectTo(const addrinfo& address, Clock::time_point deadline) {
  UniqueFd fd(::socket(address.ai_family,
                       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return UniqueFd();
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return fd;
  int error = errno;
  socklen_t size = sizeof(error);
  if (error != EINPROGRESS || !Await(fd.get(), POLLOUT, deadline) ||
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 ||
      error != 0) {
    return UniqueFd();
  }
  return fd;
}

UniqueFd Connect(const HostPort& to, Clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(to.host.c_str(), to.port.c_str(), &hints, &found) != 0) {
    return UniqueFd();
  }
  const Owned<addrinfo> addresses(found);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    UniqueFd fd = ConnectTo(*at, deadline);
    if (fd.valid()) return fd;
  }
  return UniqueFd();
}

// Every certificate of a text.
std::vector<Owned<X509>> Certificates(std::string_view pem) {
  std::vector<Owned<X509>> out;
  const Owned<BIO> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* const certificate =
             PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    out.emplace_back(certificate);
  }
  ERR_clear_error();
  return out;
}

std::string NamesOf(X509* certificate) {
  const Owned<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> out;
  const int count = names == nullptr ? 0 : sk_GENERAL_NAME_num(names.get());
  for (int i = 0; i < count && std::ssize(out) < kNamesShown; ++i) {
    const GENERAL_NAME& name = *sk_GENERAL_NAME_value(names.get(), i);
    if (name.type == GEN_DNS) {
      const ASN1_STRING* const text = name.d.dNSName;
      out.emplace_back(
          reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          ASN1_STRING_length(text));
    } else if (name.type == GEN_IPADD) {
      const ASN1_STRING* const bytes = name.d.iPAddress;
      char text[INET6_ADDRSTRLEN] = "";
      ::inet_ntop(ASN1_STRING_length(bytes) == 4 ? AF_INET : AF_INET6,
                  ASN1_STRING_get0_data(bytes), text, sizeof(text));
      out.emplace_back(text);
    }
  }
  if (out.empty()) return "no name";
  return fmt::format("{}{}", fmt::join(out, ", "),
                     count > kNamesShown ? ", ..." : "");
}

std::string TextOf(const ASN1_TIME* time) {
  tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return "an invalid time";
  return pem::TimeText(::timegm(&fields));
}

// OpenSSL may write to a closed socket, which must not end the process.
class WithoutSigpipe {
 public:
  WithoutSigpipe() = default;
  ~WithoutSigpipe() { std::signal(SIGPIPE, before_); }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  void (*const before_)(int) = std::signal(SIGPIPE, SIG_IGN);
};

// Repeats an attempt on a connected socket to find where it fails: performs the
// TLS handshake without any check, checks the certificate of the daemon itself,
// and checks whether the daemon accepts the client's certificate. If the
// attempt was without TLS, only checks whether the daemon uses TLS.
class Probe {
 public:
  Probe(const TlsAttempt& attempt, HostPort to, int fd,
        Clock::time_point deadline)
      : attempt_(attempt),
        to_(std::move(to)),
        fd_(fd),
        deadline_(deadline),
        context_(SSL_CTX_new(TLS_client_method())) {}

  std::string Run() {
    if (context_ == nullptr || !SetUp()) return "";
    const int result = Drive([this] { return SSL_connect(ssl_.get()); });
    if (!attempt_.tls) return WhyPlainTextFails(result);
    if (result != 1) return WhyHandshakeFails();
    const std::string distrust = WhyNotTrusted();
    return distrust.empty() ? WhyRefused() : distrust;
  }

 private:
  bool SetUp() {
    SSL_CTX* const context = context_.get();
    // Checked afterwards, so that the handshake can complete.
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
    if (attempt_.ca_pem.empty()) {
      SSL_CTX_set_default_verify_paths(context);
    }
    for (const Owned<X509>& authority : Certificates(attempt_.ca_pem)) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get());
    }
    const std::vector<Owned<X509>> own = Certificates(attempt_.cert_pem);
    if (!own.empty()) {
      SSL_CTX_use_certificate(context, own.front().get());
      for (size_t i = 1; i < own.size(); ++i) {
        SSL_CTX_add1_chain_cert(context, own[i].get());
      }
      const Owned<BIO> bio(BIO_new_mem_buf(
          attempt_.key_pem.data(), static_cast<int>(attempt_.key_pem.size())));
      const Owned<EVP_PKEY> key(
          PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
      if (key != nullptr) SSL_CTX_use_PrivateKey(context, key.get());
    }
    ssl_.reset(SSL_new(context));
    if (ssl_ == nullptr) return false;
    SSL_set_cert_cb(
        ssl_.get(),
        [](SSL* /*ssl*/, void* was_asked) {
          *static_cast<bool*>(was_asked) = true;
          return 1;
        },
        &was_asked_);
    SSL_set_alpn_protos(ssl_.get(), kProtocols, sizeof(kProtocols));
    X509_VERIFY_PARAM* const checks = SSL_get0_param(ssl_.get());
    if (IsAddress(to_.host)) {
      X509_VERIFY_PARAM_set1_ip_asc(checks, to_.host.c_str());
    } else {
      X509_VERIFY_PARAM_set1_host(checks, to_.host.c_str(), to_.host.size());
      SSL_set_tlsext_host_name(ssl_.get(), to_.host.c_str());
    }
    return SSL_set_fd(ssl_.get(), fd_) == 1;
  }

  // Repeats a step of OpenSSL until it is done or fails. Returns its last
  // result.
  template <typename Step>
  int Drive(const Step& step) {
    while (true) {
      ERR_clear_error();
      const int result = step();
      if (result > 0) return result;
      const int why = SSL_get_error(ssl_.get(), result);
      const bool reads = why == SSL_ERROR_WANT_READ;
      if (!reads && why != SSL_ERROR_WANT_WRITE) return result;
      if (!Await(fd_, reads ? POLLIN : POLLOUT, deadline_)) {
        is_late_ = true;
        return result;
      }
    }
  }

  // True if the other side has sent what only TLS sends.
  bool HasGreeted() const {
    return SSL_get0_peer_certificate(ssl_.get()) != nullptr ||
           AlertOf(LastReason()) >= 0;
  }

  static int LastReason() { return ERR_GET_REASON(ERR_peek_last_error()); }
  // The alert that the other side sent; negative if it did not.
  static int AlertOf(int reason) {
    return reason >= SSL_AD_REASON_OFFSET ? reason - SSL_AD_REASON_OFFSET : -1;
  }

  std::string WhyPlainTextFails(int result) const {
    if (result != 1 && !HasGreeted()) return "";
    return "the daemon requires TLS: use --ca-file FILE, or --tls to trust the "
           "CAs of the system";
  }

  std::string WhyHandshakeFails() const {
    if (is_late_) return "";
    const int reason = LastReason();
    if (AlertOf(reason) >= 0) return RefusalText();
    if (!HasGreeted()) {
      return "no TLS answer: the daemon closed the connection because too many "
             "are open, or because this is not a TLS address of a daemon. See "
             "the log of the daemon";
    }
    return ReasonText();
  }

  static std::string ReasonText() {
    const char* const text = ERR_reason_error_string(ERR_peek_last_error());
    return fmt::format("TLS: {}", text == nullptr ? "no handshake" : text);
  }

  std::string WhyNotTrusted() const {
    const long verdict = SSL_get_verify_result(ssl_.get());
    X509* const shown = SSL_get0_peer_certificate(ssl_.get());
    if (verdict == X509_V_OK || shown == nullptr) return "";
    switch (verdict) {
      case X509_V_ERR_CERT_HAS_EXPIRED:
        return fmt::format(
            "the certificate of the daemon, or of its CA, has expired: it was "
            "valid until {}",
            TextOf(X509_get0_notAfter(shown)));
      case X509_V_ERR_CERT_NOT_YET_VALID:
        return fmt::format(
            "the certificate of the daemon is not valid before {}",
            TextOf(X509_get0_notBefore(shown)));
      case X509_V_ERR_INVALID_PURPOSE:
        return "the certificate of the daemon is not for servers: its extended "
               "key usage is different";
      case X509_V_ERR_HOSTNAME_MISMATCH:
      case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return fmt::format(
            "the certificate of the daemon is for {}, and not "
            "for {}",
            NamesOf(shown), to_.host);
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
      case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return attempt_.ca_file.empty()
                   ? "the system does not trust the CA of the daemon's "
                     "certificate: use --ca-file FILE"
                   : fmt::format(
                         "the certificate of the daemon was not signed by a CA "
                         "in {}",
                         attempt_.ca_file);
      default:
        return fmt::format("the certificate of the daemon: {}",
                           X509_verify_cert_error_string(verdict));
    }
  }

  // With TLS 1.3 the other side checks our certificate after the handshake.
  std::string WhyRefused() {
    Drive([this] {
      return SSL_write(ssl_.get(), kGreeting.data(),
                       static_cast<int>(kGreeting.size()));
    });
    char ignored = 0;
    const int result = Drive([&] { return SSL_read(ssl_.get(), &ignored, 1); });
    return result > 0 || is_late_ ? "" : RefusalText();
  }

  // A daemon need not say what it rejects about a certificate: gRPC just closes
  // the connection.
  std::string RefusalText() const {
    // Read first: any other call of OpenSSL may clear it.
    const std::string alert =
        AlertOf(LastReason()) >= 0 ? ReasonText() : std::string();
    if (!was_asked_) return alert;
    const std::vector<Owned<X509>> own = Certificates(attempt_.cert_pem);
    if (own.empty()) {
      return "the daemon requires a certificate: use --cert-file and "
             "--key-file";
    }
    X509* const shown = own.front().get();
    if (X509_cmp_current_time(X509_get0_notAfter(shown)) < 0) {
      return fmt::format("the daemon rejects {}: it was valid until {}",
                         attempt_.cert_file, TextOf(X509_get0_notAfter(shown)));
    }
    if (X509_check_purpose(shown, X509_PURPOSE_SSL_CLIENT, 0) != 1) {
      return fmt::format(
          "the daemon rejects {}: it is not for clients, its extended key "
          "usage is different",
          attempt_.cert_file);
    }
    if (std::none_of(own.begin(), own.end(), [this](const Owned<X509>& link) {
          return IsOfNamedAuthority(link.get());
        })) {
      return fmt::format(
          "the daemon rejects {}: its CA is not in tls_client_ca",
          attempt_.cert_file);
    }
    return fmt::format("the daemon rejects {}{}{}", attempt_.cert_file,
                       alert.empty() ? "" : ": ", alert);
  }

  // True if the issuer of `certificate` is an authority that the daemon names.
  bool IsOfNamedAuthority(X509* certificate) const {
    const auto* const names = SSL_get0_peer_CA_list(ssl_.get());
    for (int i = 0; i < sk_X509_NAME_num(names); ++i) {
      if (X509_NAME_cmp(sk_X509_NAME_value(names, i),
                        X509_get_issuer_name(certificate)) == 0) {
        return true;
      }
    }
    return false;
  }

  const TlsAttempt& attempt_;
  const HostPort to_;
  const int fd_;
  const Clock::time_point deadline_;
  const Owned<SSL_CTX> context_;
  Owned<SSL> ssl_;
  bool is_late_ = false;
  bool was_asked_ = false;  // The daemon asked for a certificate.
};

}  // namespace

std::string WhyTlsFails(const TlsAttempt& attempt, Clock::time_point deadline) {
  HostPort to = Split(attempt.endpoint);
  const UniqueFd fd = Connect(to, deadline);
  if (!fd.valid()) return "";
  const WithoutSigpipe without_sigpipe;
  return Probe(attempt, std::move(to), fd.get(), deadline).Run();
}

}  // namespace msitd::ask
