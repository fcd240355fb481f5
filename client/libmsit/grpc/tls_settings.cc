// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/grpc/tls_settings.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace msitd::libmsit {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool ReadPem(const std::string& path, std::string* pem, std::string* error) {
  if (path.empty()) return true;
  std::ifstream file(path, std::ios::binary);
  // An iterator would throw for a directory, which can be opened but not read.
  std::ostringstream text;
  text << file.rdbuf();
  *pem = text.str();
  if (!pem->empty()) return true;
  *error = "cannot read " + path + ", or it is empty";
  return false;
}

}  // namespace

TlsSettings TlsSettings::FromEnvironment() {
  TlsSettings out;
  out.ca_file = Variable("MSITD_CA_FILE");
  out.cert_file = Variable("MSITD_CERT_FILE");
  out.key_file = Variable("MSITD_KEY_FILE");
  out.is_on = Variable("MSITD_TLS") == "1" || !out.ca_file.empty() ||
              !out.cert_file.empty() || !out.key_file.empty();
  return out;
}

std::shared_ptr<grpc::ChannelCredentials> MakeCredentials(
    const TlsSettings& settings, std::string* error) {
  if (!settings.is_on) return grpc::InsecureChannelCredentials();
  if (settings.cert_file.empty() != settings.key_file.empty()) {
    *error = "MSITD_CERT_FILE and MSITD_KEY_FILE must be set together";
    return nullptr;
  }
  grpc::SslCredentialsOptions options;
  if (!ReadPem(settings.ca_file, &options.pem_root_certs, error) ||
      !ReadPem(settings.cert_file, &options.pem_cert_chain, error) ||
      !ReadPem(settings.key_file, &options.pem_private_key, error)) {
    return nullptr;
  }
  return grpc::SslCredentials(options);
}

}  // namespace msitd::libmsit
