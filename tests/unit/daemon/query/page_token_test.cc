// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/page_token.h"

#include <gtest/gtest.h>

#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::query {
namespace {

TEST(PageTokenTest, GivesThePositionBack) {
  for (const std::string& position :
       {std::string("p"), std::string("\0\xff\x80", 3),
        std::string(5000, 'x')}) {
    const std::string token = EncodePageToken("request", position);
    EXPECT_TRUE(IsValidUtf8(token));
    const auto decoded = DecodePageToken("request", token);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, position);
  }
}

TEST(PageTokenTest, EmptyTokenIsTheFirstPage) {
  const auto decoded = DecodePageToken("request", "");
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, "");
}

TEST(PageTokenTest, TokenOfAnotherRequestIsRefused) {
  const std::string token = EncodePageToken("request a", "position");
  const absl::Status status = DecodePageToken("request b", token).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Reason(status), "PAGE_TOKEN_INVALID");
}

TEST(PageTokenTest, EveryDamageIsNoticed) {
  const std::string token = EncodePageToken("request", "position");
  for (size_t i = 0; i < token.size(); ++i) {
    // An empty token denotes the first page.
    const std::string cut = i == 0 ? "A" : token.substr(0, i);
    EXPECT_FALSE(DecodePageToken("request", cut).ok()) << i;
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    const auto decoded = DecodePageToken("request", changed);
    // Some bits of the last character have no meaning.
    EXPECT_TRUE(!decoded.ok() || *decoded == "position") << i;
    EXPECT_FALSE(decoded.ok() && i + 1 < token.size()) << i;
  }
  EXPECT_FALSE(
      DecodePageToken("request", std::string(kPageTokenBytesMax + 1, 'A'))
          .ok());
}

}  // namespace
}  // namespace msitd::query
