// SPDX-License-Identifier: Apache-2.0
// Page tokens, as received from clients.
#include "daemon/query/page_token.h"
#include "protos/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace msitd::fuzz {
namespace {

// Returns `request_key` and the token, separated by a zero byte.
std::string SeedOf(const std::string& request_key, const std::string& token) {
  return request_key + '\0' + token;
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string position("\x00\x01\xff position", 12);
  return {SeedOf("request", ""),
          SeedOf("request", query::EncodePageToken("request", position)),
          SeedOf("", query::EncodePageToken("", "p")),
          SeedOf("other", query::EncodePageToken("request", position))};
}

}  // namespace msitd::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using msitd::query::DecodePageToken;
  using msitd::query::EncodePageToken;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(input.find('\0'), input.size());
  const std::string_view key = input.substr(0, cut);
  const std::string_view rest = input.substr(std::min(cut + 1, input.size()));

  const auto position = DecodePageToken(key, rest);
  if (position.ok()) MSITD_CHECK(position->empty() == rest.empty());
  // A token that was encoded for a request can be decoded for that request, and
  // for no other.
  if (!rest.empty() && rest.size() < 4096) {
    const std::string token = EncodePageToken(key, rest);
    const auto again = DecodePageToken(key, token);
    MSITD_CHECK(again.ok() && *again == rest);
    MSITD_CHECK(!DecodePageToken(std::string(key) + "x", token).ok());
  }
  return 0;
}
