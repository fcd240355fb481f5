// SPDX-License-Identifier: Apache-2.0
// Ranks whose records are in several places.
#include "storage/merge/split_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "protos/base/resource_name.h"
#include "protos/status/status.h"
#include "storage/merge/merged_run_reader.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::storage {
namespace {

using compare::Floats;
using compare::RecordedTensor;
using compare::RunRecorder;
using ::testing::Range;
using ::testing::TestWithParam;

// Forwards to another reader, counts the calls and can forge the answers.
class ForgingReader final : public RunReader {
 public:
  using Forge = std::function<void(std::vector<Coordinate>&)>;

  explicit ForgingReader(std::unique_ptr<RunReader> run, Forge forge = {})
      : run_(std::move(run)), forge_(std::move(forge)) {}

  const std::string& name() const override { return run_->name(); }
  absl::StatusOr<RunInfo> GetInfo() override { return run_->GetInfo(); }
  absl::StatusOr<std::vector<RankCoverage>> ListCoverage() override {
    return run_->ListCoverage();
  }
  absl::StatusOr<std::vector<int32_t>> ListRanks() override {
    return run_->ListRanks();
  }
  absl::StatusOr<std::vector<Coordinate>> ListCoordinates(
      const Selector& selector) override {
    ++list_count_;
    auto out = run_->ListCoordinates(selector);
    if (out.ok() && forge_) forge_(*out);
    return out;
  }
  absl::StatusOr<std::vector<std::string>> ListPlacements() override {
    return run_->ListPlacements();
  }
  absl::StatusOr<std::unique_ptr<TensorScan>> Scan(
      Selector selector, std::string_view position) override {
    ++scan_count_;
    return run_->Scan(std::move(selector), position);
  }
  absl::StatusOr<TensorInfo> GetTensor(const TensorKey& key) override {
    return run_->GetTensor(key);
  }
  absl::StatusOr<std::span<const std::byte>> ReadPart(
      const PartInfo& part, AlignedBuffer& buffer) override {
    return run_->ReadPart(part, buffer);
  }
  std::unique_ptr<PartBatch> ReadParts(std::span<const PartInfo> parts,
                                       AlignedBuffer& buffer) override {
    return run_->ReadParts(parts, buffer);
  }
  absl::StatusOr<std::span<const std::byte>> ReadSample(
      const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) override {
    return run_->ReadSample(tensor, part, buffer);
  }

  int list_count() const { return list_count_; }
  int scan_count() const { return scan_count_; }

 private:
  const std::unique_ptr<RunReader> run_;
  const Forge forge_;
  std::atomic<int> list_count_ = 0;
  std::atomic<int> scan_count_ = 0;
};

// A record without the locations of its bytes.
using Record = std::tuple<std::string, uint64_t, uint64_t>;

Record RecordOf(const TensorInfo& tensor) {
  return {FormatTensorName(tensor.key), tensor.hash.low, tensor.tensor_bytes};
}

std::vector<TensorInfo> ReadAll(RunReader& run, const Selector& selector,
                                std::string_view position = "") {
  std::vector<TensorInfo> out;
  const auto scan = run.Scan(selector, position);
  EXPECT_TRUE(scan.ok()) << scan.status();
  if (!scan.ok()) return out;
  TensorInfo tensor;
  while (true) {
    const auto found = (*scan)->Next(tensor);
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok() || !*found) return out;
    out.push_back(tensor);
  }
}

// Stores do not agree on the order of names, so results are sorted before they
// are compared.
std::vector<Record> Sorted(const std::vector<TensorInfo>& tensors) {
  std::vector<Record> out;
  for (const TensorInfo& each : tensors) out.push_back(RecordOf(each));
  std::sort(out.begin(), out.end());
  return out;
}

// Keeps the order of the tokens of a device.
std::vector<Coordinate> Sorted(std::vector<Coordinate> coordinates) {
  std::stable_sort(coordinates.begin(), coordinates.end(),
                   [](const Coordinate& a, const Coordinate& b) {
                     return std::tie(a.rank, a.device) <
                            std::tie(b.rank, b.device);
                   });
  return coordinates;
}

// Whether ranks ascend, devices of a rank are consecutive, and tokens ascend.
bool AreInOrder(const std::vector<TensorInfo>& tensors) {
  std::set<std::pair<int32_t, std::string>> seen;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorKey& key = tensors[i].key;
    const bool is_first = i == 0 || tensors[i - 1].key.rank != key.rank ||
                          tensors[i - 1].key.device != key.device;
    if (is_first && !seen.emplace(key.rank, key.device).second) return false;
    if (i == 0) continue;
    const TensorKey& last = tensors[i - 1].key;
    if (last.rank > key.rank || (!is_first && last.token > key.token)) {
      return false;
    }
  }
  return true;
}

