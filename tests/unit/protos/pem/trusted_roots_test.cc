// SPDX-License-Identifier: Apache-2.0
#include "protos/pem/trusted_roots.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/support/temp_dir.h"

namespace msitd::pem {
namespace {

// The file system of another distribution.
class TrustedRootsTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text = "PEM") {
    const std::string full = root_.path() + path;
    std::filesystem::create_directories(
        std::filesystem::path(full).parent_path());
    std::ofstream(full) << text;
  }

  TrustedRoots Find() {
    return FindTrustedRoots(
        [this](const char* name) -> std::string {
          const auto it = variables_.find(name);
          return it == variables_.end() ? "" : it->second;
        },
        root_.path());
  }

  TrustedRoots File(const std::string& path) {
    return {root_.path() + path, ""};
  }

  testing::TempDir root_;
  std::map<std::string, std::string> variables_;
};

TEST_F(TrustedRootsTest, EachDistributionHasItsFile) {
  for (const char* path :
       {"/etc/ssl/cert.pem", "/var/lib/ca-certificates/ca-bundle.pem",
        "/etc/ssl/ca-bundle.pem",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/certs/ca-certificates.crt"}) {
    // Each one precedes those that were written before it.
    Write(path);
    EXPECT_EQ(Find(), File(path));
  }
}

TEST_F(TrustedRootsTest, WithoutAnyThereIsNothing) {
  EXPECT_EQ(Find(), TrustedRoots());
  std::filesystem::create_directories(root_.path() + "/etc/ssl/certs");
  EXPECT_EQ(Find(), TrustedRoots());
}

TEST_F(TrustedRootsTest, AFileThatIsOfNoUseDoesNotHideTheNext) {
  Write("/etc/ssl/certs/ca-certificates.crt", "");
  std::filesystem::create_directories(root_.path() +
                                      "/etc/pki/tls/certs/ca-bundle.crt");
  Write("/etc/ssl/ca-bundle.pem");
  EXPECT_EQ(Find(), File("/etc/ssl/ca-bundle.pem"));
  // A link that leads nowhere, as an incomplete container image has.
  std::filesystem::remove(root_.path() + "/etc/ssl/ca-bundle.pem");
  ASSERT_EQ(::symlink("/no/such/file",
                      (root_.path() + "/etc/ssl/ca-bundle.pem").c_str()),
            0);
  Write("/etc/ssl/cert.pem");
  EXPECT_EQ(Find(), File("/etc/ssl/cert.pem"));
}

TEST_F(TrustedRootsTest, AFolderIsUsedIfThereIsNoFile) {
  Write("/etc/ssl/certs/4042bcee.0");
  EXPECT_EQ(Find(), (TrustedRoots{"", root_.path() + "/etc/ssl/certs"}));
  Write("/etc/ssl/cert.pem");
  EXPECT_EQ(Find(), File("/etc/ssl/cert.pem"));
}

TEST_F(TrustedRootsTest, VariablesReplaceTheUsualPlaces) {
  Write("/etc/ssl/cert.pem");
  variables_["SSL_CERT_FILE"] = "/mine.pem";
  EXPECT_EQ(Find(), (TrustedRoots{"/mine.pem", ""}));
  variables_["SSL_CERT_DIR"] = "/a:/b";
  EXPECT_EQ(Find(), (TrustedRoots{"/mine.pem", "/a:/b"}));
  variables_["SSL_CERT_FILE"] = "";
  EXPECT_EQ(Find(), (TrustedRoots{"", "/a:/b"}));
  variables_["SSL_CERT_DIR"] = "";
  EXPECT_EQ(Find(), File("/etc/ssl/cert.pem"));
}

TEST(ThisSystemTest, HasAFileIfItHasCertificates) {
  const TrustedRoots found = FindTrustedRoots();
  if (std::filesystem::exists("/etc/ssl/certs/ca-certificates.crt")) {
    EXPECT_FALSE(found.file.empty() && found.folders.empty());
  }
}

}  // namespace
}  // namespace msitd::pem
