// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/attachment_service.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "protos/base/attachment_limits.h"
#include "protos/chunk/chunk.h"
#include "tests/unit/daemon/service/service_fixture.h"
#include "tests/unit/daemon/service/test_admission.h"

namespace msitd::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Stub = v1::AttachmentService::Stub;

// The client side of one WriteAttachment call.
class Write {
 public:
  Write(Stub& stub, const std::string& run, const std::string& name,
        bool replace = false)
      : call_(stub.WriteAttachment(&context_, &attachment_)) {
    v1::WriteAttachmentRequest request;
    request.mutable_open()->set_run(run);
    request.mutable_open()->set_name(name);
    request.mutable_open()->set_media_type("text/plain");
    request.mutable_open()->set_replace(replace);
    call_->Write(request);
  }
  Write(Stub& stub, const v1::WriteAttachmentRequest& first)
      : call_(stub.WriteAttachment(&context_, &attachment_)) {
    call_->Write(first);
  }

  void Send(const std::string& data) {
    v1::WriteAttachmentRequest request;
    request.set_data(data);
    call_->Write(request);
  }
  void Send(const v1::WriteAttachmentRequest& request) {
    (void)TrySend(request);
  }
  // Returns false after the daemon has ended the call.
  bool TrySend(const v1::WriteAttachmentRequest& request) {
    return call_->Write(request);
  }

  grpc::Status Commit(const std::string& hash = {}) {
    v1::WriteAttachmentRequest request;
    request.mutable_commit()->set_hash(hash);
    call_->Write(request);
    return Finish();
  }
  // Ends the call without a commit.
  grpc::Status Finish() {
    call_->WritesDone();
    return call_->Finish();
  }
  grpc::Status Cancel() {
    context_.TryCancel();
    return call_->Finish();
  }
  // Waits until the daemon ends the call.
  grpc::Status Await() { return call_->Finish(); }

  const v1::Attachment& attachment() const { return attachment_; }

 private:
  grpc::ClientContext context_;
  v1::Attachment attachment_;
  std::unique_ptr<grpc::ClientWriter<v1::WriteAttachmentRequest>> call_;
};

std::string HashOf(const std::string& bytes) {
  return HashText(chunk::HashBytes(std::as_bytes(std::span(bytes))));
}

v1::WriteAttachmentRequest OpeningOf(const std::string& name) {
  v1::WriteAttachmentRequest request;
  request.mutable_open()->set_run("run");
  request.mutable_open()->set_name(name);
  request.mutable_open()->set_media_type("text/plain");
  return request;
}

class AttachmentServiceTest : public EitherStoreFixture {
 protected:
  void SetUp() override {
    EitherStoreFixture::SetUp();
    attachments_ = v1::AttachmentService::NewStub(channel_);
    ASSERT_TRUE(store_->runs().CreateRun({"run", 0, {}}).ok());
  }

  grpc::Status Put(const std::string& name, const std::string& bytes,
                   bool replace = false) {
    Write write(*attachments_, "run", name, replace);
    for (size_t at = 0; at < bytes.size(); at += kAttachmentPieceBytesMax) {
      write.Send(bytes.substr(at, kAttachmentPieceBytesMax));
    }
    return write.Commit(HashOf(bytes));
  }

  grpc::Status Get(const std::string& run, const std::string& name,
                   v1::Attachment& out) {
    v1::GetAttachmentRequest request;
    request.set_run(run);
    request.set_name(name);
    return Invoke(*attachments_, &Stub::GetAttachment, request, out);
  }
  std::string OutcomeOfGet(const std::string& run, const std::string& name) {
    v1::Attachment ignored;
    return Outcome(Get(run, name, ignored));
  }

