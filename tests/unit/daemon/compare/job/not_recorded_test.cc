// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/not_recorded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "protos/base/limits.h"
#include "tests/support/fake_store.h"
#include "tests/support/test_chunk.h"

namespace msitd::compare {
namespace {

using ::msitd::testing::FakeStore;
using ::msitd::testing::TestChunks;
using ::msitd::testing::TestTensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NotRecordedTest : public ::testing::Test {
 protected:
  NotRecordedTest() {
    storage::RunSpec spec;
    spec.name = "r";
    spec.world_size = 4;
    EXPECT_TRUE(store_.CreateRun(spec).ok());
  }

  // Stores version `call` of the document of one client. Documents of older
  // clients have no name.
  TestTensor Tell(int32_t rank, const std::string& client, int32_t call,
                  const std::string& text) {
    const std::string name = client.empty()
                                 ? std::string(kOldNotRecordedName)
                                 : "not_recorded/" + client + ".json";
    TestTensor document = testing::MakeTensor("r", 0, name, text.size());
    document.key.rank = rank;
    document.key.index = "";
    document.key.call = call;
    document.key.io = Io::kState;
    document.kind = RecordKind::kDocument;
    for (size_t i = 0; i < text.size(); ++i) {
      document.bytes[i] = static_cast<std::byte>(text[i]);
    }
    TestChunks chunks(/*stream_id=*/1 + static_cast<uint64_t>(rank),
                      chunk_count_++, {document});
    EXPECT_TRUE(store_.Append(chunks.span()).ok());
    return document;
  }

  std::map<int32_t, NotRecorded> Find(const std::vector<int32_t>& ranks = {}) {
    auto reader = store_.OpenRun("r");
    EXPECT_TRUE(reader.ok());
    auto found =
        FindNotRecorded(**reader, ranks, [] { return absl::OkStatus(); });
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *std::move(found) : std::map<int32_t, NotRecorded>();
  }

  // Returns "COUNT REASON" for each entry.
  static std::vector<std::string> TextsOf(const NotRecorded& rank) {
    std::vector<std::string> out;
    for (const v1::NotRecorded& reason : rank.reasons) {
      out.push_back(std::to_string(reason.count()) + " " + reason.reason());
    }
    return out;
  }

  FakeStore store_;
  uint64_t chunk_count_ = 0;
};

TEST_F(NotRecordedTest, TheNewestVersionOfEachClientCounts) {
  EXPECT_TRUE(Find().empty());
  Tell(0, "a", 0, R"({"version":1,"skipped":[{"reason":"meta","count":1}]})");
  Tell(0, "a", 1,
       R"({"skipped":[{"reason":"meta","count":5,"op":"root","index":"0"},)"
       R"({"reason":"again","count":7,"is_harmless":true}]})");
  Tell(0, "b", 0, R"({"skipped":[{"reason":"meta","count":2}]})");
  Tell(3, "c", 0, R"({"skipped":[{"reason":"fake","count":4}]})");
  auto ranks = Find();
  ASSERT_EQ(ranks.size(), 2);
  EXPECT_EQ(ranks[0].count, 7);
  EXPECT_THAT(TextsOf(ranks[0]), ElementsAre("7 meta", "7 again"));
  EXPECT_EQ(ranks[0].reasons[0].op(), "root");
  EXPECT_TRUE(ranks[0].reasons[1].is_harmless());
  EXPECT_EQ(ranks[3].count, 4);
  EXPECT_EQ(CountOf(ranks), 11);
  EXPECT_EQ(CountOf(Find({3})), 4);
}

TEST_F(NotRecordedTest, OlderClientsToldOncePerHandle) {
  for (int32_t call = 0; call < 2; ++call) {
    Tell(0, "", call,
         R"({"version":1,"skipped":[{"reason":"meta","count":3,"op":"o",)"
         R"("index":"0"}],"uncalled":["x","y"]})");
  }
  auto ranks = Find();
  EXPECT_EQ(ranks[0].count, 6);
  EXPECT_THAT(TextsOf(ranks[0]),
              ElementsAre("6 meta", "4 an op of which no call was seen"));
}

TEST_F(NotRecordedTest, ForeignBytesHarmNothing) {
  const std::string deep(100'000, '[');
  for (const std::string& text :
       {std::string("{"), std::string("\xff"), std::string("[]"), deep,
        std::string(R"({"skipped":7})"),
        std::string(R"({"skipped":[{"count":1e300}]})")}) {
    SCOPED_TRACE(text.substr(0, 40));
    Tell(0, "x", static_cast<int32_t>(chunk_count_), text);
    EXPECT_THAT(TextsOf(Find()[0]),
                ElementsAre("0 the document that says so is damaged"));
  }
  const std::string most = std::to_string(INT64_MAX);
  Tell(0, "x", 100,
       R"({"later":{"a":1},"skipped":[{"reason":"a","count":"-5"},)"
       R"({"reason":"b","count":")" +
           most + R"("},{"reason":"c","count":")" + most + R"("}]})");
  EXPECT_EQ(Find()[0].count, INT64_MAX);
  EXPECT_THAT(TextsOf(Find()[0]), ElementsAre("0 a", most + " b", most + " c"));
}

