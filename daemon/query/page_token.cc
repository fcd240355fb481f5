// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/page_token.h"

#include <cstdint>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/escaping.h"
#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::query {
namespace {

constexpr char kVersion = 1;
constexpr size_t kPrefixBytes = 1 + sizeof(uint64_t);

uint64_t Checksum(std::string_view request_key, std::string_view position) {
  const uint64_t seed = XXH3_64bits(request_key.data(), request_key.size());
  return XXH3_64bits_withSeed(position.data(), position.size(), seed);
}

}  // namespace

std::string EncodePageToken(std::string_view request_key,
                            std::string_view position) {
  MSITD_CHECK(!position.empty());
  const uint64_t checksum = Checksum(request_key, position);
  std::string bytes(kPrefixBytes, kVersion);
  std::memcpy(bytes.data() + 1, &checksum, sizeof(checksum));
  bytes.append(position);
  std::string token;
  absl::WebSafeBase64Escape(bytes, &token);
  return token;
}

absl::StatusOr<std::string> DecodePageToken(std::string_view request_key,
                                            std::string_view token) {
  if (token.empty()) return std::string();
  const absl::Status invalid =
      WithReason(MakeStatus(absl::StatusCode::kInvalidArgument,
                            "the page token was not given for this request"),
                 ErrorReason::kPageTokenInvalid);
  std::string bytes;
  if (token.size() > kPageTokenBytesMax ||
      !absl::WebSafeBase64Unescape(std::string(token), &bytes) ||
      bytes.size() <= kPrefixBytes || bytes[0] != kVersion) {
    return invalid;
  }
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + 1, sizeof(checksum));
  std::string position = bytes.substr(kPrefixBytes);
  if (checksum != Checksum(request_key, position)) return invalid;
  return position;
}

}  // namespace msitd::query
