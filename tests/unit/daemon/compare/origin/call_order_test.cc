// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/call_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/daemon/compare/origin/recorded_pairs_test.h"

namespace msitd::compare {
namespace {

using ::testing::IsEmpty;

class CallOrderTest : public RecordedPairsTest {
 protected:
  std::string NoteOf(const std::vector<Record>& records, size_t pair) {
    const auto pairs = Pairs(records);
    return CallOrderNote(CallTree(pairs), pairs, pair);
  }
};

// `m` multiplies and then adds.
std::vector<Record> MultipliesAndAdds() {
  return {{"m", Io::kInput, 1, 1, 1, 1},    {"mul", Io::kInput, 1, 1, 2, 2},
          {"mul", Io::kOutput, 2, 2, 3, 3}, {"add", Io::kInput, 2, 2, 4, 4},
          {"add", Io::kOutput, 3, 3, 5, 5}, {"m", Io::kOutput, 3, 3, 6, 6}};
}

TEST_F(CallOrderTest, CallsInAnotherOrderAreNamed) {
  std::vector<Record> records = MultipliesAndAdds();
  EXPECT_THAT(NoteOf(records, 1), IsEmpty());
  std::swap(records[1].target_at, records[3].target_at);
  std::swap(records[2].target_at, records[4].target_at);
  EXPECT_EQ(NoteOf(records, 1),
            "other order of calls: golden calls add after mul, the target "
            "before it");
  EXPECT_EQ(NoteOf(records, 3),
            "other order of calls: golden calls mul before add, the target "
            "after it");
  // Results are not given by the code around the call.
  EXPECT_THAT(NoteOf(records, 2), IsEmpty());
}

TEST_F(CallOrderTest, OpsWithFurtherCallsAreNotNamed) {
  std::vector<Record> records = MultipliesAndAdds();
  std::swap(records[1].target_at, records[3].target_at);
  std::swap(records[2].target_at, records[4].target_at);
  // The calls of `mul` may be paired with others.
  records.push_back({"mul", Io::kInput, 0, 1, 0, 9});
  EXPECT_THAT(NoteOf(records, 1), IsEmpty());
}

}  // namespace
}  // namespace msitd::compare
