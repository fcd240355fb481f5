// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/twin_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "daemon/peers/equal_groups.h"
#include "daemon/peers/remote_run_reader.h"
#include "protos/status/status.h"
#include "storage/env/env.h"
#include "tests/unit/daemon/peers/peers_fixture.h"

namespace msitd::peers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

query::GroupDigest Group(int32_t rank, int64_t token, uint64_t hash,
                         std::string device = "cpu:0") {
  return {{rank, std::move(device), token}, 1, {hash, hash}};
}

std::vector<std::string> PiecesOf(const EqualGroups& groups,
                                  const Selector& selector) {
  std::vector<std::string> out;
  for (const EqualGroups::Piece& piece : groups.Cut(selector)) {
    std::string text =
        fmt::format("{} {} {}", piece.is_equal ? "equal" : "other",
                    fmt::join(piece.selector.ranks, ","),
                    fmt::join(piece.selector.devices, ","));
    for (const TokenRange& range : piece.selector.tokens) {
      text += fmt::format(" {}-{}", range.first, range.last);
    }
    out.push_back(text);
  }
  return out;
}

TEST(EqualGroupsTest, AreCutInPrimaryOrder) {
  EqualGroups groups;
  for (int32_t rank = 0; rank < 4; ++rank) {
    for (int64_t token = 0; token < 6; ++token) {
      ASSERT_TRUE(groups.AddOther(Group(rank, token, 1)).ok());
    }
  }
  for (int32_t rank = 0; rank < 3; ++rank) {
    for (const int64_t token : {0, 1, 2, 4, 5, 9}) {
      const uint64_t hash = token == 1 && rank < 2 ? 2 : 1;
      ASSERT_TRUE(groups.Add(Group(rank, token, hash)).ok());
    }
  }
  ASSERT_TRUE(groups.Add(Group(3, 0, 1, "npu:1")).ok());
  groups.Finish();
  EXPECT_THAT(PiecesOf(groups, {}),
              ElementsAre("equal 0 cpu:0 0-0", "other 0 cpu:0 1-1",
                          "equal 0 cpu:0 2-2 4-5", "other 0 cpu:0 9-9",
                          "equal 1 cpu:0 0-0", "other 1 cpu:0 1-1",
                          "equal 1 cpu:0 2-2 4-5", "other 1 cpu:0 9-9",
                          "equal 2 cpu:0 0-2 4-5", "other 2 cpu:0 9-9",
                          "other 3 npu:1 0-0"));
  EXPECT_THAT(PiecesOf(groups, {.ranks = {2, 0, 1}, .tokens = {{1, 1}}}),
              ElementsAre("other 0,1 cpu:0 1-1", "equal 2 cpu:0 1-1"));
  EXPECT_THAT(PiecesOf(groups, {.devices = {"npu:1"}, .tokens = {{0, 3}}}),
              ElementsAre("other 3 npu:1 0-0"));
  EXPECT_THAT(PiecesOf(groups, {.ranks = {7}}), ElementsAre());
}

TEST(EqualGroupsTest, RefuseWhatIsOutOfOrder) {
  EqualGroups groups;
  ASSERT_TRUE(groups.Add(Group(1, 3, 1)).ok());
  EXPECT_TRUE(absl::IsDataLoss(groups.Add(Group(1, 3, 1))));
  EXPECT_TRUE(absl::IsDataLoss(groups.Add(Group(0, 4, 1))));
  EXPECT_TRUE(
      absl::IsDataLoss(groups.Add(Group(1, 4, 1, std::string(99, 'd')))));
}

class TwinReaderTest : public PeersFixture {
 protected:
  void SetUp() override {
    PeersFixture::SetUp();
    // Its names have other numbers, and its run has another name.
    Record(*near_, "before", 3);
    Record(*near_, "target", 2);
    Record(*store_, "golden", 1);
    auto local = near_->readers().OpenRun("target");
    ASSERT_TRUE(local.ok());
    local_ = *std::move(local);
    auto far = source().OpenBeside({endpoint(), "golden"}, *local_, {});
    ASSERT_TRUE(far.ok()) << Message(far.status());
    twin_ = *std::move(far);
  }

  testing::EitherStore near_store_{GetParam()};
  storage::Store* const near_ = &*near_store_;
  std::unique_ptr<storage::RunReader> local_;
  std::unique_ptr<storage::RunReader> twin_;
};

TEST_P(TwinReaderTest, HasTheEntriesOfItsRun) {
  const auto golden = store_->readers().OpenRun("golden");
  const std::string expected = EntriesOf(**golden, Everything(), false);
  EXPECT_EQ(EntriesOf(*twin_, Everything(), false), expected);
  ASSERT_TRUE(twin_->ListCoordinates({}).ok());
  EXPECT_EQ(EntriesOf(*twin_, Everything(), false), expected);
  for (int32_t rank = 0; rank < 2; ++rank) {
    for (int64_t token = 0; token < 3; ++token) {
      const Selector group = {.ranks = {rank}, .tokens = {{token, token}}};
      EXPECT_EQ(EntriesOf(*twin_, group, false),
                EntriesOf(**golden, group, false));
    }
  }
}

