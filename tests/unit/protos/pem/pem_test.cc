// SPDX-License-Identifier: Apache-2.0
#include "protos/pem/pem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <fstream>
#include <memory>
#include <string>

#include "protos/status/status.h"
#include "tests/support/temp_dir.h"

namespace msitd::pem {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kFirst = 1'700'000'000;
constexpr int64_t kLast = 2'000'000'000;

// A key and its certificate, as text.
class Identity {
 public:
  Identity() : key_(EVP_EC_gen("P-256"), EVP_PKEY_free) {}

  std::string Key(const char* passphrase = nullptr) const {
    return TextOf([&](BIO* bio) {
      const EVP_CIPHER* cipher =
          passphrase == nullptr ? nullptr : EVP_aes_128_cbc();
      return PEM_write_bio_PKCS8PrivateKey(bio, key_.get(), cipher, passphrase,
                                           passphrase == nullptr ? 0 : 6,
                                           nullptr, nullptr);
    });
  }

  std::string Certificate() const {
    const std::unique_ptr<X509, decltype(&X509_free)> out(X509_new(),
                                                          X509_free);
    ASN1_TIME_set(X509_getm_notBefore(out.get()), kFirst);
    ASN1_TIME_set(X509_getm_notAfter(out.get()), kLast);
    X509_set_pubkey(out.get(), key_.get());
    X509_sign(out.get(), key_.get(), EVP_sha256());
    return TextOf([&](BIO* bio) { return PEM_write_bio_X509(bio, out.get()); });
  }

 private:
  template <typename Write>
  static std::string TextOf(const Write& write) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()),
                                                        BIO_free);
    EXPECT_EQ(write(bio.get()), 1);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    return std::string(data, static_cast<size_t>(size));
  }

  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
};

TEST(PemTest, FirstCertificateSaysWhenItIsValid) {
  const Identity identity;
  const auto found = ReadCertificate("a chain:\n" + identity.Certificate() +
                                     Identity().Certificate());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->first_s, kFirst);
  EXPECT_EQ(found->last_s, kLast);
}

TEST(PemTest, TextWithoutACertificateIsRefused) {
  const std::string whole = Identity().Certificate();
  for (const std::string& text :
       {std::string(), std::string("-----BEGIN CERTIFICATE-----\n"),
        whole.substr(0, whole.size() / 2), Identity().Key()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadCertificate(text).status()));
  }
}

TEST(PemTest, KeyFitsItsCertificateOnly) {
  const Identity identity;
  const std::string certificate = identity.Certificate();
  EXPECT_TRUE(CheckKey(identity.Key(), certificate).ok());
  const absl::Status other = CheckKey(Identity().Key(), certificate);
  EXPECT_THAT(Message(other), HasSubstr("does not fit"));
}

TEST(PemTest, KeyIsRefusedInItsOwnWords) {
  const Identity identity;
  const std::string certificate = identity.Certificate();
  EXPECT_EQ(Message(CheckKey(certificate, certificate)),
            "no PEM private key is in it");
  // This must not prompt on the terminal.
  EXPECT_THAT(Message(CheckKey(identity.Key("secret"), certificate)),
              HasSubstr("has a passphrase"));
}

TEST(PemTest, FilesThatCannotBeReadAreErrors) {
  const testing::TempDir directory;
  const std::string path = directory.path() + "/file";
  EXPECT_EQ(ReadFile(path).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(path).flush();
  EXPECT_EQ(Message(ReadFile(path).status()), "read " + path + ": it is empty");
  std::ofstream(path) << "text";
  EXPECT_EQ(*ReadFile(path), "text");
  EXPECT_THAT(Message(ReadFile(directory.path()).status()),
              HasSubstr("Is a directory"));
}

TEST(PemTest, TimesAreUtc) {
  EXPECT_EQ(TimeText(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(TimeText(kFirst), "2023-11-14T22:13:20Z");
}

}  // namespace
}  // namespace msitd::pem
