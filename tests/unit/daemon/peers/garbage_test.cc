// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "daemon/peers/remote_run_reader.h"
#include "daemon/service/call/status_mapping.h"
#include "msitd/v1/run_reader_service.grpc.pb.h"
#include "protos/status/status.h"
#include "storage/batch/entry_batch.h"
#include "tests/unit/daemon/peers/peers_fixture.h"

namespace msitd::peers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Forwards calls from a daemon to its peer, and modifies the responses.
class WrongPeer final : public v1::RunReaderService::Service {
 public:
  // Receives each message of a stream and its number. If it returns a status,
  // the stream ends with it in place of the message.
  template <typename Response>
  using Hook = std::function<std::optional<grpc::Status>(int, Response&)>;

  WrongPeer(std::shared_ptr<grpc::Channel> channel, std::string endpoint)
      : stub_(v1::RunReaderService::NewStub(std::move(channel))),
        endpoint_(std::move(endpoint)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(endpoint_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~WrongPeer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::string& endpoint() const { return endpoint_; }

  Hook<v1::DescribeRunResponse> on_describe;
  Hook<v1::ListCoordinatesResponse> on_coordinates;
  Hook<v1::ScanTensorsResponse> on_scan;
  Hook<v1::ReadPartsResponse> on_parts;
  Hook<v1::ListDigestsResponse> on_digests;
  // Number of requests for scans so far.
  std::atomic<int> scan_count{0};

 private:
  using Stub = v1::RunReaderService::Stub;

  template <typename Request, typename Response>
  grpc::Status Pass(std::unique_ptr<grpc::ClientReader<Response>> (
                        Stub::*method)(grpc::ClientContext*, const Request&),
                    const Request& request,
                    grpc::ServerWriter<Response>& writer,
                    const Hook<Response>& hook) {
    grpc::ClientContext context;
    const auto reader = (*stub_.*method)(&context, request);
    Response response;
    for (int i = 0; reader->Read(&response); ++i) {
      if (hook != nullptr) {
        const std::optional<grpc::Status> end = hook(i, response);
        if (end.has_value()) {
          context.TryCancel();
          return *end;
        }
      }
      writer.Write(response);
    }
    return reader->Finish();
  }

  grpc::Status DescribeRun(
      grpc::ServerContext*, const v1::DescribeRunRequest* request,
      grpc::ServerWriter<v1::DescribeRunResponse>* writer) override {
    return Pass(&Stub::DescribeRun, *request, *writer, on_describe);
  }
  grpc::Status ListCoordinates(
      grpc::ServerContext*, const v1::ListCoordinatesRequest* request,
      grpc::ServerWriter<v1::ListCoordinatesResponse>* writer) override {
    return Pass(&Stub::ListCoordinates, *request, *writer, on_coordinates);
  }
  grpc::Status ScanTensors(
      grpc::ServerContext*, const v1::ScanTensorsRequest* request,
      grpc::ServerWriter<v1::ScanTensorsResponse>* writer) override {
    ++scan_count;
    return Pass(&Stub::ScanTensors, *request, *writer, on_scan);
  }
  grpc::Status ReadParts(
      grpc::ServerContext*, const v1::ReadPartsRequest* request,
      grpc::ServerWriter<v1::ReadPartsResponse>* writer) override {
    return Pass(&Stub::ReadParts, *request, *writer, on_parts);
  }
  grpc::Status ListDigests(
      grpc::ServerContext*, const v1::ListDigestsRequest* request,
      grpc::ServerWriter<v1::ListDigestsResponse>* writer) override {
    return Pass(&Stub::ListDigests, *request, *writer, on_digests);
  }

  const std::unique_ptr<Stub> stub_;
  const std::string endpoint_;
  std::unique_ptr<grpc::Server> server_;
};

const grpc::Status kDown(grpc::StatusCode::UNAVAILABLE, "going down");

class GarbageTest : public PeersFixture {
 protected:
  void SetUp() override {
    PeersFixture::SetUp();
    Record(*store_, "run");
    peer_ = std::make_unique<WrongPeer>(channel_,
                                        "unix:" + (directory_ / "wrong.sock"));
  }

  absl::StatusOr<std::unique_ptr<storage::RunReader>> Open() {
    PeerOptions options;
    options.timeout = std::chrono::milliseconds(400);
    source_ = std::make_unique<RemoteSource>(
        std::vector<std::string>{peer_->endpoint()}, options);
    return source_->Open({peer_->endpoint(), "run"}, {});
  }

  // Reads all entries, and returns the final status.
  absl::Status ScanAll() {
    const auto reader = Open();
    if (!reader.ok()) return reader.status();
    return ScanAll(**reader);
  }
  absl::Status ScanAll(storage::RunReader& reader) {
    auto scan = reader.Scan(Everything(), "");
    storage::TensorInfo entry;
    count_ = 0;
    while (true) {
      const auto found = (*scan)->Next(entry);
      if (!found.ok()) {
        // The error is permanent.
        EXPECT_EQ(reader.GetInfo().status(), found.status());
        return found.status();
      }
      if (!*found) return absl::OkStatus();
      ++count_;
    }
  }

  void ExpectGarbage(const absl::Status& status, const std::string& what) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(HasReason(status, ErrorReason::kSourceFailed)) << status;
    EXPECT_THAT(std::string(Message(status)),
                AllOf(HasSubstr(peer_->endpoint()), HasSubstr(what)));
  }

  std::unique_ptr<WrongPeer> peer_;
  std::unique_ptr<RemoteSource> source_;
  int count_ = 0;
};

TEST_P(GarbageTest, PassesWhatIsRight) {
  EXPECT_TRUE(ScanAll().ok());
  EXPECT_EQ(count_, 36);
}

TEST_P(GarbageTest, OfTheRun) {
  using Response = v1::DescribeRunResponse;
  const std::vector<std::pair<std::function<void(Response&)>, std::string>>
      cases = {
          {[](Response& r) { r.mutable_run()->set_name("else"); },
           "another run"},
          {[](Response& r) { r.mutable_run()->set_world_size(-1); },
           "none that a daemon takes"},
          {[](Response& r) {
             r.mutable_run()->mutable_counters()->set_tensor_count(-5);
           },
           "a count"},
          {[](Response& r) {
             r.mutable_run()->mutable_create_time()->set_nanos(-1);
           },
           "a time"},
          {[](Response& r) { r.set_token_end(-1); }, "a count"},
          {[](Response& r) { r.clear_run_id(); }, "without an id"},
      };
  for (const auto& [change, what] : cases) {
    peer_->on_describe = [&change = change](int, Response& r) {
      change(r);
      return std::nullopt;
    };
    ExpectGarbage(Open().status(), what);
  }
  peer_->on_describe = [](int, Response& r) {
    r.set_is_last(false);
    return std::nullopt;
  };
  ExpectGarbage(Open().status(), "ended before its end");
  peer_->on_describe = nullptr;
  const auto reader = Open();
  ASSERT_TRUE(reader.ok());
  peer_->on_describe = [](int, Response& r) {
    for (int32_t& rank : *r.mutable_ranks()) rank = 1 - rank;
    return std::nullopt;
  };
  ExpectGarbage((*reader)->ListRanks().status(), "out of order");
}

TEST_P(GarbageTest, OfEntries) {
  using Response = v1::ScanTensorsResponse;
  const std::vector<std::pair<std::function<void(Response&)>, std::string>>
      cases = {
          {[](Response& r) { r.set_entries("garbage"); }, "batch"},
          {[](Response& r) { r.mutable_entries()->push_back(0); },
           "behind its last"},
          {[](Response& r) { r.set_entry_count(r.entry_count() + 1); },
           "other entries than it counts"},
          {[](Response& r) {
             r.clear_entries();
             r.clear_entry_count();
             r.set_is_last(false);
           },
           "before its end"},
          {[](Response& r) { r.set_entry_count(-1); }, "contradicts itself"},
          {[](Response& r) { r.set_position(std::string(9999, 'p')); },
           "contradicts itself"},
      };
  for (const auto& [change, what] : cases) {
    peer_->on_scan = [&change = change](int, Response& r) {
      change(r);
      return std::nullopt;
    };
    ExpectGarbage(ScanAll(), what);
  }
}

// The entries are valid, but they are not those that were requested.
TEST_P(GarbageTest, OfOtherEntries) {
  using Response = v1::ScanTensorsResponse;
  const auto change = [this](std::function<void(storage::TensorInfo&)> of_each,
                             int repeat = 1) {
    peer_->on_scan = [of_each, repeat](int, Response& r) {
      storage::EntryBatchWriter writer;
      for (int i = 0; i < repeat; ++i) {
        auto reader = storage::EntryBatchReader::Open(r.entries(), "run");
        storage::TensorInfo entry;
        while (*reader->Next(entry)) {
          of_each(entry);
          writer.Add(entry);
        }
      }
      r.set_entry_count(static_cast<int64_t>(writer.entry_count()));
      r.set_entries(writer.Finish());
      return std::nullopt;
    };
  };
  change([](storage::TensorInfo&) {}, 2);
  ExpectGarbage(ScanAll(), "out of order");
  change([](storage::TensorInfo& e) { e.key.token = 5 - e.key.token; });
  ExpectGarbage(ScanAll(), "out of order");
  change([](storage::TensorInfo& e) {
    e.parts[0].place.file |= uint64_t{1} << 63;
  });
  ExpectGarbage(ScanAll(), "no file of a daemon");
  peer_->on_scan = nullptr;
  const Selector asked = {.ranks = {1},
                          .tokens = {{1, 1}},
                          .op_patterns = {"linear"},
                          .ios = {Io::kOutput}};
  for (const auto& of_each :
       std::vector<std::function<void(storage::TensorInfo&)>>{
           [](storage::TensorInfo& e) { e.key.rank = 0; },
           [](storage::TensorInfo& e) { e.key.token = 2; },
           [](storage::TensorInfo& e) { e.key.op = "lines"; },
           [](storage::TensorInfo& e) { e.key.io = Io::kInput; }}) {
    peer_->on_scan = nullptr;
    const auto reader = Open();
    ASSERT_TRUE(reader.ok());
    change(of_each);
    auto scan = (*reader)->Scan(asked, "");
    storage::TensorInfo entry;
    ExpectGarbage((*scan)->Next(entry).status(), "nobody asked");
  }
}

TEST_P(GarbageTest, OfSamples) {
  using Response = v1::ReadPartsResponse;
  const auto read = [this]() -> absl::Status {
    const auto reader = Open();
    if (!reader.ok()) return reader.status();
    auto scan = (*reader)->Scan({}, "");
    storage::TensorInfo entry;
    EXPECT_TRUE(*(*scan)->Next(entry));
    AlignedBuffer buffer;
    return (*reader)->ReadSample(entry, 0, buffer).status();
  };
  EXPECT_TRUE(read().ok()) << read();
  peer_->on_parts = [](int, Response& r) {
    r.mutable_parts(0)->mutable_data()->push_back('x');
    return std::nullopt;
  };
  ExpectGarbage(read(), "do not match their hash");
  peer_->on_parts = [](int, Response& r) {
    r.mutable_parts(0)->clear_data();
    return std::nullopt;
  };
  ExpectGarbage(read(), "do not match their hash");
}

TEST_P(GarbageTest, OfParts) {
  using Response = v1::ReadPartsResponse;
  const auto read = [this]() -> absl::Status {
    const auto reader = Open();
    if (!reader.ok()) return reader.status();
    auto scan = (*reader)->Scan({}, "");
    storage::TensorInfo entry;
    EXPECT_TRUE(*(*scan)->Next(entry));
    AlignedBuffer buffer;
    return (*reader)->ReadPart(entry.parts[0], buffer).status();
  };
  peer_->on_parts = [](int, Response& r) {
    r.mutable_parts(0)->mutable_data()->front() ^= 1;
    return std::nullopt;
  };
  ExpectGarbage(read(), "do not match their hash");
  peer_->on_parts = [](int, Response& r) {
    r.mutable_parts(0)->mutable_data()->push_back('x');
    return std::nullopt;
  };
  ExpectGarbage(read(), "do not match their hash");
  peer_->on_parts = [](int, Response& r) {
    *r.add_parts() = r.parts(0);
    return std::nullopt;
  };
  ExpectGarbage(read(), "nobody asked for");
  peer_->on_parts = [](int, Response& r) {
    r.clear_parts();
    return std::nullopt;
  };
  ExpectGarbage(read(), "has no parts");
  peer_->on_parts = [](int, Response&) {
    return std::optional(grpc::Status::OK);
  };
  ExpectGarbage(read(), "missing");
  // The bytes of one part are damaged in the peer's store, which is not an
  // error of the peer.
  peer_->on_parts = [](int, Response& r) {
    auto& part = *r.mutable_parts(0);
    part.Clear();
    part.set_error_code(1);  // CANCELLED would end the comparison.
    part.set_error_reason("FRAME_CORRUPT");
    part.set_error("do not match");
    return std::nullopt;
  };
  const absl::Status bad = read();
  EXPECT_TRUE(absl::IsDataLoss(bad));
  EXPECT_TRUE(HasReason(bad, ErrorReason::kFrameCorrupt));
  EXPECT_THAT(std::string(Message(bad)), HasSubstr(peer_->endpoint()));
}

TEST_P(GarbageTest, OfCoordinates) {
  using Response = v1::ListCoordinatesResponse;
  for (const auto& change : std::vector<std::function<void(Response&)>>{
           [](Response& r) { r.mutable_tokens(0)->set_rank(-1); },
           [](Response& r) { r.mutable_tokens(0)->set_rank(5); },
           [](Response& r) { r.mutable_tokens(0)->set_device(""); },
           [](Response& r) { r.mutable_tokens(0)->set_steps(1, 0); },
           [](Response& r) {
             r.mutable_tokens(0)->set_steps(1, int64_t{1} << 62);
           }}) {
    peer_->on_coordinates = [&change](int, Response& r) {
      change(r);
      return std::nullopt;
    };
    const auto reader = Open();
    ASSERT_TRUE(reader.ok());
    ExpectGarbage((*reader)->ListCoordinates({}).status(), "something wrong");
  }
}

TEST_P(GarbageTest, OfDigests) {
  testing::EitherStore near(GetParam());
  Record(*near, "near");
  const auto local = (*near).readers().OpenRun("near");
  const auto open = [&] {
    EXPECT_TRUE(Open().ok());
    return source_->OpenBeside({peer_->endpoint(), "run"}, **local, {});
  };
  using Response = v1::ListDigestsResponse;
  peer_->on_digests = [](int, Response& r) {
    if (r.digests_size() > 1) r.mutable_digests()->SwapElements(0, 1);
    return std::nullopt;
  };
  const auto reader = open();
  ASSERT_TRUE((*reader)->ListCoordinates({}).ok());
  ExpectGarbage(ScanAll(**reader), "out of order");
  // Digests of another version are ignored, so all entries are read from the
  // peer.
  peer_->on_digests = [](int, Response& r) {
    r.set_version(99);
    return std::nullopt;
  };
  const auto other = open();
  ASSERT_TRUE((*other)->ListCoordinates({}).ok());
  EXPECT_TRUE(ScanAll(**other).ok());
  EXPECT_EQ(count_, 36);
  EXPECT_EQ(peer_->scan_count, 1);
}

TEST_P(GarbageTest, ThatBreaksOffIsAskedForAgain) {
  using Response = v1::ScanTensorsResponse;
  std::atomic<int> broken = 0;
  // Every other stream returns one message with the first entry. Then the peer
  // is unavailable.
  peer_->on_scan = [&broken](int i, Response&) -> std::optional<grpc::Status> {
    if (i > 0 || broken++ % 2 == 0) return kDown;
    return std::nullopt;
  };
  const auto reader = Open();
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(ScanAll(**reader).ok());
  EXPECT_EQ(count_, 36);
  EXPECT_GT(peer_->scan_count, 1);
  std::atomic<int> parts_broken = 0;
  peer_->on_parts = [&parts_broken](
                        int,
                        v1::ReadPartsResponse&) -> std::optional<grpc::Status> {
    if (parts_broken++ < 2) return kDown;
    return std::nullopt;
  };
  auto scan = (*reader)->Scan({}, "");
  storage::TensorInfo entry;
  ASSERT_TRUE(*(*scan)->Next(entry));
  AlignedBuffer buffer;
  EXPECT_TRUE((*reader)->ReadPart(entry.parts[0], buffer).ok());
}

TEST_P(GarbageTest, OfAPeerThatIsFullIsAskedForAgain) {
  const grpc::Status full = service::ToGrpcStatus(
      WithReason(absl::ResourceExhaustedError("256 streams are read at a time"),
                 ErrorReason::kRequestsExhausted));
  std::atomic<int> refused = 0;
  peer_->on_scan =
      [&](int, v1::ScanTensorsResponse&) -> std::optional<grpc::Status> {
    if (refused++ % 2 == 0) return full;
    return std::nullopt;
  };
  const auto reader = Open();
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(ScanAll(**reader).ok());
  EXPECT_EQ(count_, 36);
  EXPECT_GT(peer_->scan_count, 1);
  // If the peer stays full, the error says so.
  peer_->on_scan = [&](int, v1::ScanTensorsResponse&) {
    return std::optional(full);
  };
  const absl::Status status = ScanAll();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(Message(status)),
              AllOf(HasSubstr(peer_->endpoint()),
                    HasSubstr("256 streams are read at a time")));
}

