// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/token_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "protos/base/request.h"
#include "tests/support/fake_store.h"
#include "tests/support/test_chunk.h"

namespace msitd::query {
namespace {

using ::msitd::testing::FakeStore;
using ::msitd::testing::TestChunks;
using ::msitd::testing::TestTensor;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TokenRequestsTest : public ::testing::Test {
 protected:
  TokenRequestsTest() {
    storage::RunSpec spec;
    spec.name = "r";
    spec.world_size = 2;
    EXPECT_TRUE(store_.CreateRun(spec).ok());
  }

  void Tell(int32_t rank, int64_t token, const std::string& id,
            const std::string& rows, int32_t call = 0) {
    const std::string op = std::string(kRequestOpPrefix) + id;
    TestTensor document = testing::MakeTensor("r", token, op, rows.size());
    document.key.rank = rank;
    document.key.device = std::string(kRequestDevice);
    document.key.index = "";
    document.key.call = call;
    document.key.io = Io::kState;
    document.kind = RecordKind::kDocument;
    for (size_t i = 0; i < rows.size(); ++i) {
      document.bytes[i] = static_cast<std::byte>(rows[i]);
    }
    TestChunks chunks(/*stream_id=*/1 + static_cast<uint64_t>(rank),
                      chunk_count_++, {document});
    EXPECT_TRUE(store_.Append(chunks.span()).ok());
  }

  TokenRequests& requests() {
    if (requests_ == nullptr) {
      auto reader = store_.OpenRun("r");
      EXPECT_TRUE(reader.ok());
      run_ = *std::move(reader);
      requests_ = std::make_unique<TokenRequests>(*run_);
    }
    return *requests_;
  }

  std::vector<TokenRequest> All(int32_t rank, int64_t token) {
    const auto found =
        requests().All(rank, token, [] { return absl::OkStatus(); });
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? **found : std::vector<TokenRequest>();
  }

  std::vector<TokenRequest> Of(int32_t rank, int64_t token,
                               const std::vector<std::string>& ids) {
    const auto found = requests().Of(rank, token, ids);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? **found : std::vector<TokenRequest>();
  }

  FakeStore store_;
  uint64_t chunk_count_ = 0;
  std::shared_ptr<storage::RunReader> run_;
  std::unique_ptr<TokenRequests> requests_;
};

TEST_F(TokenRequestsTest, LengthsOfTheBatchAreNotRows) {
  Tell(0, 7, "a", "1:2,4:9@3/2,9");
  EXPECT_THAT(All(0, 7), ElementsAre(TokenRequest{"a", "1:2,4:9@3"}));
  EXPECT_THAT(Of(0, 7, {"a"}), ElementsAre(TokenRequest{"a", "1:2,4:9@3"}));
}

TEST_F(TokenRequestsTest, EachTokenOfARankHasItsOwn) {
  Tell(0, 3, "a", "0:2");
  Tell(0, 3, "b", "2:5");
  Tell(0, 4, "a", "0:1");
  Tell(1, 3, "c", "0:7");
  EXPECT_THAT(All(0, 3),
              ElementsAre(TokenRequest{"a", "0:2"}, TokenRequest{"b", "2:5"}));
  EXPECT_THAT(All(0, 4), ElementsAre(TokenRequest{"a", "0:1"}));
  EXPECT_THAT(All(1, 3), ElementsAre(TokenRequest{"c", "0:7"}));
  EXPECT_THAT(All(0, 5), IsEmpty());
}

TEST_F(TokenRequestsTest, NamedOnesComeInTheOrderOfTheQuestion) {
  for (const char* const id : {"a", "b", "c"}) Tell(0, 1, id, "0:1");
  EXPECT_THAT(Of(0, 1, {"c", "none", "a"}),
              ElementsAre(TokenRequest{"c", "0:1"}, TokenRequest{"a", "0:1"}));
  // A name is not a pattern.
  EXPECT_THAT(Of(0, 1, {"*"}),
              ElementsAre(TokenRequest{"c", "0:1"}, TokenRequest{"a", "0:1"}));
}

TEST_F(TokenRequestsTest, AllAndNamedOnesAreNotTakenForEachOther) {
  Tell(0, 1, "a", "0:1");
  Tell(0, 1, "b", "1:2");
  EXPECT_THAT(Of(0, 1, {"b"}), ElementsAre(TokenRequest{"b", "1:2"}));
  EXPECT_EQ(All(0, 1).size(), 2u);
  EXPECT_THAT(Of(0, 1, {"b"}), ElementsAre(TokenRequest{"b", "1:2"}));
}

TEST_F(TokenRequestsTest, ForeignRowsAreLeftOutAndTheirRequestStays) {
  Tell(0, 1, "long", std::string(kRequestRowsBytesMax + 1, '1'));
  Tell(0, 1, "no text", "\xff");
  EXPECT_THAT(All(0, 1), ElementsAre(TokenRequest{"long", ""},
                                     TokenRequest{"no text", ""}));
}

TEST_F(TokenRequestsTest, LaterVersionsAreNoRequestsOfTheirOwn) {
  Tell(0, 1, "a", "0:1");
  Tell(0, 1, "a", "0:2", /*call=*/1);
  EXPECT_THAT(All(0, 1), ElementsAre(TokenRequest{"a", "0:1"}));
}

TEST_F(TokenRequestsTest, AStopEndsTheSearch) {
  Tell(0, 1, "a", "0:1");
  const auto stopped = requests().All(
      0, 1, [] { return absl::CancelledError("the caller has gone"); });
  EXPECT_EQ(stopped.status().code(), absl::StatusCode::kCancelled);
  // Incomplete results are not cached.
  EXPECT_THAT(All(0, 1), ElementsAre(TokenRequest{"a", "0:1"}));
}

}  // namespace
}  // namespace msitd::query
