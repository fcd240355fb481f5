// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/remote_run_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>

#include "msitd/v1/run_reader_service.grpc.pb.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"
#include "tests/unit/daemon/peers/peers_fixture.h"

namespace msitd::peers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RemoteRunReaderTest : public PeersFixture {};

TEST_P(RemoteRunReaderTest, KnowsWhatTheStoreKnows) {
  Record(*store_, "run");
  const auto local = store_->readers().OpenRun("run");
  const auto far = OpenFar("run");
  ASSERT_TRUE(far.ok()) << Message(far.status());
  EXPECT_EQ((*far)->name(), "run");
  const auto info = (*far)->GetInfo();
  const auto expected = (*local)->GetInfo();
  ASSERT_TRUE(info.ok()) << Message(info.status());
  EXPECT_EQ(info->spec.name, "run");
  EXPECT_EQ(info->spec.world_size, 3);
  EXPECT_TRUE(info->sealed);
  EXPECT_EQ(info->create_time_ns, expected->create_time_ns);
  EXPECT_EQ(info->seal_time_ns, expected->seal_time_ns);
  EXPECT_EQ(info->counters.record_count(), expected->counters.record_count());
  EXPECT_EQ(info->counters.payload_bytes, expected->counters.payload_bytes);
  EXPECT_EQ(info->counters.token_end, expected->counters.token_end);
  EXPECT_EQ(*(*far)->ListCoverage(), *(*local)->ListCoverage());
  EXPECT_EQ(*(*far)->ListRanks(), *(*local)->ListRanks());
  EXPECT_EQ(*(*far)->ListPlacements(), *(*local)->ListPlacements());
  EXPECT_EQ(*(*far)->ListCoordinates({}), *(*local)->ListCoordinates({}));
}

TEST_P(RemoteRunReaderTest, ScansWhatTheSelectorTakes) {
  Record(*store_, "run");
  const auto local = store_->readers().OpenRun("run");
  const auto far = OpenFar("run");
  ASSERT_TRUE(far.ok()) << Message(far.status());
  Selector one_rank = Everything();
  one_rank.ranks = {1, 0, 7};
  one_rank.tokens = {{0, 0}, {2, 9}};
  Selector ops;
  ops.op_patterns = {"*n*"};
  ops.ios = {Io::kOutput};
  Selector nothing;
  nothing.ranks = {-1};
  Selector shifted;
  shifted.tokens = {{-2, 1}};
  for (const Selector& selector :
       {Everything(), Selector(), one_rank, ops, shifted}) {
    EXPECT_EQ(EntriesOf(**far, selector), EntriesOf(**local, selector));
  }
  EXPECT_EQ(NamesOf(**far, Everything()).size(), 36u);
  EXPECT_EQ(NamesOf(**far, nothing).size(), 0u);
}

TEST_P(RemoteRunReaderTest, GoesOnFromAPosition) {
  Record(*store_, "run");
  const auto far = OpenFar("run");
  ASSERT_TRUE(far.ok()) << Message(far.status());
  const std::vector<std::string> all = NamesOf(**far, Everything());
  std::string position;
  for (const std::string& name : all) {
    auto scan = (*far)->Scan(Everything(), position);
    ASSERT_TRUE(scan.ok());
    EXPECT_EQ((*scan)->position(), position);
    storage::TensorInfo entry;
    ASSERT_TRUE(*(*scan)->Next(entry));
    EXPECT_THAT(name, HasSubstr(entry.key.op));
    position = (*scan)->position();
  }
  EXPECT_TRUE(HasReason((*far)->Scan({}, "x").status(),
                        ErrorReason::kPageTokenInvalid));
}

