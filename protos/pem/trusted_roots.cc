// SPDX-License-Identifier: Apache-2.0
#include "protos/pem/trusted_roots.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

namespace msitd::pem {
namespace {

constexpr std::string_view kFiles[] = {
    "/etc/ssl/certs/ca-certificates.crt",  // Debian, Ubuntu, Arch, Gentoo.
    "/etc/pki/tls/certs/ca-bundle.crt",    // Red Hat, Fedora, openEuler.
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // The same, newer.
    "/etc/ssl/ca-bundle.pem",                             // SUSE.
    "/var/lib/ca-certificates/ca-bundle.pem",             // SUSE, newer.
    "/etc/ssl/cert.pem",                                  // Alpine.
    "/etc/pki/tls/cacert.pem",                            // OpenELEC.
};

constexpr std::string_view kFolders[] = {
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
};

// A file that is empty or not accessible must not hide the next one.
bool IsUsableFile(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_size > 0 && ::access(path.c_str(), R_OK) == 0;
}

bool HasEntries(const std::string& path) {
  DIR* const folder = ::opendir(path.c_str());
  if (folder == nullptr) return false;
  bool has_entries = false;
  // The stream is used by this thread only.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  while (const dirent* const entry = ::readdir(folder)) {
    const std::string_view name(entry->d_name);
    has_entries = has_entries || (name != "." && name != "..");
  }
  ::closedir(folder);
  return has_entries;
}

}  // namespace

TrustedRoots FindTrustedRoots(
    const std::function<std::string(const char*)>& variable,
    const std::string& root) {
  TrustedRoots out{variable("SSL_CERT_FILE"), variable("SSL_CERT_DIR")};
  if (!out.file.empty() || !out.folders.empty()) return out;
  for (const std::string_view file : kFiles) {
    std::string path = root + std::string(file);
    if (!IsUsableFile(path)) continue;
    out.file = std::move(path);
    return out;
  }
  for (const std::string_view folder : kFolders) {
    std::string path = root + std::string(folder);
    if (!HasEntries(path)) continue;
    out.folders = std::move(path);
    return out;
  }
  return out;
}

TrustedRoots FindTrustedRoots() {
  return FindTrustedRoots([](const char* name) -> std::string {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): see the header.
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
  });
}

}  // namespace msitd::pem
