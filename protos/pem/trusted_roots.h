// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace msitd::pem {

// Where the certificates of the authorities are that this system trusts.
//
// A library for TLS has one such path compiled in, that of the distribution
// that built it. The programs in the wheel run on any distribution, so they
// search the places that distributions use, in the way of Go's crypto/x509.
struct TrustedRoots {
  std::string file;  // PEM; empty if there is none.
  // Folders with certificates under the names of their hashes, separated by
  // colons; empty if the file is sufficient, or if there is none.
  std::string folders;

  friend bool operator==(const TrustedRoots&, const TrustedRoots&) = default;
};

// Finds the certificates. The variables SSL_CERT_FILE and SSL_CERT_DIR, if they
// are set, take precedence over the usual places. Their paths are not checked,
// so that a mistake in them is an error instead of a wider trust.
//
// `variable` returns the value of an environment variable, or empty. `root` is
// prepended to the usual places, for tests.
TrustedRoots FindTrustedRoots(
    const std::function<std::string(const char*)>& variable,
    const std::string& root = "");

// Finds the certificates for this process. Thread-safe as long as no thread
// changes the environment.
TrustedRoots FindTrustedRoots();

}  // namespace msitd::pem
