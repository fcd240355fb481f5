// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/s3_credentials.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "protos/os/unique_fd.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr size_t kFileBytesMax = 4096;

std::string FromEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\"";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "stat " + path);
  if (!S_ISREG(info.st_mode) || (info.st_mode & 077) != 0 ||
      (info.st_uid != ::geteuid() && info.st_uid != 0)) {
    return MakeStatus(absl::StatusCode::kPermissionDenied,
                      "{} holds a key, so it must be a file of the daemon's "
                      "user or of root that nobody else can read: chmod 600",
                      path);
  }
  std::string text(kFileBytesMax + 1, '\0');
  const ssize_t count = ::read(fd.get(), text.data(), text.size());
  if (count < 0) return ErrnoStatus(errno, "read " + path);
  text.resize(static_cast<size_t>(count));
  return text;
}

}  // namespace

absl::StatusOr<S3Credentials> ReadS3Credentials(const std::string& file) {
  S3Credentials out;
  if (file.empty()) {
    out.access_key = FromEnvironment("AWS_ACCESS_KEY_ID");
    out.secret_key = FromEnvironment("AWS_SECRET_ACCESS_KEY");
    if (out.access_key.empty() != out.secret_key.empty()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY one is "
                        "set and one is not");
    }
    return out;
  }
  MSITD_ASSIGN_OR_RETURN(const std::string text, ReadPrivateFile(file));
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string_view whole = Trimmed(line);
    if (whole.empty() || whole[0] == '#' || whole[0] == '[') continue;
    const size_t sign = whole.find('=');
    const std::string_view key = Trimmed(whole.substr(0, sign));
    std::string* value = nullptr;
    if (key == "access_key" || key == "aws_access_key_id") {
      value = &out.access_key;
    }
    if (key == "secret_key" || key == "aws_secret_access_key") {
      value = &out.secret_key;
    }
    if (sign == std::string_view::npos || value == nullptr) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{}:{}: neither access_key = ... nor secret_key = ...",
                        file, number);
    }
    *value = Trimmed(whole.substr(sign + 1));
  }
  if (out.access_key.empty() || out.secret_key.empty() ||
      text.size() > kFileBytesMax) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "{} lacks access_key = ... or secret_key = ..., or has "
                      "more than {} bytes",
                      file, kFileBytesMax);
  }
  return out;
}

}  // namespace msitd::storage