  grpc::Status Read(const v1::ReadAttachmentRequest& request,
                    v1::Attachment& attachment, std::string& bytes) {
    grpc::ClientContext context;
    const auto reader = attachments_->ReadAttachment(&context, request);
    v1::ReadAttachmentResponse response;
    int64_t offset = request.offset_bytes();
    bool is_first = true;
    while (reader->Read(&response)) {
      EXPECT_EQ(response.has_attachment(), is_first);
      EXPECT_EQ(response.data().empty(), is_first);
      EXPECT_EQ(response.offset_bytes(), offset);
      EXPECT_LE(response.data().size(), kAttachmentPieceBytesMax);
      if (is_first) attachment = response.attachment();
      bytes += response.data();
      offset += static_cast<int64_t>(response.data().size());
      is_first = false;
    }
    return reader->Finish();
  }
  std::string OutcomeOfRead(const v1::ReadAttachmentRequest& request) {
    v1::Attachment attachment;
    std::string bytes;
    return Outcome(Read(request, attachment, bytes));
  }

  std::unique_ptr<Stub> attachments_;
};

INSTANTIATE_TEST_SUITE_P(Stores, AttachmentServiceTest,
                         ::testing::Values(StoreKind::kFake, StoreKind::kReal),
                         StoreName);

TEST_P(AttachmentServiceTest, WritesAndReadsInPieces) {
  std::string bytes(3'000'000, 'x');
  for (size_t i = 0; i < bytes.size(); i += 999) bytes[i] = char(i / 999);
  ASSERT_EQ(Outcome(Put("tree/été", bytes)), "0 ");
  v1::Attachment got;
  ASSERT_TRUE(Get("run", "tree/été", got).ok());
  EXPECT_EQ(got.run(), "run");
  EXPECT_EQ(got.name(), "tree/été");
  EXPECT_EQ(got.media_type(), "text/plain");
  EXPECT_EQ(got.size_bytes(), 3'000'000);
  EXPECT_EQ(got.hash(), HashOf(bytes));
  EXPECT_GT(got.create_time().seconds(), 0);

  v1::ReadAttachmentRequest request;
  request.set_run("run");
  request.set_name("tree/été");
  v1::Attachment attachment;
  std::string read;
  ASSERT_EQ(Outcome(Read(request, attachment, read)), "0 ");
  EXPECT_TRUE(read == bytes);
  EXPECT_EQ(attachment.DebugString(), got.DebugString());
  // Reads from the middle, and near the end.
  for (const int64_t offset : {1'234'567, 3'000'000}) {
    request.set_offset_bytes(offset);
    request.set_hash(got.hash());
    read.clear();
    ASSERT_EQ(Outcome(Read(request, attachment, read)), "0 ");
    EXPECT_TRUE(read == bytes.substr(offset));
  }
  request.set_offset_bytes(3'000'001);
  EXPECT_EQ(OutcomeOfRead(request), "11 OFFSET_OUT_OF_RANGE");
  request.set_offset_bytes(-1);
  EXPECT_EQ(OutcomeOfRead(request), "11 OFFSET_OUT_OF_RANGE");
  request.set_offset_bytes(0);
  request.set_hash(std::string(32, '0'));
  EXPECT_EQ(OutcomeOfRead(request), "5 ATTACHMENT_NOT_FOUND");
}

TEST_P(AttachmentServiceTest, ListsPageByPageAndDeletes) {
  for (const char* name : {"c", "a", "b"}) {
    ASSERT_EQ(Outcome(Put(name, name)), "0 ");
  }
  v1::ListAttachmentsRequest request;
  request.set_run("run");
  request.set_page_size(2);
  std::vector<std::string> names;
  v1::ListAttachmentsResponse page;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(
        Invoke(*attachments_, &Stub::ListAttachments, request, page).ok());
    for (const auto& a : page.attachments()) names.push_back(a.name());
    request.set_page_token(page.next_page_token());
  }
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
  EXPECT_EQ(page.next_page_token(), "");
  request.set_page_token("forged");
  EXPECT_EQ(
      Outcome(Invoke(*attachments_, &Stub::ListAttachments, request, page)),
      "3 PAGE_TOKEN_INVALID");

  v1::DeleteAttachmentRequest gone;
  gone.set_run("run");
  gone.set_name("b");
  google::protobuf::Empty empty;
  const auto remove = [&] {
    return Outcome(Invoke(*attachments_, &Stub::DeleteAttachment, gone, empty));
  };
  EXPECT_EQ(remove(), "0 ");
  EXPECT_EQ(remove(), "5 ATTACHMENT_NOT_FOUND");
  EXPECT_EQ(OutcomeOfGet("run", "b"), "5 ATTACHMENT_NOT_FOUND");
  EXPECT_EQ(OutcomeOfGet("no", "b"), "5 RUN_NOT_FOUND");
}