RecordedTensor DocumentOf(const std::string& name, const std::string& text) {
  RecordedTensor out;
  out.op = name;
  out.bytes = text;
  out.dtype = DType::kUint8;
  out.shape = {static_cast<int64_t>(text.size())};
  out.io = Io::kState;
  out.index = "";
  out.kind = RecordKind::kDocument;
  return out;
}

class SplitRankTest : public TestWithParam<int> {
 protected:
  static constexpr int kStoreCount = 3;

  SplitRankTest() {
    for (testing::FakeStore& store : stores_) {
      recorders_.push_back(std::make_unique<RunRecorder>(store, "g"));
    }
  }

  void Record(int store, RecordedTensor tensor) {
    recorders_[store]->Record(tensor);
  }

  absl::StatusOr<std::unique_ptr<RunReader>> Merge(
      const ForgingReader::Forge& forge = {}) {
    std::vector<RunShare> shares;
    readers_.clear();
    for (int i = 0; i < kStoreCount; ++i) {
      auto reader =
          std::make_unique<ForgingReader>(*stores_[i].OpenRun("g"), forge);
      readers_.push_back(reader.get());
      shares.push_back({"node" + std::to_string(i), std::move(reader)});
    }
    return MergeRun("g", std::move(shares));
  }

  std::string ProblemOf(const ForgingReader::Forge& forge = {}) {
    return std::string(Message(Merge(forge).status()));
  }

  testing::FakeStore stores_[kStoreCount];
  std::vector<std::unique_ptr<RunRecorder>> recorders_;
  std::vector<ForgingReader*> readers_;  // Those of the last call of Merge.
};

RecordedTensor TensorAt(int32_t rank, int64_t token, float value = 1) {
  RecordedTensor out = Floats("op", {value});
  out.rank = rank;
  out.token = token;
  return out;
}

class RandomPlacesTest : public SplitRankTest {
 protected:
  static constexpr int kRanks = 4;
  static constexpr int kTokens = 7;

  RandomPlacesTest() : random_(GetParam()) {
    testing::FakeStore& whole = whole_;
    RunRecorder all(whole, "g");
    const auto below = [this](int end) {
      return static_cast<int>(random_() % end);
    };
    for (int rank = 0; rank < kRanks; ++rank) {
      // A rank in one place, one that has moved, or one that alternates.
      const int how = below(3);
      const int home = below(kStoreCount);
      const int moved_at = below(kTokens);
      if (below(2) == 0) {
        RecordedTensor tree = DocumentOf("module_tree.json", "tree");
        tree.rank = rank;
        all.Record(tree);
        for (int store = 0; store < kStoreCount; ++store) {
          if (store == home || below(2) == 0) Record(store, tree);
        }
      }
      for (const char* device : {"npu:1", "cpu:0"}) {
        if (below(4) == 0) continue;
        for (int token = 0; token < kTokens; ++token) {
          const int store = how == 0   ? home
                            : how == 1 ? (home + (token >= moved_at)) % 3
                                       : below(kStoreCount);
          for (const char* op : {"a", "b"}) {
            if (below(6) == 0) continue;
            RecordedTensor tensor = Floats(op, {static_cast<float>(below(100)),
                                                static_cast<float>(token)});
            tensor.rank = rank;
            tensor.device = device;
            tensor.token = token;
            all.Record(tensor);
            Record(store, tensor);
          }
        }
      }
    }
  }

  Selector AnySelector() {
    Selector out;
    if (random_() % 2 == 0) out.ranks = {0, 2};
    if (random_() % 2 == 0) out.devices = {"cpu:0"};
    if (random_() % 2 == 0) out.tokens = {{1, 2}, {4, 5}};
    if (random_() % 2 == 0) out.op_patterns = {"b", "module_*"};
    if (random_() % 2 == 0) {
      out.kinds = {RecordKind::kTensor, RecordKind::kDocument};
    }
    return out;
  }

  std::mt19937 random_;
  testing::FakeStore whole_;
};

TEST_P(RandomPlacesTest, ReadsAsIfOneStoreHadAllRecords) {
  const auto expected = *whole_.OpenRun("g");
  const auto run = Merge();
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(*(*run)->ListRanks(), *expected->ListRanks());
  for (int i = 0; i < 8; ++i) {
    const Selector selector = i == 0 ? Selector() : AnySelector();
    const std::vector<TensorInfo> all = ReadAll(**run, selector);
    EXPECT_TRUE(AreInOrder(all));
    EXPECT_EQ(Sorted(all), Sorted(ReadAll(*expected, selector)));
    const auto coordinates = (*run)->ListCoordinates(selector);
    ASSERT_TRUE(coordinates.ok()) << coordinates.status();
    EXPECT_EQ(Sorted(*coordinates),
              Sorted(*expected->ListCoordinates(selector)));
    // Scans visit the coordinates in their order.
    std::vector<Coordinate> scanned;
    Selector every_op = selector;
    every_op.op_patterns.clear();
    every_op.kinds = {RecordKind::kTensor, RecordKind::kDocument};
    for (const TensorInfo& each : ReadAll(**run, every_op)) {
      Coordinate at{each.key.rank, each.key.device, each.key.token};
      if (scanned.empty() || !(scanned.back() == at)) scanned.push_back(at);
    }
    EXPECT_EQ(scanned, *coordinates);
  }
}

