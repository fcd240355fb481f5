// SPDX-License-Identifier: Apache-2.0
#include "protos/base/request.h"
#include "tests/support/either_store.h"
#include "tests/unit/storage/store_fixture.h"

// Tests of selecting tensors by the requests of their tokens.
namespace msitd::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RequestTest : public msitd::testing::EitherStoreTest {
 protected:
  RequestTest() { EXPECT_TRUE(store_.runs().CreateRun({"r", 0, {}}).ok()); }

  // Records two tensors at a token of a rank, and the requests of the token.
  void Record(int32_t rank, int64_t token,
              const std::vector<std::string>& requests,
              const std::string& device = "cpu:0") {
    std::vector<TestTensor> records;
    for (const char* op : {"a", "z"}) {
      records.push_back(MakeTensor("r", token, op, 4));
      records.back().key.device = device;
    }
    for (const std::string& id : requests) {
      records.push_back(
          MakeTensor("r", token, std::string(kRequestOpPrefix) + id, 3));
      records.back().key.io = Io::kState;
      records.back().key.index = "";
      records.back().kind = RecordKind::kDocument;
    }
    for (TestTensor& record : records) record.key.rank = rank;
    TestChunks chunks(1 + static_cast<uint64_t>(rank), next_chunk_++, records);
    EXPECT_TRUE(store_.log().Append(chunks.span()).ok());
  }

  // Returns "RANK TOKEN OP" for each tensor. Starts a new scan after every
  // tensor.
  std::vector<std::string> Scan(Selector selector) {
    std::vector<std::string> out;
    std::string position;
    while (true) {
      auto scan = read_.Scan("r", selector, position);
      EXPECT_TRUE(scan.ok());
      TensorInfo info;
      if (!(*scan)->Next(info).value_or(false)) return out;
      out.push_back(std::to_string(info.key.rank) + " " +
                    std::to_string(info.key.token) + " " + info.key.op);
      position = (*scan)->position();
    }
  }
  std::vector<std::string> Of(std::vector<std::string> requests) {
    Selector selector;
    selector.requests = std::move(requests);
    return Scan(selector);
  }

  uint64_t next_chunk_ = 0;
  NamedRuns read_{store_.readers()};
};

MSITD_ON_BOTH_STORES(RequestTest);

TEST_P(RequestTest, SelectTheTokensOfARankThatWorkAtThem) {
  EXPECT_THAT(Of({"x"}), IsEmpty());
  Record(0, 0, {"x", "y"});
  Record(0, 1, {"y"});
  Record(0, 2, {});
  Record(0, 3, {"x"});
  Record(1, 0, {"z"});
  Record(1, 3, {"x"});
  EXPECT_THAT(Of({"x"}), ElementsAre("0 0 a", "0 0 z", "0 3 a", "0 3 z",
                                     "1 3 a", "1 3 z"));
  EXPECT_THAT(Of({"y"}), ElementsAre("0 0 a", "0 0 z", "0 1 a", "0 1 z"));
  EXPECT_THAT(Of({"nobody"}), IsEmpty());
  EXPECT_THAT(Of({"nobody", "z", "y"}), ElementsAre("0 0 a", "0 0 z", "0 1 a",
                                                    "0 1 z", "1 0 a", "1 0 z"));
  // Records of other kinds with such names are not requests.
  EXPECT_THAT(Of({"a", "cpu:0", "request/x", "0"}), IsEmpty());
}

TEST_P(RequestTest, AgreeWithAllElse) {
  Record(0, 0, {"x"});
  Record(0, 1, {"x"}, "npu:3");
  Record(0, 7, {"y"}, "npu:3");
  Record(1, 1, {"x"});
  Record(0, kTokenMax, {"y"}, "npu:3");
  Selector selector;
  selector.requests = {"x"};
  selector.op_patterns = {"z*"};
  selector.tokens = {{1, kTokenMax}};
  EXPECT_THAT(Scan(selector), ElementsAre("0 1 z", "1 1 z"));
  selector.devices = {"npu:3"};
  EXPECT_THAT(Scan(selector), ElementsAre("0 1 z"));
  selector.op_patterns = {"request/*"};
  selector.devices.clear();
  selector.kinds = {RecordKind::kDocument};
  EXPECT_THAT(Scan(selector), ElementsAre("0 1 request/x", "1 1 request/x"));
}

TEST_P(RequestTest, ScanStopsWhenAsked) {
  for (int64_t token = 0; token < 600; ++token) Record(0, token, {"x"});
  Record(0, 600, {"y"});
  Selector selector;
  selector.requests = {"y"};
  auto scan = read_.Scan("r", selector, "");
  TensorInfo info;
  int asked = 0;
  auto found = (*scan)->Next(info, [&asked] {
    ++asked;
    return absl::OkStatus();
  });
  EXPECT_TRUE(found.value_or(false));
  EXPECT_EQ(info.key.token, 600);
  if (either_.fake() == nullptr) {
    EXPECT_GT(asked, 10);
  }
}

}  // namespace
}  // namespace msitd::storage