TEST_P(AttachmentServiceTest, WhatIsNotCommittedIsNotThere) {
  {
    Write write(*attachments_, "run", "a");
    write.Send("bytes");
    EXPECT_EQ(Outcome(write.Finish()), "3 FIELD_INVALID");
  }
  EXPECT_EQ(OutcomeOfGet("run", "a"), "5 ATTACHMENT_NOT_FOUND");
  Write write(*attachments_, "run", "a");
  write.Send("bytes");
  EXPECT_EQ(write.Cancel().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(OutcomeOfGet("run", "a"), "5 ATTACHMENT_NOT_FOUND");
}

TEST_P(AttachmentServiceTest, OneIsReplacedOnlyIfThatWasAskedFor) {
  ASSERT_EQ(Outcome(Put("a", "old")), "0 ");
  EXPECT_EQ(Outcome(Put("a", "new")), "6 ATTACHMENT_EXISTS");
  ASSERT_EQ(Outcome(Put("a", "new", /*replace=*/true)), "0 ");
  v1::Attachment got;
  ASSERT_TRUE(Get("run", "a", got).ok());
  EXPECT_EQ(got.hash(), HashOf("new"));
}

TEST_P(AttachmentServiceTest, OfTwoWritersOfANameOneHasIt) {
  Write one(*attachments_, "run", "a");
  Write two(*attachments_, "run", "a");
  one.Send("one");
  two.Send("two");
  const std::string first = Outcome(one.Commit());
  const std::string second = Outcome(two.Commit());
  EXPECT_EQ(first, "0 ");
  EXPECT_EQ(second, "6 ATTACHMENT_EXISTS");
  v1::Attachment got;
  ASSERT_TRUE(Get("run", "a", got).ok());
  EXPECT_EQ(got.hash(), HashOf("one"));
}

TEST_P(AttachmentServiceTest, ARunThatIsDeletedMeanwhileTakesNothing) {
  Write write(*attachments_, "run", "a");
  write.Send("bytes");
  // When the daemon reads the next message, it has already opened the
  // attachment.
  ASSERT_TRUE(store_->runs().DeleteRun("run").ok());
  EXPECT_EQ(Outcome(write.Commit()), "5 RUN_NOT_FOUND");
}

TEST_P(AttachmentServiceTest, SizesAndHashesThatLieAreRefused) {
  v1::WriteAttachmentRequest open = OpeningOf("a");
  open.mutable_open()->set_size_bytes(4);
  {
    Write write(*attachments_, open);
    write.Send("12345");
    const grpc::Status status = write.Await();
    EXPECT_EQ(Outcome(status), "3 FIELD_INVALID");
    EXPECT_THAT(status.error_message(), HasSubstr("4 bytes were announced"));
  }
  {
    Write write(*attachments_, open);
    write.Send("123");
    EXPECT_EQ(Outcome(write.Commit()), "3 FIELD_INVALID");
  }
  {
    Write write(*attachments_, open);
    write.Send("1234");
    EXPECT_EQ(Outcome(write.Commit(HashOf("1235"))), "3 FIELD_INVALID");
  }
  EXPECT_EQ(OutcomeOfGet("run", "a"), "5 ATTACHMENT_NOT_FOUND");
  open.mutable_open()->set_size_bytes(-1);
  EXPECT_EQ(Outcome(Write(*attachments_, open).Await()), "3 FIELD_INVALID");
  open.mutable_open()->set_size_bytes(int64_t{kAttachmentBytesMax} + 1);
  EXPECT_EQ(Outcome(Write(*attachments_, open).Await()),
            "8 ATTACHMENTS_EXHAUSTED");
}

TEST_P(AttachmentServiceTest, PiecesOutOfTheirBoundsAreRefused) {
  {
    Write write(*attachments_, "run", "a");
    write.Send(std::string());
    EXPECT_EQ(Outcome(write.Await()), "3 FIELD_INVALID");
  }
  {
    Write write(*attachments_, "run", "a");
    write.Send(std::string(kAttachmentPieceBytesMax + 1, 'x'));
    EXPECT_EQ(Outcome(write.Await()), "8 REQUEST_TOO_LARGE");
  }
  {
    Write write(*attachments_, "run", "a");
    write.Send(std::string(2 * kAttachmentPieceBytesMax, 'x'));
    EXPECT_EQ(Outcome(write.Await()), "8 REQUEST_TOO_LARGE");
  }
  Write write(*attachments_, "run", "a");
  const std::string piece(kAttachmentPieceBytesMax, 'x');
  for (uint64_t sent = 0; sent <= kAttachmentBytesMax; sent += piece.size()) {
    write.Send(piece);
  }
  EXPECT_EQ(Outcome(write.Await()), "8 ATTACHMENTS_EXHAUSTED");
}

TEST_P(AttachmentServiceTest, MessagesOutOfOrderAreRefused) {
  v1::WriteAttachmentRequest data;
  data.set_data("x");
  EXPECT_EQ(Outcome(Write(*attachments_, data).Await()), "3 FIELD_INVALID");
  v1::WriteAttachmentRequest commit;
  commit.mutable_commit();
  EXPECT_EQ(Outcome(Write(*attachments_, commit).Await()), "3 FIELD_INVALID");
  EXPECT_EQ(Outcome(Write(*attachments_, v1::WriteAttachmentRequest()).Await()),
            "3 FIELD_INVALID");
  Write twice(*attachments_, "run", "a");
  twice.Send(OpeningOf("a"));
  EXPECT_EQ(Outcome(twice.Await()), "3 FIELD_INVALID");
}

TEST_P(AttachmentServiceTest, NamesAreChecked) {
  const auto outcome = [&](const std::string& name, const std::string& type) {
    v1::WriteAttachmentRequest open = OpeningOf(name);
    open.mutable_open()->set_media_type(type);
    return Outcome(Write(*attachments_, open).Await());
  };
  EXPECT_EQ(outcome("", "a/b"), "3 NAME_INVALID");
  EXPECT_EQ(outcome(std::string("a\0b", 3), "a/b"), "3 NAME_INVALID");
  EXPECT_EQ(outcome(std::string(129, 'a'), "a/b"), "3 NAME_TOO_LONG");
  EXPECT_EQ(outcome("a", ""), "3 NAME_INVALID");
  EXPECT_EQ(outcome("a", std::string(129, 'a')), "3 NAME_TOO_LONG");
  EXPECT_EQ(Outcome(Write(*attachments_, "no", "a").Await()),
            "5 RUN_NOT_FOUND");
}

// Reports when writing has begun.
class WatchedAttachments final : public storage::Attachments {
 public:
  explicit WatchedAttachments(storage::Attachments& inner) : inner_(inner) {}

  void AwaitBegin() {
    MutexLock lock(mu_);
    while (!has_begun_) changed_.Wait(mu_);
  }

  absl::StatusOr<std::unique_ptr<storage::AttachmentWriter>> Begin(
      const storage::AttachmentSpec& spec) override {
    auto writer = inner_.Begin(spec);
    {
      MutexLock lock(mu_);
      has_begun_ = true;
    }
    changed_.NotifyAll();
    return writer;
  }
  absl::StatusOr<storage::AttachmentInfo> GetAttachment(
      std::string_view run, std::string_view name) override {
    return inner_.GetAttachment(run, name);
  }
  absl::StatusOr<std::vector<storage::AttachmentInfo>> ListAttachments(
      std::string_view run, std::string_view after, size_t limit) override {
    return inner_.ListAttachments(run, after, limit);
  }
  absl::StatusOr<std::string> ReadAttachment(
      const storage::AttachmentInfo& attachment, uint64_t offset,
      size_t limit) override {
    return inner_.ReadAttachment(attachment, offset, limit);
  }
  absl::Status DeleteAttachment(std::string_view run,
                                std::string_view name) override {
    return inner_.DeleteAttachment(run, name);
  }

 private:
  storage::Attachments& inner_;
  Mutex mu_;
  CondVar changed_;
  bool has_begun_ ABSL_GUARDED_BY(mu_) = false;
};

// Only the service, with timeouts that are short enough for a test.
class AttachmentTimesTest : public ::testing::Test {
 protected:
  void Serve(AttachmentWrites writes) {
    service_.emplace(attachments_, pipeline_, CallPools{pool_, pool_, pool_},
                     gate_.admission(), writes);
    const std::string endpoint = "unix:" + (directory_ / "s");
    grpc::ServerBuilder builder;
    builder.AddListeningPort(endpoint,
                             testing::CredentialsOf(access::Daemon()));
    builder.RegisterService(&*service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::AttachmentService::NewStub(Connect(endpoint));
    ASSERT_TRUE(store_.CreateRun({"run", 0, {}}).ok());
  }
  void TearDown() override {
    server_->Shutdown();
    pool_.Stop();
  }

  testing::TempDir directory_;
  testing::FakeStore store_;
  ingest::IngestPipeline pipeline_{store_, store_, {}};
  WatchedAttachments attachments_{store_.attachments()};
  TaskPool pool_{"query", 2, 100};
  testing::OpenGate gate_;
  std::optional<AttachmentServiceImpl> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Stub> stub_;
};

TEST_F(AttachmentTimesTest, NoMoreAreWrittenAtATimeThanMayBe) {
  Serve({.count_max = 1, .times = AttachmentWrites().times});
  Write one(*stub_, "run", "one");
  attachments_.AwaitBegin();
  const grpc::Status refused = Write(*stub_, "run", "two").Await();
  EXPECT_EQ(Outcome(refused), "8 REQUESTS_EXHAUSTED");
  EXPECT_TRUE(DetailsOf(refused).has_retry_info);
  EXPECT_EQ(Outcome(one.Commit()), "0 ");
  EXPECT_EQ(Outcome(Write(*stub_, "run", "two").Commit()), "0 ");
}

TEST_F(AttachmentTimesTest, AClientThatStopsIsLetGo) {
  Serve({.count_max = 1,
         .times = {std::chrono::milliseconds(1), std::chrono::minutes(1)}});
  EXPECT_EQ(Write(*stub_, "run", "a").Await().error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  // Its place is released as well, shortly after the client has received the
  // error.
  std::string outcome;
  for (int i = 0; i < 10'000; ++i) {
    outcome = Outcome(Write(*stub_, "run", "b").Finish());
    if (outcome != "8 REQUESTS_EXHAUSTED") break;
  }
  EXPECT_NE(outcome, "8 REQUESTS_EXHAUSTED");
}

TEST_F(AttachmentTimesTest, AClientThatNeverEndsIsLetGo) {
  Serve({.count_max = 1,
         .times = {std::chrono::minutes(1), std::chrono::milliseconds(50)}});
  Write write(*stub_, "run", "a");
  // Each piece arrives in time, and there is no last one. The loop ends when
  // the call ends.
  for (uint64_t sent = 0; sent < kAttachmentBytesMax; ++sent) {
    v1::WriteAttachmentRequest piece;
    piece.set_data("x");
    if (!write.TrySend(piece)) break;
  }
  EXPECT_EQ(write.Await().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace msitd::service