TEST_P(RandomPlacesTest, AnotherReaderContinuesAScanAtAnyPosition) {
  const Selector selector = AnySelector();
  auto run = *Merge();
  const std::vector<TensorInfo> all = ReadAll(*run, selector);
  const auto scan = *run->Scan(selector, "");
  TensorInfo tensor;
  for (size_t i = 0; i <= all.size(); ++i) {
    const std::string position = scan->position();
    const auto other = *Merge();
    const std::vector<TensorInfo> rest = ReadAll(*other, selector, position);
    ASSERT_EQ(rest.size(), all.size() - i);
    for (size_t j = 0; j < rest.size(); ++j) {
      EXPECT_EQ(RecordOf(rest[j]), RecordOf(all[i + j]));
    }
    EXPECT_EQ(*scan->Next(tensor), i < all.size());
  }
  EXPECT_TRUE(ReadAll(*run, selector, scan->position()).empty());
}

TEST_P(RandomPlacesTest, TensorsAndTheirBytesAreFound) {
  const auto expected = *whole_.OpenRun("g");
  const auto run = *Merge();
  AlignedBuffer buffer;
  AlignedBuffer expected_buffer;
  for (const TensorInfo& each : ReadAll(*expected, {})) {
    const auto found = run->GetTensor(each.key);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(RecordOf(*found), RecordOf(each));
    const auto bytes = run->ReadPart(found->parts[0], buffer);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto same = *expected->ReadPart(each.parts[0], expected_buffer);
    EXPECT_TRUE(
        std::equal(bytes->begin(), bytes->end(), same.begin(), same.end()));
    TensorKey absent = each.key;
    absent.op = "none";
    EXPECT_EQ(Reason(run->GetTensor(absent).status()),
              Reason(expected->GetTensor(absent).status()));
    absent.device = "npu:9";
    EXPECT_EQ(Reason(run->GetTensor(absent).status()),
              Reason(expected->GetTensor(absent).status()));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlacesTest, Range(0, 60));

TEST_F(SplitRankTest, RunsOfWholeRanksCostNoMoreRequests) {
  for (int rank = 0; rank < 6; ++rank) {
    Record(rank % kStoreCount, TensorAt(rank, 0));
  }
  const auto merged = Merge();  // Owns the readers.
  ASSERT_TRUE(merged.ok());
  for (const ForgingReader* reader : readers_) {
    EXPECT_EQ(reader->list_count(), 0);
    EXPECT_EQ(reader->scan_count(), 0);
  }
}

TEST_F(SplitRankTest, OnlyPlacesOfSplitRanksAreQueried) {
  Record(0, TensorAt(0, 0));
  Record(1, TensorAt(0, 1));
  Record(2, TensorAt(1, 0));
  auto run = *Merge();
  EXPECT_EQ(readers_[0]->list_count(), 1);
  EXPECT_EQ(readers_[1]->list_count(), 1);
  EXPECT_EQ(readers_[2]->list_count(), 0);
  // Neither is a place that has no token of the selector.
  Selector selector;
  selector.tokens = {{1, 1}};
  selector.ranks = {0};
  EXPECT_EQ(ReadAll(*run, selector).size(), 1u);
  EXPECT_EQ(readers_[0]->scan_count(), 0);
  EXPECT_EQ(readers_[1]->scan_count(), 1);
}

TEST_F(SplitRankTest, AlternatingTokensNeedOneScanOfEachPlace) {
  constexpr int kTokens = 2000;
  for (int token = 0; token < kTokens; ++token) {
    Record(token % 2, TensorAt(0, token));
  }
  auto run = *Merge();
  EXPECT_EQ(ReadAll(*run, {}).size(), size_t{kTokens});
  EXPECT_EQ(readers_[0]->scan_count(), 1);
  EXPECT_EQ(readers_[1]->scan_count(), 1);
}

TEST_F(SplitRankTest, ATokenInTwoPlacesIsRefusedAndBothAreNamed) {
  Record(0, TensorAt(0, 0));
  Record(0, TensorAt(0, 5));
  Record(2, TensorAt(0, 5));
  Record(2, TensorAt(0, 6));
  const auto run = Merge();
  EXPECT_EQ(run.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(run.status()),
            "rank 0 of run g has records of token 5 in both node0 and node2");
}

TEST_F(SplitRankTest, DocumentsOfTheWholeRankMayBeInEachPlace) {
  for (int store = 0; store < kStoreCount; ++store) {
    Record(store, DocumentOf("module_tree.json", "tree"));
    Record(store, DocumentOf("own/" + std::to_string(store), "text"));
    Record(store, TensorAt(0, store == 1 ? 0 : store + 1));
  }
  const auto run = Merge();
  ASSERT_TRUE(run.ok()) << run.status();
  Selector documents;
  documents.kinds = {RecordKind::kDocument};
  std::multiset<std::string> names;
  for (const TensorInfo& each : ReadAll(**run, documents)) {
    names.insert(each.key.op);
  }
  EXPECT_EQ(names, (std::multiset<std::string>{"module_tree.json", "own/0",
                                               "own/1", "own/2"}));
  Selector tensors;
  tensors.kinds = {RecordKind::kTensor};
  const std::vector<TensorInfo> all = ReadAll(**run, tensors);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(AreInOrder(all));
  EXPECT_EQ((*run)->ListCoordinates({})->size(), 3u);
}

TEST_F(SplitRankTest, DifferentDocumentsOfOneNameAreRefused) {
  Record(0, DocumentOf("tree.json", "one"));
  Record(1, DocumentOf("tree.json", "two"));
  EXPECT_EQ(ProblemOf(),
            "rank 0 of run g has different documents tree.json of token 0 in "
            "node0 and node1");
}

TEST_F(SplitRankTest, PlacesThatListCoordinatesWronglyAreRefused) {
  for (const int token : {0, 1, 2}) Record(0, TensorAt(0, token));
  Record(1, TensorAt(0, 3));
  EXPECT_EQ(ProblemOf([](auto& list) { list.push_back(list.back()); }),
            "node0: rank 0, token 2 is listed out of order");
  EXPECT_EQ(
      ProblemOf([](auto& list) { std::reverse(list.begin(), list.end()); }),
      "node0: rank 0, token 1 is listed out of order");
  EXPECT_EQ(ProblemOf([](auto& list) {
              list.push_back({7, "cpu:0", 0});
            }),
            "node0: rank 7, token 0 is listed out of order");
  EXPECT_EQ(ProblemOf([](auto& list) {
              list.push_back({0, "npu:1", 0});
              list.push_back({0, "cpu:0", 9});
            }),
            "node0: rank 0, token 9 is listed out of order");
}

TEST_F(SplitRankTest, ScansDetectTokensThatWereNotListed) {
  for (const int token : {0, 1, 5}) Record(0, TensorAt(0, token));
  for (const int token : {1, 3}) Record(1, TensorAt(0, token));
  // Each place conceals token 1.
  const auto run = Merge([](std::vector<Coordinate>& list) {
    std::erase_if(list, [](const Coordinate& at) { return at.token == 1; });
  });
  ASSERT_TRUE(run.ok()) << run.status();
  const auto scan = (*run)->Scan({}, "");
  TensorInfo tensor;
  absl::StatusOr<bool> found = true;
  while (found.ok() && *found) found = (*scan)->Next(tensor);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Message(found.status()),
            "node1: a record of rank 0, token 1 is not where its tokens were "
            "listed");
}