TEST_F(NotRecordedTest, LongAndManyAreCut) {
  std::string text = R"({"skipped":[)";
  for (int i = 0; i < 1000; ++i) {
    text += (i == 0 ? "" : ",") + std::string(R"({"reason":")") +
            std::to_string(i) + std::string(1021, 'x') +
            "\xc3\xa4"
            R"(","count":1})";
  }
  Tell(0, "x", 0, text + "]}");
  const NotRecorded rank = Find()[0];
  EXPECT_EQ(rank.count, 1000);
  EXPECT_LE(rank.reasons.size(), kNotRecordedReasonsMax);
  EXPECT_THAT(TextsOf(rank).back(), HasSubstr("other reasons"));
  for (const v1::NotRecorded& reason : rank.reasons) {
    EXPECT_LE(reason.reason().size(), kNotRecordedTextBytesMax);
  }
  // The text is not cut within the last character.
  EXPECT_EQ(rank.reasons[10].reason(), "10" + std::string(1021, 'x'));
  for (size_t i = 0; i < 2 * kNotRecordedClientsMax; ++i) {
    Tell(1, std::to_string(i), 0, R"({"skipped":[{"reason":"m","count":1}]})");
  }
  const NotRecorded many = Find()[1];
  EXPECT_EQ(many.count, kNotRecordedClientsMax);
  EXPECT_THAT(TextsOf(many).back(), HasSubstr("more than 64 clients"));
}

TEST_F(NotRecordedTest, GivenUpDocumentsAreNamed) {
  const TestTensor first =
      Tell(0, "x", 0, R"({"skipped":[{"reason":"m","count":1}]})");
  const TestTensor second =
      Tell(1, "y", 0, R"({"skipped":[{"reason":"m","count":1}]})");
  store_.Expire(first.key);
  store_.Corrupt(second.key, 0);
  auto ranks = Find();
  EXPECT_THAT(TextsOf(ranks[0]),
              ElementsAre("0 the document that says so has been given up"));
  EXPECT_EQ(ranks[0].reasons[0].op(), "not_recorded/x.json");
  EXPECT_THAT(TextsOf(ranks[1]),
              ElementsAre("0 the document that says so is damaged"));
}

TEST_F(NotRecordedTest, StopsWhenAsked) {
  Tell(0, "x", 0, "{}");
  auto reader = store_.OpenRun("r");
  EXPECT_TRUE(absl::IsCancelled(FindNotRecorded(**reader, {}, [] {
                                  return absl::CancelledError("");
                                }).status()));
}

}  // namespace
}  // namespace msitd::compare
