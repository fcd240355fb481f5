// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <complex>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "client/libmsit/include/msit/msit.hpp"
#include "protos/chunk/chunk.h"
#include "tests/unit/client/libmsit/grpc/fake_ingest_service.h"

// Tests of msit.hpp with the shared library, which loads the gRPC transport
// itself.
namespace msit {
namespace {

constexpr std::chrono::seconds kLong{60};

class CppFaceTest : public testing::Test {
 protected:
  CppFaceTest() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    endpoint_ = "127.0.0.1:" + std::to_string(port);
    options_ = DefaultOptions();
    options_.run = "run";
    options_.endpoint = endpoint_.c_str();
  }
  ~CppFaceTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
  }

  msitd::libmsit::FakeIngestService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string endpoint_;
  msit_options options_;
};

TEST_F(CppFaceTest, TypedRecordArrives) {
  Client client;
  ASSERT_TRUE(Client::Open(options_, &client).ok()) << msit_last_error();
  const std::vector<std::complex<float>> data = {{1, 2}, {3, 4}, {5, 6}};
  const int64_t dims[] = {3, 1};
  ASSERT_TRUE(client
                  .Record<std::complex<float>>({.op = "op",
                                                .index = "kw",
                                                .token = 5,
                                                .device = "gpu:1",
                                                .placement = "0+1/1:R"},
                                               data, dims)
                  .ok());
  ASSERT_TRUE(client.Flush(kLong).ok());
  EXPECT_EQ(client.counters().acknowledged_count, 1u);

  const auto chunks = service_.chunks();
  ASSERT_EQ(chunks.size(), 1u);
  const auto chunk = msitd::chunk::Chunk::FromProducer(chunks[0]);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_EQ(chunk->records().size(), 1u);
  const auto& record = chunk->records()[0];
  EXPECT_EQ(record.dtype, MSIT_DTYPE_COMPLEX64);
  EXPECT_EQ(record.token, 5);
  EXPECT_EQ(chunk->Text(record.device), "gpu:1");
  EXPECT_EQ(chunk->Text(record.index), "kw");
  EXPECT_EQ(chunk->Text(record.placement), "0+1/1:R");
  EXPECT_EQ(std::memcmp(chunk->PayloadOf(record).data(), data.data(), 24), 0);
}

TEST_F(CppFaceTest, ReservationArrivesOncePublished) {
  Client client;
  ASSERT_TRUE(Client::Open(options_, &client).ok()) << msit_last_error();
  const int64_t dims[] = {3};
  const float data[] = {1, 2, 3};
  Reservation reservation;
  ASSERT_TRUE(
      client.Reserve({.op = "op"}, MSIT_DTYPE_FLOAT32, dims, &reservation)
          .ok());
  ASSERT_TRUE(reservation);
  ASSERT_EQ(reservation.spans().size(), 1u);
  ASSERT_EQ(reservation.spans()[0].bytes, sizeof(data));
  EXPECT_EQ(client.Flush(std::chrono::milliseconds(50)).code(),
            MSIT_ERROR_TIMEOUT);
  EXPECT_TRUE(service_.chunks().empty());
  std::memcpy(reservation.spans()[0].data, data, sizeof(data));
  ASSERT_TRUE(reservation.Publish().ok());
  EXPECT_FALSE(reservation);
  {
    Reservation given_up;
    ASSERT_TRUE(
        client.Reserve({.op = "op"}, MSIT_DTYPE_FLOAT32, dims, &given_up).ok());
  }
  ASSERT_TRUE(client.Flush(kLong).ok());
  EXPECT_EQ(client.counters().acknowledged_count, 1u);
  EXPECT_EQ(client.counters().dropped_count, 1u);
  const auto chunks = service_.chunks();
  ASSERT_EQ(chunks.size(), 1u);
  const auto chunk = msitd::chunk::Chunk::FromProducer(chunks[0]);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  ASSERT_EQ(chunk->records().size(), 1u);
  EXPECT_EQ(std::memcmp(chunk->PayloadOf(chunk->records()[0]).data(), data,
                        sizeof(data)),
            0);
}