TEST_F(SplitRankTest, APositionOfAnotherScanIsRefused) {
  Record(0, TensorAt(0, 0));
  Record(1, TensorAt(0, 1));
  auto run = *Merge();
  const auto scan = *run->Scan({}, "");
  TensorInfo tensor;
  ASSERT_TRUE(*scan->Next(tensor));
  std::string position = scan->position();
  for (size_t size = 1; size < position.size(); ++size) {
    EXPECT_TRUE(HasReason(run->Scan({}, position.substr(0, size)).status(),
                          ErrorReason::kPageTokenInvalid));
  }
  Selector other;
  other.tokens = {{0, 0}};
  EXPECT_TRUE(HasReason(run->Scan(other, position).status(),
                        ErrorReason::kPageTokenInvalid));
}

TEST_F(SplitRankTest, NumberOfPlacesOfARankIsLimited) {
  std::vector<RunShare> shares;
  Record(0, TensorAt(0, 0));
  for (size_t i = 0; i <= kRankPlacesMax; ++i) {
    shares.push_back({std::to_string(i), *stores_[0].OpenRun("g")});
  }
  const auto run = MergeRun("g", std::move(shares));
  EXPECT_EQ(run.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(run.status()),
            "rank 0 of run g lies in 65 places, of at most 64");
}

}  // namespace
}  // namespace msitd::storage
