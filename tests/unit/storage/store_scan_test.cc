// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "protos/base/glob.h"
#include "storage/index/name/glob_names.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::SizeIs;

bool IsAllowed(const std::vector<int32_t>& allowed, int32_t rank) {
  return allowed.empty() ||
         std::find(allowed.begin(), allowed.end(), rank) != allowed.end();
}

// Evaluates the selector without an index, as the contract specifies.
bool Matches(const Selector& selector, const TensorKey& key) {
  const auto any = [](const auto& list, const auto& matches) {
    return list.empty() || std::any_of(list.begin(), list.end(), matches);
  };
  return IsAllowed(selector.ranks, key.rank) &&
         any(selector.devices,
             [&](const std::string& device) { return device == key.device; }) &&
         any(selector.tokens,
             [&](TokenRange range) {
               return range.first <= key.token && key.token <= range.last;
             }) &&
         any(selector.op_patterns,
             [&](const std::string& p) { return GlobMatch(p, key.op); }) &&
         any(selector.ios, [&](Io io) { return io == key.io; });
}

class StoreScanTest : public StoreTest {
 protected:
  // Records ranks 0, 2 and 5, two devices, tokens 0, 1, 2 and 7, five ops and
  // two ios.
  void Fill() {
    OpenWithRun("r");
    ASSERT_TRUE(store_->runs().CreateRun({"other", 0, {}}).ok());
    uint64_t stream = 1;
    for (const int32_t rank : {5, 0, 2}) {
      std::vector<TestTensor> records;
      for (const char* device : {"npu:1", "cpu:0"}) {
        for (const int64_t token : {7, 0, 1, 2}) {
          for (const char* op :
               {"z", "layers.0.attn", "layers.10.attn", "layers.0.mlp", "a"}) {
            for (const Io io : {Io::kOutput, Io::kInput}) {
              TestTensor tensor = MakeTensor("r", token, op, 16);
              tensor.key.rank = rank;
              tensor.key.device = device;
              tensor.key.io = io;
              tensor.sequence = records.size();
              records.push_back(tensor);
              keys_.push_back(tensor.key);
            }
          }
        }
      }
      ASSERT_TRUE(Append(TestChunks(stream++, 0, records)).ok());
    }
    ASSERT_TRUE(
        Append(TestChunks(stream, 0, {MakeTensor("other", 0, "z", 8)})).ok());
    SortKeys();
  }

  // Sorts in primary order, with names ordered by their first appearance.
  void SortKeys() {
    const std::map<std::string, int> first = {{"npu:1", 0},
                                              {"cpu:0", 1},
                                              {"z", 2},
                                              {"layers.0.attn", 3},
                                              {"layers.10.attn", 4},
                                              {"layers.0.mlp", 5},
                                              {"a", 6}};
    const auto rank = [&first](const TensorKey& key) {
      return std::tuple(key.rank, first.at(key.device), key.token,
                        first.at(key.op), key.io);
    };
    std::sort(keys_.begin(), keys_.end(),
              [&rank](const TensorKey& a, const TensorKey& b) {
                return rank(a) < rank(b);
              });
  }

  std::vector<TensorKey> Expected(const Selector& selector) const {
    std::vector<TensorKey> out;
    for (const TensorKey& key : keys_) {
      if (Matches(selector, key)) out.push_back(key);
    }
    return out;
  }

  std::vector<TensorKey> keys_;
};