TEST_P(RemoteRunReaderTest, ReadsBytes) {
  Record(*store_, "run");
  const auto local = store_->readers().OpenRun("run");
  const auto far = OpenFar("run");
  ASSERT_TRUE(far.ok()) << Message(far.status());
  auto scan = (*far)->Scan(Everything(), "");
  std::vector<storage::PartInfo> parts;
  storage::TensorInfo entry;
  AlignedBuffer here;
  AlignedBuffer there;
  while (*(*scan)->Next(entry)) {
    const auto again = (*far)->GetTensor(entry.key);
    ASSERT_TRUE(again.ok()) << Message(again.status());
    EXPECT_EQ(again->hash, entry.hash);
    EXPECT_EQ(again->parts[0].place, entry.parts[0].place);
    const auto from_far = (*far)->ReadPart(entry.parts[0], there);
    const auto from_here = (*local)->ReadPart(entry.parts[0], here);
    ASSERT_TRUE(from_far.ok()) << Message(from_far.status());
    EXPECT_TRUE(std::ranges::equal(*from_far, *from_here));
    const auto far_sample = (*far)->ReadSample(entry, 0, there);
    const auto sample = (*local)->ReadSample(entry, 0, here);
    ASSERT_TRUE(far_sample.ok()) << Message(far_sample.status());
    EXPECT_TRUE(std::ranges::equal(*far_sample, *sample));
    parts.push_back(entry.parts[0]);
  }
  ASSERT_GT(parts.size(), 10u);
  parts[3].has_bytes = false;
  // More parts than one request may contain.
  std::vector<storage::PartInfo> many;
  while (many.size() < 2500)
    many.insert(many.end(), parts.begin(), parts.end());
  const auto batch = (*far)->ReadParts(many, there);
  ASSERT_EQ(batch->size(), many.size());
  for (size_t i = 0; i < many.size(); ++i) {
    const auto bytes = batch->Read(i);
    if (!many[i].has_bytes) {
      EXPECT_TRUE(HasReason(bytes.status(), ErrorReason::kTensorExpired));
      continue;
    }
    ASSERT_TRUE(bytes.ok()) << i << ": " << Message(bytes.status());
    EXPECT_TRUE(std::ranges::equal(*bytes, *(*local)->ReadPart(many[i], here)));
  }
}

TEST_P(RemoteRunReaderTest, ReadsSamplesManyAtATime) {
  Record(*store_, "run");
  const auto local = store_->readers().OpenRun("run");
  const auto far = OpenFar("run");
  ASSERT_TRUE(far.ok()) << Message(far.status());
  auto scan = (*far)->Scan(Everything(), "");
  std::vector<storage::TensorInfo> entries;
  storage::TensorInfo entry;
  while (*(*scan)->Next(entry)) entries.push_back(entry);
  ASSERT_GT(entries.size(), 10u);
  entries[3].parts[0].has_bytes = entries[3].parts[0].has_sample = false;
  std::vector<storage::SamplePart> samples;
  while (samples.size() < 1500) {
    for (const storage::TensorInfo& one : entries) {
      samples.push_back(storage::SamplePartOf(one, 0));
    }
  }
  AlignedBuffer here;
  AlignedBuffer there;
  const auto batch = (*far)->ReadSamples(samples, there);
  ASSERT_NE(batch, nullptr);
  ASSERT_EQ(batch->size(), samples.size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto sample = batch->Read(i);
    const size_t entry_number = i % entries.size();
    if (entry_number == 3) {
      EXPECT_TRUE(HasReason(sample.status(), ErrorReason::kTensorExpired));
      continue;
    }
    ASSERT_TRUE(sample.ok()) << i << ": " << Message(sample.status());
    EXPECT_TRUE(std::ranges::equal(
        *sample, *(*local)->ReadSample(entries[entry_number], 0, here)));
  }
}

