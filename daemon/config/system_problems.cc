// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "daemon/config/problems.h"
#include "protos/pem/pem.h"
#include "protos/status/status.h"

namespace msitd::config {
namespace {

using Problems = std::vector<KeyProblem>;

// A file of a configuration is smaller.
constexpr std::streamsize kFileBytesMax = 1 << 20;

void AddProblem(Problems& out, std::string_view key, std::string text) {
  out.push_back({std::string(key), std::move(text)});
}

std::string ErrorText(int error, const std::string& what) {
  return std::string(Message(ErrnoStatus(error, what)));
}

// Adds a problem and returns an empty text if the file cannot be read.
std::string ReadFile(std::string_view key, const std::string& path,
                     Problems& out) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    AddProblem(out, key, ErrorText(errno, "read " + path));
    return "";
  }
  if (!S_ISREG(info.st_mode)) {
    AddProblem(out, key, path + " is not a file");
    return "";
  }
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) {
    AddProblem(out, key, ErrorText(errno, "read " + path));
    return "";
  }
  std::string text(static_cast<size_t>(kFileBytesMax), '\0');
  file.read(text.data(), kFileBytesMax);
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.empty()) AddProblem(out, key, path + " is empty");
  return text;
}

// Returns the text of a certificate file; empty if there is none or a problem.
std::string CheckCertificate(std::string_view key, const std::string& path,
                             Problems& out) {
  if (path.empty()) return "";
  std::string text = ReadFile(key, path, out);
  if (text.empty()) return "";
  const auto certificate = pem::ReadCertificate(text);
  if (!certificate.ok()) {
    AddProblem(out, key,
               fmt::format("{}: {}", path, Message(certificate.status())));
    return "";
  }
  return text;
}

void CheckKey(std::string_view key, const std::string& path,
              const std::string& certificate, Problems& out) {
  if (path.empty()) return;
  const std::string text = ReadFile(key, path, out);
  if (text.empty() || certificate.empty()) return;
  const absl::Status status = pem::CheckKey(text, certificate);
  if (status.ok()) return;
  AddProblem(out, key, fmt::format("{}: {}", path, Message(status)));
}

// A directory that exists must be writable. Otherwise its parent must be, in
// which it is created.
void CheckDirectory(std::string_view key, const std::string& path,
                    Problems& out) {
  if (path.empty()) return;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode)) {
      AddProblem(out, key, path + " is not a directory");
    } else if (::access(path.c_str(), W_OK | X_OK) != 0) {
      AddProblem(out, key, ErrorText(errno, "write to " + path));
    }
    return;
  }
  if (errno != ENOENT)
    return AddProblem(out, key, ErrorText(errno, "open " + path));
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(path, ignored);
  // `a/b/` has the parent `a`.
  const std::string parent =
      absolute.has_filename() ? absolute.parent_path().string()
                              : absolute.parent_path().parent_path().string();
  if (::access(parent.c_str(), W_OK | X_OK) != 0) {
    AddProblem(out, key,
               fmt::format("{} does not exist and cannot be created: {}", path,
                           ErrorText(errno, "write to " + parent)));
  }
}

void CheckGroups(std::string_view key, const std::vector<std::string>& groups,
                 Problems& out) {
  for (const std::string& name : groups) {
    const bool is_number =
        !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
          return c >= '0' && c <= '9';
        });
    // The only thread.
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    if (is_number || ::getgrnam(name.c_str()) != nullptr) continue;
    AddProblem(out, key, fmt::format("there is no group '{}'", name));
  }
}

bool IsSet(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the only thread.
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

void CheckArchives(const DaemonConfig& config, Problems& out) {
  CheckCertificate("archive_s3_ca_file", config.archive_s3_ca_file, out);
  if (!config.archive_credentials_file.empty()) {
    ReadFile("archive_credentials_file", config.archive_credentials_file, out);
    return;
  }
  std::vector<std::string> archives = config.archives;
  archives.push_back(config.archive_url);
  const bool uses_s3 = std::any_of(
      archives.begin(), archives.end(),
      [](const std::string& url) { return url.starts_with("s3://"); });
  if (!uses_s3) return;
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}) {
    if (IsSet(name)) continue;
    AddProblem(
        out, "archives",
        fmt::format("s3:// archives need archive_credentials_file, or {} in "
                    "the environment of the daemon",
                    name));
  }
}

}  // namespace

Problems FindSystemProblems(const DaemonConfig& config) {
  Problems out;
  CheckDirectory("data_dir", config.data_dir, out);
  CheckDirectory("socket_dir", config.socket_dir, out);
  const std::string own = CheckCertificate("tls_cert", config.tls_cert, out);
  CheckKey("tls_key", config.tls_key, own, out);
  CheckCertificate("tls_client_ca", config.tls_client_ca, out);
  const std::string metrics =
      CheckCertificate("metrics_tls_cert", config.metrics_tls_cert, out);
  CheckKey("metrics_tls_key", config.metrics_tls_key, metrics, out);
  CheckCertificate("metrics_tls_client_ca", config.metrics_tls_client_ca, out);
  CheckCertificate("peer_ca_file", config.peer_ca_file, out);
  const std::string peer = CheckCertificate("peer_certificate_file",
                                            config.peer_certificate_file, out);
  CheckKey("peer_key_file", config.peer_key_file, peer, out);
  if (!config.metrics_token_file.empty()) {
    ReadFile("metrics_token_file", config.metrics_token_file, out);
  }
  if (!config.audit_file.empty()) {
    const std::string folder =
        std::filesystem::path(config.audit_file).parent_path().string();
    CheckDirectory("audit_file", folder.empty() ? "." : folder, out);
  }
  CheckGroups("admin_groups", config.admin_groups, out);
  CheckGroups("writer_groups", config.writer_groups, out);
  CheckGroups("reader_groups", config.reader_groups, out);
  CheckArchives(config, out);
  return out;
}

}  // namespace msitd::config
