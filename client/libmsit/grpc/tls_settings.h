// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

namespace msitd::libmsit {

// Encryption of connections, as defined by environment variables:
//
//   MSITD_TLS        1: encrypt, and trust the certificates of the system
//   MSITD_CA_FILE    trust these PEM certificates instead (implies MSITD_TLS)
//   MSITD_CERT_FILE  send this PEM certificate to a daemon that requests one
//   MSITD_KEY_FILE   the key of MSITD_CERT_FILE (both imply MSITD_TLS)
//
// These are environment variables instead of options because, like the
// endpoint, they are set from outside the job.
struct TlsSettings {
  bool is_on = false;
  std::string ca_file;
  std::string cert_file;
  std::string key_file;

  static TlsSettings FromEnvironment();
};

// Reads the files. Returns null and sets `error` if a file is missing or empty.
std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(
    const TlsSettings& settings, std::string* error);

}  // namespace msitd::libmsit
