// SPDX-License-Identifier: Apache-2.0
#include "protos/pem/pem.h"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cerrno>
#include <ctime>
#include <fstream>
#include <memory>
#include <sstream>

#include "protos/status/status.h"

namespace msitd::pem {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Owned<BIO> Open(std::string_view text) {
  return Owned<BIO>(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Replaces the callback of OpenSSL, which would prompt on the terminal.
int RefusePassphrase(char* /*buffer*/, int /*size*/, int /*writes*/,
                     void* was_asked) {
  *static_cast<bool*>(was_asked) = true;
  return -1;
}

// An entry that stays in the thread's error queue would be reported as the next
// error.
absl::Status Invalid(const char* what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<Owned<X509>> ParseCertificate(std::string_view text) {
  const Owned<BIO> bio = Open(text);
  Owned<X509> out(PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr));
  if (out == nullptr) return Invalid("no PEM certificate is in it");
  return out;
}

int64_t ToUnixTime(const ASN1_TIME* time) {
  tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return 0;
  return ::timegm(&fields);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  // An iterator would throw for a directory, which can be opened but not read.
  std::ostringstream text;
  text << file.rdbuf();
  if (file.is_open() && !text.fail()) return text.str();
  if (errno != 0) return ErrnoStatus(errno, "read " + path);
  return MakeStatus(absl::StatusCode::kFailedPrecondition,
                    "read {}: it is empty", path);
}

absl::StatusOr<Certificate> ReadCertificate(std::string_view text) {
  MSITD_ASSIGN_OR_RETURN(const Owned<X509> certificate, ParseCertificate(text));
  return Certificate{ToUnixTime(X509_get0_notBefore(certificate.get())),
                     ToUnixTime(X509_get0_notAfter(certificate.get()))};
}

absl::Status CheckKey(std::string_view key, std::string_view certificate) {
  MSITD_ASSIGN_OR_RETURN(const Owned<X509> owner,
                         ParseCertificate(certificate));
  const Owned<BIO> bio = Open(key);
  bool has_passphrase = false;
  const Owned<EVP_PKEY> parsed(PEM_read_bio_PrivateKey(
      bio.get(), nullptr, RefusePassphrase, &has_passphrase));
  if (has_passphrase) return Invalid("the private key in it has a passphrase");
  if (parsed == nullptr) return Invalid("no PEM private key is in it");
  if (X509_check_private_key(owner.get(), parsed.get()) == 1) {
    return absl::OkStatus();
  }
  return Invalid("the private key in it does not fit the certificate");
}

std::string TimeText(int64_t time_s) {
  const time_t time = time_s;
  tm fields{};
  char text[32] = "";
  if (::gmtime_r(&time, &fields) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &fields);
  }
  return text;
}

}  // namespace msitd::pem