// Addresses that an untrusted caller may request.
TEST_P(RemoteRunReaderTest, SamplesOfNoTensorAreRefused) {
  Record(*store_, "run");
  const auto stub = v1::RunReaderService::NewStub(service::Connect(endpoint()));
  const auto ask = [&stub](const v1::ReadPartsRequest& request) {
    grpc::ClientContext context;
    const auto stream = stub->ReadParts(&context, request);
    v1::ReadPartsResponse response;
    while (stream->Read(&response)) {
    }
    return stream->Finish().error_code();
  };
  v1::ReadPartsRequest right;
  right.set_run("run");
  v1::SampleAddress& sample = *right.add_samples();
  sample.set_dtype(static_cast<int32_t>(DType::kFloat32));
  sample.set_tensor_size_bytes(4);
  sample.mutable_part()->set_size_bytes(4);
  sample.set_has_sample(true);
  // This place contains no data, which is an error of the part only.
  EXPECT_EQ(ask(right), grpc::StatusCode::OK);
  using Change = std::function<void(v1::SampleAddress&)>;
  const Change changes[] = {
      [](v1::SampleAddress& s) { s.set_dtype(-1); },
      [](v1::SampleAddress& s) { s.set_dtype(1000); },
      [](v1::SampleAddress& s) { s.set_tensor_size_bytes(-1); },
      [](v1::SampleAddress& s) { s.set_tensor_size_bytes(INT64_MAX); },
      [](v1::SampleAddress& s) { s.set_part_number(-1); },
      [](v1::SampleAddress& s) { s.set_part_number(1); },
      [](v1::SampleAddress& s) { s.set_part_number(INT64_MAX); },
      [](v1::SampleAddress& s) { s.mutable_part()->set_size_bytes(5); },
      [](v1::SampleAddress& s) { s.clear_part(); },
  };
  for (const Change& change : changes) {
    v1::ReadPartsRequest wrong = right;
    change(*wrong.mutable_samples(0));
    EXPECT_EQ(ask(wrong), grpc::StatusCode::INVALID_ARGUMENT)
        << wrong.ShortDebugString();
  }
  v1::ReadPartsRequest both = right;
  *both.add_parts() = sample.part();
  EXPECT_EQ(ask(both), grpc::StatusCode::INVALID_ARGUMENT);
  right.clear_samples();
  EXPECT_EQ(ask(right), grpc::StatusCode::INVALID_ARGUMENT);
}

// A peer may request places without data.
TEST_P(RemoteRunReaderTest, ReadsNothingWhereNothingLies) {
  if (fake_ != nullptr) return;  // Places of the fake are indices.
  Record(*store_, "run");
  const auto far = OpenFar("run");
  ASSERT_TRUE(far.ok());
  auto scan = (*far)->Scan({}, "");
  storage::TensorInfo entry;
  ASSERT_TRUE(*(*scan)->Next(entry));
  const storage::PartInfo right = entry.parts[0];
  std::vector<storage::PartInfo> parts;
  for (const uint64_t offset :
       {uint64_t{0}, right.place.offset, right.place.offset + 1,
        uint64_t{1} << 40, uint64_t{1} << 60}) {
    for (const uint64_t bytes :
         {uint64_t{0}, uint64_t{1}, right.bytes + 1, kPartBytes}) {
      for (const uint64_t file :
           {uint64_t{0}, right.place.file, uint64_t{1} << 62}) {
        storage::PartInfo& part = parts.emplace_back(right);
        part.place = {file, offset};
        part.bytes = bytes;
      }
    }
  }
  parts.push_back(right);
  AlignedBuffer buffer;
  for (const storage::PartInfo& part : parts) {
    const auto bytes = (*far)->ReadPart(part, buffer);
    const bool is_right =
        part.place == right.place && part.bytes == right.bytes;
    EXPECT_EQ(bytes.ok(), is_right || part.bytes == 0)
        << part.place.file << " " << part.place.offset << " " << part.bytes;
  }
  const auto batch = (*far)->ReadParts(parts, buffer);
  for (size_t i = 0; i < batch->size(); ++i) (void)batch->Read(i);
  EXPECT_TRUE((*far)->GetInfo().ok());
  // A place that no daemon has.
  storage::PartInfo behind = right;
  behind.place.offset = uint64_t{1} << 61;
  EXPECT_FALSE((*far)->ReadPart(behind, buffer).ok());
}

