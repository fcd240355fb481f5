// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/archive_url.h"

#include <algorithm>
#include <optional>

#include "protos/status/status.h"
#include "storage/archive/object_store.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kFileScheme = "file://";
constexpr std::string_view kS3Scheme = "s3://";
constexpr size_t kUrlBytesMax = 1024;
constexpr std::string_view kHex = "0123456789ABCDEF";

bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}

bool IsPlain(char c) {
  return IsLetterOrDigit(c) || c == '.' || c == '_' || c == '-';
}

absl::Status Invalid(std::string_view problem) {
  return WithReason(
      MakeStatus(absl::StatusCode::kInvalidArgument, "{}", problem),
      ErrorReason::kFieldInvalid);
}

// True if no component leads elsewhere.
bool IsPlainPath(std::string_view path) {
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return true;
}

std::optional<int> HexDigit(char c) {
  const size_t at = kHex.find(c);
  if (at == std::string_view::npos) return std::nullopt;
  return static_cast<int>(at);
}

}  // namespace

bool IsObjectKey(std::string_view key) {
  if (key.empty() || key.back() == '/') return false;
  for (size_t i = 0; i < key.size(); ++i) {
    const bool begins = i == 0 || key[i - 1] == '/';
    if (begins ? !IsPlain(key[i]) || key[i] == '.'
               : !IsPlain(key[i]) && key[i] != '/') {
      return false;
    }
  }
  return true;
}

std::string ArchiveUrl::ToString() const {
  if (!is_s3) return fmt::format("{}{}", kFileScheme, path);
  return fmt::format("{}{}{}{}", kS3Scheme, bucket, path.empty() ? "" : "/",
                     path);
}

bool ArchiveUrl::IsWithin(const ArchiveUrl& other) const {
  if (is_s3 != other.is_s3 || bucket != other.bucket) return false;
  const std::string_view top = other.path;
  return top.empty() || path == top ||
         (path.starts_with(top) && path[top.size()] == '/');
}

std::string ArchiveUrl::Below(const ArchiveUrl& other) const {
  std::string_view rest = path;
  rest.remove_prefix(other.path.size());
  if (rest.starts_with('/')) rest.remove_prefix(1);
  return std::string(rest);
}

bool IsUrl(std::string_view text) {
  return text.find("://") != std::string_view::npos;
}

absl::StatusOr<ArchiveUrl> ParseArchiveUrl(std::string_view text) {
  if (text.find_first_of("@?#") != std::string_view::npos) {
    return Invalid(
        "the URL of an archive has no user, no password and no query: keys "
        "belong into archive_credentials_file of the daemon");
  }
  ArchiveUrl url;
  if (text.starts_with(kFileScheme)) {
    url.path = text.substr(kFileScheme.size());
  } else if (text.starts_with(kS3Scheme)) {
    url.is_s3 = true;
    const std::string_view rest = text.substr(kS3Scheme.size());
    const size_t end = std::min(rest.find('/'), rest.size());
    url.bucket = rest.substr(0, end);
    url.path = rest.substr(std::min(end + 1, rest.size()));
  } else {
    return Invalid(
        "the URL of an archive begins with file:///DIRECTORY or "
        "s3://BUCKET/PREFIX");
  }
  while (url.path.ends_with('/')) url.path.pop_back();
  if (text.size() > kUrlBytesMax) {
    return Invalid(fmt::format("the URL of an archive is longer than {} bytes",
                               kUrlBytesMax));
  }
  if (url.is_s3) {
    if (url.bucket.size() < 3 || url.bucket.size() > 63 ||
        !std::all_of(url.bucket.begin(), url.bucket.end(), [](char c) {
          return IsLetterOrDigit(c) || c == '.' || c == '-';
        })) {
      return Invalid("the URL of an archive lacks the name of a bucket");
    }
    if (!url.path.empty() && !IsObjectKey(url.path)) {
      return Invalid(
          "the prefix of an archive has components of [A-Za-z0-9._-], of which "
          "none begins with a dot");
    }
    return url;
  }
  if (!url.path.starts_with('/') ||
      !IsPlainPath(std::string_view(url.path).substr(1)) ||
      url.path.find('\0') != std::string::npos) {
    return Invalid(
        "the directory of an archive is an absolute path other than /, without "
        "`.`, `..` and empty components");
  }
  return url;
}

absl::StatusOr<std::string> RunFolder(std::string_view run) {
  std::string out;
  for (size_t i = 0; i < run.size(); ++i) {
    const char c = run[i];
    const bool is_escape = c == '_' && i + 1 < run.size() && run[i + 1] == 'x';
    if (IsPlain(c) && !is_escape && !(i == 0 && c == '.')) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += {'_', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  if (out.empty() || out.size() > kRunFolderBytesMax) {
    return WithReason(
        MakeStatus(
            absl::StatusCode::kInvalidArgument,
            "run '{}' cannot have a folder of an archive: its name takes "
            "{} bytes there, of at most {}",
            run, out.size(), kRunFolderBytesMax),
        ErrorReason::kNameTooLong);
  }
  return out;
}

std::string RunOfFolder(std::string_view folder) {
  std::string out;
  for (size_t i = 0; i < folder.size(); ++i) {
    if (folder[i] != '_' || i + 1 >= folder.size() || folder[i + 1] != 'x') {
      out.push_back(folder[i]);
      continue;
    }
    if (i + 3 >= folder.size()) return {};
    const std::optional<int> high = HexDigit(folder[i + 2]);
    const std::optional<int> low = HexDigit(folder[i + 3]);
    if (!high.has_value() || !low.has_value()) return {};
    out.push_back(static_cast<char>(*high << 4 | *low));
    i += 3;
  }
  const absl::StatusOr<std::string> back = RunFolder(out);
  return back.ok() && *back == folder ? out : std::string();
}

}  // namespace msitd::storage