TEST_F(StoreScanTest, EverySelectorGivesWhatItSays) {
  Fill();
  EXPECT_THAT(keys_, SizeIs(3 * 2 * 4 * 5 * 2));
  const std::vector<std::vector<int32_t>> ranks = {{}, {2}, {5, 0}, {3, 9}};
  const std::vector<std::vector<std::string>> devices = {
      {}, {"cpu:0"}, {"npu:1", "none"}, {"none"}};
  const std::vector<std::vector<TokenRange>> tokens = {
      {}, {{1, 2}}, {{7, 9}, {0, 0}, {0, 1}}, {{3, 6}}, {{-5, 1}, {9, 8}}};
  const std::vector<std::vector<std::string>> patterns = {
      {},           {"*"},      {"layers.*.attn"},     {"z", "layers.0.mlp"},
      {"a", "l*p"}, {"nobody"}, {"layers.?.attn", "a"}};
  const std::vector<std::vector<Io>> ios = {
      {}, {Io::kInput}, {Io::kOutput, Io::kWeight}, {Io::kState}};
  for (const auto& rank : ranks) {
    for (const auto& device : devices) {
      for (const auto& token : tokens) {
        for (const auto& pattern : patterns) {
          for (const auto& io : ios) {
            const Selector selector{rank, device, token, pattern, io};
            ASSERT_EQ(ScanKeys("r", selector), Expected(selector));
          }
        }
      }
    }
  }
}

TEST_F(StoreScanTest, PatternsSelectTheSameAmongAGreatManyNames) {
  Fill();
  const Selector selector{{}, {}, {}, {"*attn", "a"}, {}};
  // The patterns are already known. They are evaluated again for the names that
  // are added next.
  EXPECT_EQ(ScanKeys("r", selector), Expected(selector));
  constexpr uint64_t kNamesPerChunk = 1024;
  uint64_t chunk = 0;
  for (uint64_t name = 0; name < GlobNames::kNamesMax; ++chunk) {
    std::vector<TestTensor> records;
    for (uint64_t i = 0; i < kNamesPerChunk; ++i) {
      records.push_back(
          MakeTensor("other", 0, "op." + std::to_string(name++), 1));
    }
    ASSERT_TRUE(Append(TestChunks(99, chunk, records)).ok());
  }
  EXPECT_EQ(ScanKeys("r", selector), Expected(selector));
}

TEST_F(StoreScanTest, PatternsSelectNamesThatCameLater) {
  Fill();
  const Selector selector{{}, {}, {}, {"late.*"}, {}};
  EXPECT_THAT(ScanKeys("other", selector), IsEmpty());
  for (uint64_t i = 0; i < 3; ++i) {
    const TestTensor tensor =
        MakeTensor("other", 0, "late." + std::to_string(i), 1);
    ASSERT_TRUE(Append(TestChunks(99, i, {tensor})).ok());
    EXPECT_THAT(ScanKeys("other", selector), SizeIs(i + 1));
  }
}

TEST_F(StoreScanTest, ScanGoesOnFromItsPosition) {
  Fill();
  const Selector selector{{}, {}, {{1, 7}}, {"layers.*"}, {}};
  const std::vector<TensorKey> expected = Expected(selector);
  std::vector<TensorKey> found;
  std::string position;
  TensorInfo info;
  while (true) {
    auto scan = read_->Scan("r", selector, position);
    ASSERT_TRUE(scan.ok());
    EXPECT_EQ((*scan)->position(), position);
    size_t page = 0;
    while (page < 7 && *(*scan)->Next(info)) {
      found.push_back(info.key);
      ++page;
    }
    position = (*scan)->position();
    if (page < 7) break;
  }
  EXPECT_EQ(found, expected);
}

// Patterns that take thousands of steps for each of these names.
class SlowPatternsTest : public StoreScanTest {
 protected:
  static constexpr int kNames = 64;

  void Fill() {
    OpenWithRun("r");
    std::vector<TestTensor> records;
    for (int i = 0; i < kNames; ++i) {
      records.push_back(
          MakeTensor("r", 0, std::string(900, 'a') + std::to_string(i), 1));
      records.back().sequence = records.size();
    }
    ASSERT_TRUE(Append(records).ok());
  }

