// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/certificate_watch.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <utility>

#include "protos/pem/pem.h"

namespace msitd::server {

CertificateWatch::CertificateWatch(std::string path, std::string name)
    : path_(std::move(path)), name_(std::move(name)) {}

void CertificateWatch::Read() {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0) return;
  const int64_t time_ns =
      info.st_mtim.tv_sec * kNsPerSecond + info.st_mtim.tv_nsec;
  if (time_ns == read_time_ns_) return;
  const auto text = pem::ReadFile(path_);
  if (!text.ok()) return;
  const auto certificate = pem::ReadCertificate(*text);
  if (!certificate.ok()) return;
  read_time_ns_ = time_ns;
  last_s_ = certificate->last_s;
  next_ = {};
}

std::string CertificateWatch::Check(Clock::time_point now) {
  constexpr int64_t kSecondsPerDay = 24 * 3600;
  if (path_.empty()) return "";
  Read();
  if (last_s_ == 0 || now < next_) return "";
  next_ = now + kInterval;
  const int64_t left_s = last_s_ - Clock::to_time_t(now);
  if (left_s > kDaysAhead * kSecondsPerDay) return "";
  if (left_s <= 0) {
    return fmt::format(
        "certificate expired file={} at={}: no client connects any more", name_,
        pem::TimeText(last_s_));
  }
  return fmt::format("certificate expires file={} at={} days_left={}", name_,
                     pem::TimeText(last_s_), left_s / kSecondsPerDay);
}

}  // namespace msitd::server
