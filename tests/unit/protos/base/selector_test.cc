// SPDX-License-Identifier: Apache-2.0
#include "protos/base/selector.h"

#include <gtest/gtest.h>

namespace msitd {
namespace {

TensorKey Key() {
  TensorKey key;
  key.rank = 3;
  key.device = "npu:1";
  key.token = 7;
  key.op = "layers.2.attn";
  key.io = Io::kOutput;
  return key;
}

TEST(SelectorTest, EmptyListsTakeAll) {
  EXPECT_TRUE(Selector().Matches(Key()));
}

TEST(SelectorTest, OneOfAListIsEnough) {
  Selector selector;
  selector.ranks = {0, 3};
  selector.devices = {"npu:0", "npu:1"};
  selector.tokens = {{0, 1}, {7, 7}};
  selector.op_patterns = {"head", "layers.*.attn"};
  selector.ios = {Io::kInput, Io::kOutput};
  EXPECT_TRUE(selector.Matches(Key()));
}

TEST(SelectorTest, EveryListMustAgree) {
  Selector one_off[5];
  one_off[0].ranks = {2, 4};
  one_off[1].devices = {"npu:11"};
  one_off[2].tokens = {{0, 6}, {8, 9}};
  one_off[3].op_patterns = {"layers.?"};
  one_off[4].ios = {Io::kInput};
  for (const Selector& selector : one_off) {
    EXPECT_FALSE(selector.Matches(Key()));
  }
}

TEST(SelectorTest, WholeRanksAreTakenWhereNothingElseIsAskedFor) {
  Selector selector;
  EXPECT_TRUE(selector.TakesWholeRanks());
  selector.ranks = {1, 2};
  EXPECT_TRUE(selector.TakesWholeRanks());
  selector.ios = {Io::kInput};
  EXPECT_FALSE(selector.TakesWholeRanks());
}

TEST(SelectorTest, NoKindsStandForTensorsAlone) {
  Selector selector;
  EXPECT_TRUE(selector.HasKind(RecordKind::kTensor));
  EXPECT_FALSE(selector.HasKind(RecordKind::kNumber));
  EXPECT_FALSE(selector.HasKind(RecordKind::kDocument));
  selector.kinds = {RecordKind::kNumber, RecordKind::kNone};
  EXPECT_FALSE(selector.HasKind(RecordKind::kTensor));
  EXPECT_TRUE(selector.HasKind(RecordKind::kNumber));
  EXPECT_TRUE(selector.HasKind(RecordKind::kNone));
  EXPECT_FALSE(selector.TakesWholeRanks());
}

TEST(SelectorTest, AnUnspecifiedSideAgreesWithAny) {
  Selector selector;
  selector.ios = {Io::kInput};
  EXPECT_TRUE(selector.HasIo(Io::kUnspecified));
  EXPECT_FALSE(selector.HasIo(Io::kOutput));
}

}  // namespace
}  // namespace msitd