TEST_P(TwinReaderTest, TakesEqualGroupsFromHere) {
  ASSERT_TRUE(twin_->ListCoordinates({}).ok());
  auto scan = twin_->Scan({}, "");
  storage::TensorInfo entry;
  size_t local_count = 0;
  size_t far_count = 0;
  std::vector<storage::PartInfo> parts;
  std::vector<ContentHash> hashes;
  while (true) {
    const auto found = (*scan)->Next(entry);
    ASSERT_TRUE(found.ok()) << Message(found.status());
    if (!*found) break;
    const bool is_local = entry.parts[0].place.file >> 63 != 0;
    EXPECT_EQ(is_local, entry.key.rank != 1 || entry.key.token != 2)
        << entry.key.op;
    (is_local ? local_count : far_count) += 1;
    parts.push_back(entry.parts[0]);
    hashes.push_back(entry.hash);
    AlignedBuffer buffer;
    EXPECT_TRUE(twin_->ReadPart(entry.parts[0], buffer).ok());
    EXPECT_TRUE(twin_->ReadSample(entry, 0, buffer).ok());
  }
  EXPECT_EQ(local_count, 20u);
  EXPECT_EQ(far_count, 4u);
  AlignedBuffer buffer;
  const auto batch = twin_->ReadParts(parts, buffer);
  ASSERT_EQ(batch->size(), parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto bytes = batch->Read(i);
    ASSERT_TRUE(bytes.ok()) << Message(bytes.status());
    EXPECT_EQ(chunk::HashBytes(*bytes), hashes[i]);
  }
  // Places of the two readers are never confused.
  const auto far = OpenFar("golden");
  EXPECT_FALSE((*far)->ReadPart(parts[0], buffer).ok());
}

TEST_P(TwinReaderTest, GoesOnIfThePeerIsRestartedBetweenDigestsAndBytes) {
  // After this call, the digests are loaded.
  ASSERT_TRUE(twin_->ListCoordinates({}).ok());
  const std::string expected = EntriesOf(*twin_, Everything(), false);
  auto scan = twin_->Scan({}, "");
  storage::TensorInfo entry;
  ASSERT_TRUE(*(*scan)->Next(entry));
  RestartWithStore();
  size_t far_count = 0;
  bool found = true;
  while (found) {
    AlignedBuffer buffer;
    const auto bytes = twin_->ReadPart(entry.parts[0], buffer);
    ASSERT_TRUE(bytes.ok()) << Message(bytes.status());
    EXPECT_EQ(chunk::HashBytes(*bytes), entry.hash);
    far_count += entry.parts[0].place.file >> 63 == 0;
    const auto next = (*scan)->Next(entry);
    ASSERT_TRUE(next.ok()) << Message(next.status());
    found = *next;
  }
  EXPECT_EQ(far_count, 4u);
  EXPECT_EQ(EntriesOf(*twin_, Everything(), false), expected);
}

TEST_P(TwinReaderTest, SaysThatTheRunHereHasChanged) {
  if (fake_ == nullptr) return;
  ASSERT_TRUE(twin_->ListCoordinates({}).ok());
  auto scan = twin_->Scan({}, "");
  storage::TensorInfo entry;
  ASSERT_TRUE(*(*scan)->Next(entry));
  TensorKey key = entry.key;
  key.run = "target";
  near_store_.fake()->Expire(key);
  AlignedBuffer buffer;
  const auto gone = twin_->ReadPart(entry.parts[0], buffer).status();
  EXPECT_TRUE(HasReason(gone, ErrorReason::kSourceFailed));
  EXPECT_THAT(std::string(Message(gone)), HasSubstr("compare again"));
}

TEST_P(TwinReaderTest, ReadsAloneBesideARunThatGrows) {
  Record(*near_, "active", 1, /*seals=*/false);
  const auto active = near_->readers().OpenRun("active");
  const auto reader = source().OpenBeside({endpoint(), "golden"}, **active, {});
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE((*reader)->ListCoordinates({}).ok());
  auto scan = (*reader)->Scan({}, "");
  storage::TensorInfo entry;
  ASSERT_TRUE(*(*scan)->Next(entry));
  EXPECT_EQ(entry.parts[0].place.file >> 63, 0u);
}

INSTANTIATE_TEST_SUITE_P(Stores, TwinReaderTest,
                         ::testing::Values(testing::StoreKind::kFake,
                                           testing::StoreKind::kReal),
                         testing::StoreName);

}  // namespace
}  // namespace msitd::peers
