// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "daemon/query/tensor_reader.h"
#include "protos/base/limits.h"
#include "protos/base/resource_name.h"
#include "tests/unit/daemon/service/service_fixture.h"

namespace msitd::service {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using testing::ProducedTensor;
using testing::Producer;

class ReadTensorsTest : public EitherStoreFixture {
 protected:
  using Found = std::vector<std::pair<int, std::vector<float>>>;

  grpc::Status Read(const std::vector<std::string>& names) {
    grpc::ClientContext context;
    v1::ReadTensorsRequest request;
    for (const std::string& name : names) request.add_names(name);
    const auto reader = tensors_->ReadTensors(&context, request);
    v1::ReadTensorsResponse response;
    found_.clear();
    message_count_ = 0;
    while (reader->Read(&response)) {
      ++message_count_;
      size_t bytes = 0;
      for (const auto& tensor : response.tensors()) {
        bytes += tensor.data().size();
        std::vector<float> values(tensor.data().size() / sizeof(float));
        std::memcpy(values.data(), tensor.data().data(), tensor.data().size());
        found_.emplace_back(tensor.position(), std::move(values));
      }
      EXPECT_LE(bytes, query::TensorReader::kPieceBytesMax);
    }
    return reader->Finish();
  }

  Found found_;
  int message_count_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Stores, ReadTensorsTest,
                         ::testing::Values(StoreKind::kFake, StoreKind::kReal),
                         StoreName);

TEST_P(ReadTensorsTest, ManyComeInAMessage) {
  Producer producer("run", 0, 7);
  std::vector<ProducedTensor> tensors;
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) {
    tensors.push_back(
        {.op = fmt::format("op{}", i), .values = {static_cast<float>(i)}});
    names.push_back(FormatTensorName(producer.KeyOf(tensors.back())));
  }
  Ingest(producer, {tensors});
  ASSERT_EQ(Outcome(Read(names)), "0 ");
  EXPECT_EQ(message_count_, 1);
  ASSERT_EQ(found_.size(), names.size());
  for (int i = 0; i < 300; ++i) {
    EXPECT_THAT(found_[static_cast<size_t>(i)],
                Pair(i, ElementsAre(static_cast<float>(i))));
  }
}

TEST_P(ReadTensorsTest, MessagesHaveALimit) {
  Producer producer("run", 0, 7);
  std::vector<std::vector<ProducedTensor>> chunks;
  std::vector<std::string> names;
  constexpr size_t kCount = query::TensorReader::kPieceBytesMax / 4 * 3 / 4;
  for (int i = 0; i < 6; ++i) {
    const ProducedTensor tensor{
        .op = fmt::format("op{}", i),
        .values = std::vector<float>(kCount, static_cast<float>(i))};
    names.push_back(FormatTensorName(producer.KeyOf(tensor)));
    chunks.push_back({tensor});
  }
  Ingest(producer, chunks);
  ASSERT_EQ(Outcome(Read(names)), "0 ");
  EXPECT_EQ(message_count_, 6);
  ASSERT_EQ(found_.size(), 6u);
  EXPECT_EQ(found_[5].second, std::vector<float>(kCount, 5.0f));
}

TEST_P(ReadTensorsTest, WhatIsNotThereIsLeftOut) {
  Producer producer("run", 0, 7);
  const ProducedTensor there{.op = "there", .values = {1}};
  Ingest(producer, {{there}});
  const std::string name = FormatTensorName(producer.KeyOf(there));
  const std::string other =
      FormatTensorName(producer.KeyOf({.op = "other", .values = {1}}));
  ASSERT_EQ(Outcome(Read({other, name, other})), "0 ");
  EXPECT_THAT(found_, ElementsAre(Pair(1, ElementsAre(1.0f))));
  Producer none("none", 0, 7);
  EXPECT_EQ(Outcome(Read({FormatTensorName(none.KeyOf(there))})), "0 ");
  EXPECT_TRUE(found_.empty());
}

// A real store is needed, because the fake store contains only complete
// tensors.
class IncompleteTensorsTest : public ServiceFixture {
 protected:
  IncompleteTensorsTest() : ServiceFixture(StoreKind::kReal) {}
};

TEST_F(IncompleteTensorsTest, TheyAreCountedOnce) {
  Producer producer("run", 0, 7);
  const uint64_t size = 3 * kPartBytes;
  const auto stream = OpenChunks(producer);
  ASSERT_EQ(stream->AwaitOpened(), 0);
  int64_t count = 0;
  const auto part = [&](const std::string& op, uint64_t index) {
    EXPECT_TRUE(stream->Write(
        producer.Part(static_cast<uint64_t>(count++), op, size, index, 'x')));
  };
  const auto whole = [&](const std::string& op) {
    const ProducedTensor tensor{.op = op, .values = {1}};
    EXPECT_TRUE(stream->Write(
        producer.Chunk(static_cast<uint64_t>(count++), {tensor})));
  };
  part("a.no_end", 0);
  part("a.no_end", 1);
  whole("b");
  part("c.no_middle", 0);
  part("c.no_middle", 2);
  part("d.no_begin", 1);
  part("d.no_begin", 2);
  whole("e");
  part("f.middle", 1);
  ASSERT_TRUE(stream->Finish().ok());
  for (const int page_size : {1, 2, 100}) {
    v1::ListTensorsRequest request;
    request.set_run("run");
    request.set_page_size(page_size);
    v1::ListTensorsResponse page;
    int64_t incomplete = 0;
    int listed = 0;
    do {
      request.set_page_token(page.next_page_token());
      page.Clear();
      ASSERT_EQ(Outcome(Invoke(*tensors_, &v1::TensorService::Stub::ListTensors,
                               request, page)),
                "0 ");
      incomplete += page.incomplete_count();
      listed += page.tensors_size();
    } while (!page.next_page_token().empty());
    EXPECT_EQ(incomplete, 4) << page_size;
    EXPECT_EQ(listed, 2);
    request.mutable_filter()->add_kinds(v1::RECORD_KIND_DOCUMENT);
    request.clear_page_token();
    page.Clear();
    Invoke(*tensors_, &v1::TensorService::Stub::ListTensors, request, page);
    EXPECT_EQ(page.incomplete_count(), 0);
  }
}

TEST_P(ReadTensorsTest, WrongRequestsAreRefused) {
  const ProducedTensor tensor{.op = "op", .values = {1}};
  const std::string one = FormatTensorName(Producer("one", 0, 7).KeyOf(tensor));
  const std::string two = FormatTensorName(Producer("two", 0, 7).KeyOf(tensor));
  EXPECT_EQ(Outcome(Read({})), "3 FIELD_INVALID");
  EXPECT_EQ(Outcome(Read({one, two})), "3 FIELD_INVALID");
  EXPECT_EQ(Outcome(Read({one, "no name"})), "3 NAME_INVALID");
  EXPECT_EQ(Outcome(Read({one, ""})), "3 NAME_INVALID");
  EXPECT_EQ(Outcome(Read(std::vector<std::string>(1001, "r"))),
            "3 FIELD_INVALID");
  EXPECT_EQ(Outcome(Read({std::string(size_t{70} << 10, 'x')})),
            "8 REQUEST_TOO_LARGE");
}

}  // namespace
}  // namespace msitd::service
