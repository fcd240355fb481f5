// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/s3_answer.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "protos/status/status.h"

namespace msitd::storage {
namespace {

constexpr size_t kErrorNameBytesMax = 64;

// Returns the text of the first element `name` of `body`; empty if there is
// none.
std::string_view Element(std::string_view body, std::string_view name) {
  const std::string open = fmt::format("<{}>", name);
  const std::string close = fmt::format("</{}>", name);
  const size_t begin = body.find(open);
  if (begin == std::string_view::npos) return {};
  const size_t end = body.find(close, begin + open.size());
  if (end == std::string_view::npos) return {};
  return body.substr(begin + open.size(), end - begin - open.size());
}

// Calls `take` with the text of each element `name`.
template <typename Take>
void EachElement(std::string_view body, std::string_view name, Take take) {
  const std::string close = fmt::format("</{}>", name);
  while (true) {
    const std::string_view text = Element(body, name);
    if (text.data() == nullptr) return;
    take(text);
    body.remove_prefix(static_cast<size_t>(text.data() - body.data()) +
                       text.size() + close.size());
  }
}

constexpr std::string_view kListRoot = "ListBucketResult";
constexpr size_t kXmlDepthMax = 32;

// True if the elements of `body` are closed in the reverse order of opening,
// and `root` contains all of them, so that the response is complete.
bool IsWholeXml(std::string_view body, std::string_view root) {
  std::vector<std::string_view> open;
  bool has_root = false;
  for (size_t at = body.find('<'); at != std::string_view::npos;
       at = body.find('<', at)) {
    const size_t end = body.find('>', at);
    if (end == std::string_view::npos) return false;
    std::string_view tag = body.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.empty()) return false;
    if (tag.front() == '?' || tag.front() == '!') continue;
    const bool closes = tag.front() == '/';
    const bool is_empty = tag.back() == '/';
    if (closes) tag.remove_prefix(1);
    if (is_empty) tag.remove_suffix(1);
    const std::string_view name = tag.substr(0, tag.find_first_of(" \t\r\n"));
    if (closes) {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
      continue;
    }
    if (open.empty() && (has_root || name != root)) return false;
    has_root = true;
    if (is_empty) continue;
    if (open.size() == kXmlDepthMax) return false;
    open.push_back(name);
  }
  return has_root && open.empty();
}

// The token of a list is opaque and may contain characters that XML escapes.
std::string Unescaped(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
      {{"&amp;", '&'},
       {"&lt;", '<'},
       {"&gt;", '>'},
       {"&quot;", '"'},
       {"&apos;", '\''}}};
  std::string out;
  while (!text.empty()) {
    const auto* const entity =
        std::find_if(kEntities.begin(), kEntities.end(),
                     [&](const auto& e) { return text.starts_with(e.first); });
    if (entity == kEntities.end()) {
      out.push_back(text.front());
      text.remove_prefix(1);
    } else {
      out.push_back(entity->second);
      text.remove_prefix(entity->first.size());
    }
  }
  return out;
}

// Returns the server's name of its error, such as `AccessDenied`.
std::string ErrorName(std::string_view body) {
  const std::string_view name = Element(body, "Code");
  const bool is_name =
      !name.empty() && name.size() <= kErrorNameBytesMax &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      });
  return is_name ? fmt::format(" {}", name) : std::string();
}

}  // namespace

bool IsWorthRetry(const S3Answer& answer) {
  return !answer.problem.empty() || answer.code == 409 || answer.code == 429 ||
         (answer.code >= 500 && answer.code != 501 && answer.code != 507);
}

absl::Status S3Error(const S3Answer& answer, std::string_view what,
                     std::string_view bucket) {
  if (!answer.problem.empty()) {
    return MakeStatus(absl::StatusCode::kUnavailable, "{}: {}", what,
                      answer.problem);
  }
  const std::string said = fmt::format("{}: the server answers {}{}", what,
                                       answer.code, ErrorName(answer.body));
  switch (answer.code) {
    case 301:
    case 302:
    case 307:
    case 308:
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "{}: bucket '{}' lies elsewhere; the endpoint or the "
                        "region of the configuration is wrong",
                        said, bucket);
    case 401:
    case 403:
      return MakeStatus(absl::StatusCode::kPermissionDenied,
                        "{}: the key that the daemon has for bucket '{}' is "
                        "wrong, or may not do this",
                        said, bucket);
    case 404:
      if (ErrorName(answer.body) == " NoSuchBucket") {
        return MakeStatus(absl::StatusCode::kNotFound,
                          "{}: there is no bucket '{}'", said, bucket);
      }
      return MakeStatus(absl::StatusCode::kNotFound, "{}", said);
    case 412:
      return MakeStatus(absl::StatusCode::kAlreadyExists, "{}", said);
    case 416:
      return MakeStatus(absl::StatusCode::kDataLoss,
                        "{}: the object is too short", said);
    case 501:
      return MakeStatus(absl::StatusCode::kUnimplemented,
                        "{}: it lacks what an archive needs", said);
    case 507:
      return WithReason(MakeStatus(absl::StatusCode::kResourceExhausted,
                                   "{}: bucket '{}' is full", said, bucket),
                        ErrorReason::kDiskFull);
    default:
      return MakeStatus(absl::StatusCode::kUnavailable, "{}", said);
  }
}

absl::Status ReadS3List(std::string_view body, std::string_view folder,
                        ObjectList& out, std::string& next) {
  const auto broken = [] {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "the answer is not a whole list of objects");
  };
  if (!IsWholeXml(body, kListRoot)) return broken();
  // Adds a name that is directly in the folder, or the subfolder that contains
  // it.
  const auto add = [&](std::string_view key, std::vector<std::string>& names) {
    if (!key.starts_with(folder)) return;
    key.remove_prefix(folder.size());
    const size_t slash = key.find('/');
    const std::string_view name = key.substr(0, slash);
    if (!IsObjectKey(name)) return;
    (slash == std::string_view::npos ? names : out.folders).emplace_back(name);
  };
  bool has_names = true;
  EachElement(body, "Contents", [&](std::string_view text) {
    const std::string_view key = Element(text, "Key");
    has_names &= !key.empty();
    add(key, out.objects);
  });
  EachElement(body, "CommonPrefixes", [&](std::string_view text) {
    std::string_view prefix = Element(text, "Prefix");
    has_names &= !prefix.empty();
    if (prefix.ends_with('/')) prefix.remove_suffix(1);
    add(prefix, out.folders);
  });
  const std::string_view truncated = Element(body, "IsTruncated");
  const bool is_flag =
      truncated.empty() || truncated == "true" || truncated == "false";
  if (!has_names || !is_flag) return broken();
  next.clear();
  if (truncated != "true") return absl::OkStatus();
  next = Unescaped(Element(body, "NextContinuationToken"));
  if (next.empty()) {
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "the list of objects goes on, but not from where");
  }
  return absl::OkStatus();
}

}  // namespace msitd::storage