TEST_F(CppFaceTest, RefusalOfTheFaceItselfSaysWhy) {
  Client client;
  ASSERT_TRUE(Client::Open(options_, &client).ok()) << msit_last_error();
  const float data[] = {1, 2};
  const int64_t dims[] = {3};
  const int64_t strides[] = {4, 4};
  const Status elements = client.Record<float>({.op = "op"}, data, dims);
  const Status shape =
      client.RecordRaw({.op = "op"}, MSIT_DTYPE_FLOAT32, dims, strides, data);
  EXPECT_EQ(elements.code(), MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(elements.message(),
               "there are not as many elements as dims say");
  EXPECT_EQ(shape.code(), MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(shape.message(), "there are not as many strides as dims");
  EXPECT_STREQ(Status().message(), "");
  // Errors of the library keep their messages.
  EXPECT_STREQ(
      client.RecordRaw({.op = ""}, MSIT_DTYPE_FLOAT32, {}, {}, data).message(),
      "op is empty");
}

TEST_F(CppFaceTest, ValuesDocumentsAndFactsArrive) {
  Client client;
  ASSERT_TRUE(Client::Open(options_, &client).ok()) << msit_last_error();
  const Key key{.op = "op", .io = MSIT_IO_INPUT};
  ASSERT_TRUE(client.RecordDocument("tree.json", "{}").ok());
  ASSERT_TRUE(client.RecordNumber(key, true, "True").ok());
  ASSERT_TRUE(
      client.RecordNumber(key, std::complex<double>(1, 2), "(1+2j)").ok());
  ASSERT_TRUE(client.RecordValue(key, MSIT_KIND_NONE, "None").ok());
  const float data[] = {1, 2};
  const int64_t dims[] = {2};
  const Facts facts{MSIT_REQUIRES_GRAD_YES, "model.py:1 forward", 9};
  ASSERT_TRUE(client.Record<float>(key, data, dims, facts).ok());
  // The client knows the bytes by their identity.
  ASSERT_TRUE(
      client.RecordRaw(key, MSIT_DTYPE_FLOAT32, dims, {}, nullptr, facts).ok());
  EXPECT_EQ(client
                .RecordRaw(key, MSIT_DTYPE_FLOAT32, dims, {}, nullptr,
                           {.requires_grad = {}, .stack = {}, .identity = 8})
                .code(),
            MSIT_ERROR_UNKNOWN_IDENTITY);
  EXPECT_EQ(client.RecordValue(key, static_cast<msit_kind>(256), "").code(),
            MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(
      client
          .Record<float>(key, data, dims,
                         {.requires_grad = static_cast<msit_requires_grad>(3),
                          .stack = {},
                          .identity = {}})
          .message(),
      "requires_grad 3 is unknown");
  ASSERT_TRUE(client.Flush(kLong).ok());
  EXPECT_EQ(client.counters().acknowledged_count, 6u);
  EXPECT_EQ(client.counters().aliased_count, 1u);
  EXPECT_EQ(client.counters().aliased_bytes, 8u);

  const auto chunks = service_.chunks();
  ASSERT_EQ(chunks.size(), 1u);
  const auto chunk = msitd::chunk::Chunk::FromProducer(chunks[0]);
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  const auto records = chunk->records();
  ASSERT_EQ(records.size(), 6u);
  const msitd::RecordKind kinds[] = {
      msitd::RecordKind::kDocument, msitd::RecordKind::kNumber,
      msitd::RecordKind::kNumber,   msitd::RecordKind::kNone,
      msitd::RecordKind::kTensor,   msitd::RecordKind::kTensor};
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(msitd::chunk::KindOf(records[i]), kinds[i]) << i;
  }
  EXPECT_EQ(records[1].dtype, MSIT_DTYPE_BOOL);
  EXPECT_EQ(records[2].dtype, MSIT_DTYPE_COMPLEX128);
  EXPECT_EQ(chunk->Text(chunk->ExtraOf(records[2]).value), "(1+2j)");
  EXPECT_EQ(msitd::chunk::RequiresGradOf(records[4]), true);
  EXPECT_EQ(chunk->Text(chunk->ExtraOf(records[4]).stack), facts.stack);
  EXPECT_TRUE(chunk->ExtraOf(records[5]).is_alias());
}

TEST_F(CppFaceTest, MovedClientGoesOnAndTheEmptyOneRefuses) {
  Client first;
  ASSERT_TRUE(Client::Open(options_, &first).ok());
  Client second = std::move(first);
  const float value = 1;
  EXPECT_TRUE(second.Record<float>({.op = "op"}, {&value, 1}, {}).ok());
  EXPECT_EQ(first.Record<float>({.op = "op"}, {&value, 1}, {}).code(),
            MSIT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(first.counters().recorded_count, 0u);
  EXPECT_EQ(second.NextToken(), 1);
  EXPECT_EQ(second.run(), "run");
  EXPECT_EQ(first.run(), "");
  EXPECT_TRUE(second.Close(kLong).ok());
}

TEST(DTypeOfTest, MapsEveryType) {
  static_assert(DTypeOf<bool>() == MSIT_DTYPE_BOOL);
  static_assert(DTypeOf<int8_t>() == MSIT_DTYPE_INT8);
  static_assert(DTypeOf<int16_t>() == MSIT_DTYPE_INT16);
  static_assert(DTypeOf<int64_t>() == MSIT_DTYPE_INT64);
  static_assert(DTypeOf<uint8_t>() == MSIT_DTYPE_UINT8);
  static_assert(DTypeOf<uint32_t>() == MSIT_DTYPE_UINT32);
  static_assert(DTypeOf<uint64_t>() == MSIT_DTYPE_UINT64);
  static_assert(DTypeOf<double>() == MSIT_DTYPE_FLOAT64);
  static_assert(DTypeOf<std::complex<double>>() == MSIT_DTYPE_COMPLEX128);
}

}  // namespace
}  // namespace msit