  static Selector SlowSelector(const std::string& last_pattern) {
    Selector selector;
    for (int i = 0; i < 8; ++i) {
      selector.op_patterns.push_back("*" + std::string(90, 'a') + "b" +
                                     std::to_string(i));
    }
    selector.op_patterns.push_back(last_pattern);
    return selector;
  }
};

TEST_F(SlowPatternsTest, StopIsAskedThoughNothingIsFound) {
  Fill();
  const auto scan = read_->Scan("r", SlowSelector("*b"), "");
  ASSERT_TRUE(scan.ok());
  int question_count = 0;
  const auto stop = [&question_count] {
    return ++question_count == 5 ? absl::CancelledError("enough")
                                 : absl::OkStatus();
  };
  TensorInfo info;
  EXPECT_TRUE(absl::IsCancelled((*scan)->Next(info, stop).status()));
  EXPECT_EQ(question_count, 5);
  const auto found = (*scan)->Next(info, stop);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(*found);
  EXPECT_GT(question_count, kNames);
}

TEST_F(SlowPatternsTest, StoppedScansLeadToTheEnd) {
  Fill();
  const Selector selector = SlowSelector("*7");
  std::vector<std::string> ops;
  std::string position;
  int stop_count = 0;
  while (true) {
    const auto scan = read_->Scan("r", selector, position);
    ASSERT_TRUE(scan.ok());
    const auto stop_behind_first = [&] {
      return (*scan)->position() == position ? absl::OkStatus()
                                             : absl::CancelledError("enough");
    };
    TensorInfo info;
    const auto found = (*scan)->Next(info, stop_behind_first);
    if (found.ok() && !*found) break;
    ASSERT_NE((*scan)->position(), position);
    position = (*scan)->position();
    if (found.ok()) {
      ops.push_back(info.key.op);
    } else {
      ASSERT_TRUE(absl::IsCancelled(found.status()));
      ASSERT_LT(++stop_count, 2 * kNames);
    }
  }
  EXPECT_EQ(ops, ScanOps("r", selector));
  EXPECT_THAT(ops, SizeIs(6));
  // The number of stops is small, because results of matching patterns are
  // kept.
  EXPECT_GT(stop_count, 0);
}

TEST_F(StoreScanTest, PositionOfAnotherRunIsRefused) {
  Fill();
  auto scan = read_->Scan("other", {}, "");
  ASSERT_TRUE(scan.ok());
  TensorInfo info;
  ASSERT_TRUE(*(*scan)->Next(info));
  for (const std::string& position :
       {(*scan)->position(), std::string("x"), std::string(100, 'x')}) {
    const auto other = read_->Scan("r", {}, position);
    EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Reason(other.status()), "PAGE_TOKEN_INVALID");
  }
  EXPECT_EQ(Reason(read_->Scan("nobody", {}, "").status()), "RUN_NOT_FOUND");
}

TEST_F(StoreScanTest, ScanSeesTheStoreAsItWasWhenItBegan) {
  OpenWithRun("r");
  ASSERT_TRUE(Append({MakeTensor("r", 0, "a", 16)}).ok());
  auto scan = read_->Scan("r", {}, "");
  ASSERT_TRUE(scan.ok());
  ASSERT_TRUE(Append({MakeTensor("r", 1, "a", 16)}).ok());
  TensorInfo info;
  EXPECT_TRUE(*(*scan)->Next(info));
  EXPECT_FALSE(*(*scan)->Next(info));
  EXPECT_THAT(ScanKeys("r"), SizeIs(2));
}

TEST_F(StoreScanTest, ScanPassesOverPartsWithoutABeginOrAnEnd) {
  OpenWithRun("r");
  TestTensor no_begin = MakeTensor("r", 0, "no begin", kPartBytes + 1);
  no_begin.part = 1;
  TestTensor no_end = MakeTensor("r", 0, "no end", kPartBytes + 1);
  ASSERT_TRUE(Append({no_begin}).ok());
  ASSERT_TRUE(Append({MakeTensor("r", 0, "small", 16)}).ok());
  ASSERT_TRUE(Append({no_end}).ok());
  ASSERT_TRUE(Append({MakeTensor("r", 0, "last", 16)}).ok());
  EXPECT_THAT(ScanOps("r"), ElementsAre("small", "last"));
}