TEST_P(GarbageTest, IsGivenUpInTime) {
  using Response = v1::ScanTensorsResponse;
  peer_->on_scan = [](int, Response&) { return std::optional(kDown); };
  const absl::Status down = ScanAll();
  EXPECT_TRUE(absl::IsUnavailable(down));
  EXPECT_TRUE(HasReason(down, ErrorReason::kSourceFailed));
  EXPECT_THAT(std::string(Message(down)), HasSubstr("going down"));
  peer_->on_scan = [](int, Response&) -> std::optional<grpc::Status> {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return std::nullopt;
  };
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status late = ScanAll();
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            std::chrono::milliseconds(1400));
  EXPECT_TRUE(absl::IsUnavailable(late));
  EXPECT_THAT(std::string(Message(late)),
              HasSubstr("nothing has come from it for 400 ms"));
}

TEST_P(GarbageTest, AnOlderDaemonSaysSo) {
  peer_->on_describe = [](int, v1::DescribeRunResponse&) {
    return std::optional(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""));
  };
  const absl::Status old = Open().status();
  EXPECT_TRUE(absl::IsUnimplemented(old));
  EXPECT_THAT(std::string(Message(old)),
              AllOf(HasSubstr(peer_->endpoint()), HasSubstr("version")));
}

TEST_P(GarbageTest, StopsWhenItIsAskedTo) {
  peer_->on_scan = [](int,
                      v1::ScanTensorsResponse&) -> std::optional<grpc::Status> {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    return std::nullopt;
  };
  const auto reader = Open();
  auto scan = (*reader)->Scan(Everything(), "");
  storage::TensorInfo entry;
  const auto stopped = (*scan)->Next(
      entry, [] { return absl::DeadlineExceededError("enough"); });
  EXPECT_TRUE(absl::IsDeadlineExceeded(stopped.status()));
  // The scan continues where it stopped.
  count_ = 0;
  while (*(*scan)->Next(entry)) ++count_;
  EXPECT_EQ(count_, 36);
}

INSTANTIATE_TEST_SUITE_P(Stores, GarbageTest,
                         ::testing::Values(testing::StoreKind::kFake),
                         testing::StoreName);

}  // namespace
}  // namespace msitd::peers