TEST_P(RemoteRunReaderTest, SaysWhatThereIsNot) {
  Record(*store_, "run");
  Record(*store_, "active", 1, /*seals=*/false);
  const auto none = OpenFar("other").status();
  EXPECT_TRUE(HasReason(none, ErrorReason::kRunNotFound));
  EXPECT_THAT(std::string(Message(none)), HasSubstr(endpoint()));
  const auto active = OpenFar("active").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(active));
  EXPECT_THAT(std::string(Message(active)), HasSubstr("not sealed"));
  const auto far = OpenFar("run");
  ASSERT_TRUE(far.ok());
  TensorKey absent;
  absent.device = "cpu:0";
  absent.op = "none";
  absent.io = Io::kOutput;
  EXPECT_TRUE(HasReason((*far)->GetTensor(absent).status(),
                        ErrorReason::kTensorNotFound));
  // The error does not end the connection.
  EXPECT_TRUE((*far)->GetInfo().ok());
}

TEST_P(RemoteRunReaderTest, NeverStandsForALaterRun) {
  Record(*store_, "run");
  const auto far = OpenFar("run");
  ASSERT_TRUE(far.ok());
  auto scan = (*far)->Scan(Everything(), "");
  storage::TensorInfo entry;
  ASSERT_TRUE(*(*scan)->Next(entry));
  ASSERT_TRUE(store_->runs().DeleteRun("run").ok());
  EXPECT_TRUE(HasReason((*far)->GetInfo().status(), ErrorReason::kRunNotFound));
  Record(*store_, "run", 2);
  const auto later = (*far)->GetInfo().status();
  EXPECT_TRUE(HasReason(later, ErrorReason::kRunNotFound));
  EXPECT_THAT(std::string(Message(later)),
              AllOf(HasSubstr(endpoint()), HasSubstr("another has that name")));
  EXPECT_TRUE(HasReason((*far)->GetTensor(entry.key).status(),
                        ErrorReason::kRunNotFound));
  auto other = (*far)->Scan(Everything(), "");
  EXPECT_TRUE(
      HasReason((*other)->Next(entry).status(), ErrorReason::kRunNotFound));
}

TEST_P(RemoteRunReaderTest, ReadsOnlyWhatTheConfigurationNames) {
  Record(*store_, "run");
  RemoteSource none({}, {});
  EXPECT_TRUE(none.Takes(endpoint()));
  const auto refused = none.Open({endpoint(), "run"}, {}).status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused));
  EXPECT_THAT(std::string(Message(refused)), HasSubstr("`peers`"));
  for (const char* other : {"", "s3://bucket/x", "file:///a:b", "name"}) {
    EXPECT_FALSE(none.Takes(other)) << other;
  }
  for (const char* peer : {"host:7741", "[::1]:7741", "unix:/run/x.sock"}) {
    EXPECT_TRUE(none.Takes(peer)) << peer;
  }
}

TEST_P(RemoteRunReaderTest, GoesOnWhenThePeerComesBack) {
  Record(*store_, "run");
  const auto far = OpenFar("run");
  ASSERT_TRUE(far.ok());
  const std::vector<std::string> all = NamesOf(**far, Everything());
  RestartWithStore();
  EXPECT_EQ(NamesOf(**far, Everything()), all);
  EXPECT_TRUE((*far)->GetInfo().ok());
}

TEST_P(RemoteRunReaderTest, FailsForGoodWithoutItsPeer) {
  Record(*store_, "run");
  const std::string where = endpoint();
  const auto far = OpenFar("run");
  ASSERT_TRUE(far.ok());
  StopNode();
  const auto gone = (*far)->GetInfo().status();
  EXPECT_TRUE(absl::IsUnavailable(gone));
  EXPECT_TRUE(HasReason(gone, ErrorReason::kSourceFailed)) << gone;
  EXPECT_THAT(std::string(Message(gone)), HasSubstr(where));
  Start();
  // The reader may have missed changes.
  EXPECT_EQ((*far)->ListRanks().status(), gone);
}

INSTANTIATE_TEST_SUITE_P(Stores, RemoteRunReaderTest,
                         ::testing::Values(testing::StoreKind::kFake,
                                           testing::StoreKind::kReal),
                         testing::StoreName);

}  // namespace
}  // namespace msitd::peers