TEST_F(StoreScanTest, CoordinatesAreThePlacesOfTheSelector) {
  Fill();
  const auto expect = [this](const Selector& selector) {
    std::vector<Coordinate> expected;
    for (const TensorKey& key : Expected(selector)) {
      const Coordinate place{key.rank, key.device, key.token};
      if (expected.empty() || !(expected.back() == place)) {
        expected.push_back(place);
      }
    }
    EXPECT_EQ(*read_->ListCoordinates("r", selector), expected);
  };
  expect({});
  expect({{2, 5}, {}, {{1, 1}, {7, 7}}, {}, {}});
  expect({{}, {"cpu:0"}, {{2, 100}}, {}, {}});
  expect({{4}, {}, {}, {}, {}});
  // Ops and ios are ignored.
  EXPECT_THAT(*read_->ListCoordinates("r", {{0}, {}, {}, {"none"}, {}}),
              SizeIs(8));
  EXPECT_THAT(*read_->ListCoordinates("r", {{}, {"none"}, {}, {}, {}}),
              IsEmpty());
  EXPECT_EQ(Reason(read_->ListCoordinates("nobody", {}).status()),
            "RUN_NOT_FOUND");
}

TEST_F(StoreScanTest, CoordinatesGoOnAfterEachOfThem) {
  Fill();
  const auto run = store_->readers().OpenRun("r");
  ASSERT_TRUE(run.ok()) << run.status();
  for (const Selector& selector :
       {Selector(), Selector{{2}, {}, {}, {}, {}},
        Selector{{}, {}, {{1, 1}, {2, 9}}, {}, {}}}) {
    const std::vector<Coordinate> all = *(*run)->ListCoordinates(selector);
    ASSERT_GT(all.size(), 1u);
    for (size_t i = 0; i < all.size(); ++i) {
      std::vector<Coordinate> rest;
      const auto visit = [&rest](const Coordinate& at) {
        rest.push_back(at);
        return absl::OkStatus();
      };
      ASSERT_TRUE((*run)->VisitCoordinatesAfter(selector, all[i], visit).ok());
      EXPECT_THAT(rest, ElementsAreArray(all.begin() + i + 1, all.end()));
      // The default implementation of readers.
      rest.clear();
      ASSERT_TRUE(
          (*run)
              ->RunReader::VisitCoordinatesAfter(selector, all[i], visit)
              .ok());
      EXPECT_THAT(rest, ElementsAreArray(all.begin() + i + 1, all.end()));
    }
  }
}

TEST_F(StoreScanTest, RanksAreThoseWithTensors) {
  Fill();
  std::vector<int32_t> expected;
  for (const TensorKey& key : Expected({})) {
    if (expected.empty() || expected.back() != key.rank) {
      expected.push_back(key.rank);
    }
  }
  EXPECT_GT(expected.size(), 1u);
  EXPECT_EQ(*read_->ListRanks("r"), expected);
  EXPECT_EQ(Reason(read_->ListRanks("nobody").status()), "RUN_NOT_FOUND");
}

TEST_F(StoreScanTest, KeysOutOfRangeAreOfNoTensor) {
  Fill();
  const TensorKey key = keys_.front();
  for (int i = 0; i < 5; ++i) {
    TensorKey wrong = key;
    if (i == 0) wrong.rank = -1;
    if (i == 1) wrong.token = int64_t{1} << 40;
    if (i == 2) wrong.call = -1;
    if (i == 3) wrong.op = "nobody";
    if (i == 4) wrong.io = Io::kState;
    ExpectAbsent(wrong);
  }
}

}  // namespace
}  // namespace msitd::storage
