// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/tls_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/log/log.h"
#include "protos/pem/pem.h"
#include "protos/status/status.h"

namespace msitd::server {
namespace {

// Replaces the file behind `fd`, which may be open, with a file that contains
// `text`. Takes effect immediately for code that opens the file by its
// descriptor number.
absl::Status Replace(const std::string& text, UniqueFd& fd) {
  UniqueFd file(::memfd_create("msitd-tls", MFD_CLOEXEC));
  if (!file.valid() || ::write(file.get(), text.data(), text.size()) !=
                           static_cast<ssize_t>(text.size())) {
    return ErrnoStatus(errno, "keep a copy of a TLS file");
  }
  if (!fd.valid()) {
    fd = std::move(file);
  } else if (::dup3(file.get(), fd.get(), O_CLOEXEC) < 0) {
    return ErrnoStatus(errno, "keep a copy of a TLS file");
  }
  return absl::OkStatus();
}

std::string PathOf(const UniqueFd& fd) {
  return fd.valid() ? fmt::format("/proc/self/fd/{}", fd.get()) : "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsFiles>> TlsFiles::Open(Paths paths) {
  auto out = std::unique_ptr<TlsFiles>(new TlsFiles(std::move(paths)));
  MSITD_ASSIGN_OR_RETURN(Content content, out->Read());
  MSITD_RETURN_IF_ERROR(out->Publish(std::move(content)));
  return out;
}

std::string TlsFiles::own_copy() const { return PathOf(own_); }

std::string TlsFiles::client_ca_copy() const { return PathOf(client_ca_); }

absl::StatusOr<TlsFiles::Content> TlsFiles::Read() const {
  MSITD_ASSIGN_OR_RETURN(const std::string chain,
                         pem::ReadFile(paths_.certificate));
  MSITD_ASSIGN_OR_RETURN(const std::string key, pem::ReadFile(paths_.key));
  const absl::Status is_certificate = pem::ReadCertificate(chain).status();
  if (!is_certificate.ok()) {
    return Annotate(is_certificate, fmt::format("{}cert {}", paths_.prefix,
                                                paths_.certificate));
  }
  const std::string key_name =
      fmt::format("{}key {}", paths_.prefix, paths_.key);
  const absl::Status fits = pem::CheckKey(key, chain);
  if (!fits.ok()) return Annotate(fits, key_name);
  Content out{key + "\n" + chain, ""};
  // The key file may contain certificates of its own, which then come first.
  const absl::Status is_pair = pem::CheckKey(out.own, out.own);
  if (!is_pair.ok()) return Annotate(is_pair, key_name);
  if (paths_.client_ca.empty()) return out;
  MSITD_ASSIGN_OR_RETURN(out.client_ca, pem::ReadFile(paths_.client_ca));
  const absl::Status is_authority =
      pem::ReadCertificate(out.client_ca).status();
  if (is_authority.ok()) return out;
  return Annotate(is_authority, fmt::format("{}client_ca {}", paths_.prefix,
                                            paths_.client_ca));
}

absl::Status TlsFiles::Publish(Content content) {
  // OpenSSL has rules in addition to those of Read, such as the minimum length
  // of keys.
  auto context = metrics::TlsContext::Create(content);
  if (!context.ok()) {
    return Annotate(context.status(), fmt::format("{}cert {}", paths_.prefix,
                                                  paths_.certificate));
  }
  MSITD_RETURN_IF_ERROR(Replace(content.own, own_));
  if (!paths_.client_ca.empty()) {
    MSITD_RETURN_IF_ERROR(Replace(content.client_ca, client_ca_));
  }
  content_ = std::move(content);
  context_ = *std::move(context);
  return absl::OkStatus();
}

std::string TlsFiles::Reload(Clock::time_point now) {
  next_ = {};
  problem_.clear();
  (void)Refresh(now);
  return problem_;
}

bool TlsFiles::Refresh(Clock::time_point now) {
  if (now < next_) return false;
  next_ = now + kInterval;
  absl::StatusOr<Content> content = Read();
  absl::Status status = content.status();
  if (status.ok() && *content == content_) {
    problem_.clear();
    return false;
  }
  if (status.ok()) status = Publish(*std::move(content));
  if (status.ok()) {
    problem_.clear();
    log::Get("server")->info("TLS files have changed certificate={}",
                             paths_.certificate);
    return true;
  }
  const std::string problem(Message(status));
  if (problem == problem_ && now < warn_time_) return false;
  problem_ = problem;
  warn_time_ = now + kWarnInterval;
  log::Get("server")->warn(
      "TLS files are no good, those before stay in use reason='{}'", problem);
  return false;
}

}  // namespace msitd::server
