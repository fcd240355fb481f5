// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/origin/equal_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/daemon/compare/origin/recorded_pairs_test.h"

namespace msitd::compare {
namespace {

using ::testing::IsEmpty;

class EqualTensorsTest : public RecordedPairsTest {
 protected:
  std::string NoteOfLast(const std::vector<Record>& records) {
    const auto pairs = Pairs(records);
    return EqualTensorsNote(pairs, pairs.size() - 1);
  }
};

TEST_F(EqualTensorsTest, OtherTensorThatIsPassedOnIsNamed) {
  // Kernels differ, so no tensor of one run is one of the other.
  EXPECT_EQ(NoteOfLast({{"m.gate", Io::kOutput, 1, 11, 1, 1},
                        {"m.up", Io::kOutput, 2, 12, 2, 2},
                        {"m.act", Io::kInput, 1, 12, 3, 3}}),
            "equal to m.gate output/0 in golden, to m.up output/0 in the "
            "target");
}

TEST_F(EqualTensorsTest, TensorThatOnlyOneRunPassesOnIsNamed) {
  EXPECT_EQ(NoteOfLast({{"m.norm", Io::kInput, 1, 11, 1, 1},
                        {"m.norm", Io::kOutput, 2, 12, 2, 2},
                        {"m.up", Io::kInput, 2, 13, 3, 3}}),
            "equal to m.norm output/0 only in golden");
  EXPECT_EQ(NoteOfLast({{"m.norm", Io::kInput, 1, 11, 1, 1},
                        {"m.norm", Io::kOutput, 2, 12, 2, 2},
                        {"m.up", Io::kInput, 3, 11, 3, 3}}),
            "equal to m.norm input/0 only in the target");
}

TEST_F(EqualTensorsTest, TiedWeightsThatAreNotTiedInTheTargetAreNamed) {
  EXPECT_EQ(NoteOfLast({{"embed", Io::kWeight, 1, 1, 1, 1},
                        {"head", Io::kWeight, 1, 9, 5, 5}}),
            "equal to embed weight/0 only in golden");
}

TEST_F(EqualTensorsTest, TensorOfGoldenThatTheTargetHasIsNamed) {
  const auto pairs = Pairs(
      {{"m.gate", Io::kWeight, 1, 2, 1, 1}, {"m.up", Io::kWeight, 2, 1, 2, 2}});
  EXPECT_EQ(EqualTensorsNote(pairs, 0),
            "the target has m.up weight/0 of golden");
  EXPECT_EQ(EqualTensorsNote(pairs, 1),
            "the target has m.gate weight/0 of golden");
}

TEST_F(EqualTensorsTest, InputOfGoldenThatTheTargetHasIsNamedIfItIsEarlier) {
  // A norm that is left out, of a sum that is not on record.
  EXPECT_EQ(NoteOfLast({{"m.norm", Io::kInput, 1, 11, 1, 1},
                        {"m.norm", Io::kOutput, 2, 12, 2, 2},
                        {"m.up", Io::kInput, 2, 1, 3, 3}}),
            "equal to m.norm output/0 only in golden; the target has m.norm "
            "input/0 of golden");
  // Golden makes the calls of the target again, from the same inputs.
  const auto pairs = Pairs(
      {{"m.a", Io::kOutput, 1, 2, 1, 1}, {"m.b", Io::kInput, 2, 2, 2, 2}});
  EXPECT_THAT(EqualTensorsNote(pairs, 0), IsEmpty());
}

TEST_F(EqualTensorsTest, LaterInputThatTheTargetPassesIsNamed) {
  // Exchanged weights, as arguments of functions.
  const auto pairs = Pairs({{"linear", Io::kInput, 1, 2, 1, 1},
                            {"linear", Io::kOutput, 3, 13, 2, 2},
                            {"addmm", Io::kInput, 2, 1, 3, 3}});
  EXPECT_EQ(EqualTensorsNote(pairs, 0),
            "the target has addmm input/0 of golden");
  EXPECT_EQ(EqualTensorsNote(pairs, 2),
            "the target has linear input/0 of golden");
}

TEST_F(EqualTensorsTest, SameTensorHasNoNote) {
  // The part that made it is wrong.
  EXPECT_THAT(NoteOfLast({{"m.gate", Io::kOutput, 1, 11, 1, 1},
                          {"m.act", Io::kInput, 1, 11, 2, 2}}),
              IsEmpty());
  // Nothing is passed on.
  EXPECT_THAT(NoteOfLast({{"m.gate", Io::kOutput, 1, 11, 1, 1},
                          {"m.act", Io::kInput, 2, 12, 2, 2}}),
              IsEmpty());
  // Two tensors that are equal in golden and not in the target.
  EXPECT_THAT(NoteOfLast({{"m.a", Io::kOutput, 1, 11, 1, 1},
                          {"m.b", Io::kOutput, 1, 12, 2, 2},
                          {"m.act", Io::kInput, 1, 11, 3, 3}}),
              IsEmpty());
  // Later tensors are not passed on.
  const auto pairs = Pairs({{"m.act", Io::kInput, 1, 12, 1, 1},
                            {"m.gate", Io::kOutput, 1, 11, 2, 2},
                            {"m.up", Io::kOutput, 2, 12, 3, 3}});
  EXPECT_THAT(EqualTensorsNote(pairs, 0), IsEmpty());
}

TEST_F(EqualTensorsTest, TensorsThatAreEqualByChanceHaveNoNote) {
  const std::vector<Record> records = {{"m.gate", Io::kOutput, 1, 11, 1, 1},
                                       {"m.up", Io::kOutput, 2, 12, 2, 2},
                                       {"m.act", Io::kInput, 1, 12, 3, 3}};
  shape_ = {4};
  EXPECT_THAT(NoteOfLast(records), IsEmpty());
  shape_ = {4, 8};
  min_ = 1;
  EXPECT_THAT(NoteOfLast(records), IsEmpty());
}

}  // namespace
}  // namespace msitd::compare
