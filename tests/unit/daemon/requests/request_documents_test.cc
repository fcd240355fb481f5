// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests/request_documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "protos/base/request.h"
#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::requests {
namespace {

using ::testing::ElementsAre;

class RequestDocumentsTest : public ::testing::Test {
 protected:
  void Tell(int32_t rank, int64_t token, const std::string& id,
            const std::string& text, int32_t call = 0) {
    compare::RecordedTensor out;
    out.op = std::string(kRequestOpPrefix) + id;
    out.bytes = text;
    out.dtype = DType::kUint8;
    out.shape = {static_cast<int64_t>(text.size())};
    out.rank = rank;
    out.token = token;
    out.call = call;
    out.io = Io::kState;
    out.index = "";
    out.device = std::string(kRequestDevice);
    out.kind = RecordKind::kDocument;
    recorder_.Record(out);
  }

  // Returns `ID=TEXT` of the documents that are visited, at most `limit`.
  std::vector<std::string> Visit(Selector selector, size_t limit = 100) {
    std::vector<std::string> out;
    const auto run = *store_.OpenRun("r");
    AlignedBuffer buffer;
    const absl::Status status = VisitRequestDocuments(
        *run, std::move(selector), [] { return absl::OkStatus(); },
        [&](const storage::TensorInfo& document) -> absl::StatusOr<bool> {
          MSITD_ASSIGN_OR_RETURN(const std::string text,
                                 ReadRequestText(*run, document, buffer));
          out.push_back(RequestIdOf(document) + "=" + text);
          return out.size() < limit;
        });
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  msitd::testing::FakeStore store_;
  compare::RunRecorder recorder_{store_, "r"};
};

TEST_F(RequestDocumentsTest, DocumentsAreVisitedByRankAndToken) {
  Tell(1, 0, "c", "0:1");
  Tell(0, 1, "a", "0:1@3/1");
  Tell(0, 0, "b", "1:2");
  Tell(0, 0, "a", "0:1", /*call=*/1);
  recorder_.Record(compare::Floats("request/no", {1}));
  EXPECT_THAT(Visit({}), ElementsAre("b=1:2", "a=0:1@3/1", "c=0:1"));
  EXPECT_THAT(Visit({}, 2), ElementsAre("b=1:2", "a=0:1@3/1"));
  Selector selector;
  selector.ranks = {0};
  selector.tokens = {{1, 5}};
  EXPECT_THAT(Visit(selector), ElementsAre("a=0:1@3/1"));
}

TEST_F(RequestDocumentsTest, TextsThatNobodyWroteAreEmpty) {
  Tell(0, 0, "long", std::string(kRequestRowsBytesMax + 1, '1'));
  Tell(0, 0, "bytes", "\xff\xfe");
  Tell(0, 0, "max", std::string(kRequestRowsBytesMax, '1'));
  EXPECT_THAT(Visit({}),
              ElementsAre("long=", "bytes=",
                          "max=" + std::string(kRequestRowsBytesMax, '1')));
}

}  // namespace
}  // namespace msitd::requests
