// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/tensor_service.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "daemon/query/tensor_reader.h"
#include "protos/base/resource_name.h"
#include "protos/chunk/chunk_format.h"
#include "tests/unit/daemon/service/service_fixture.h"

namespace msitd::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Stub = v1::TensorService::Stub;
using testing::ProducedTensor;
using testing::Producer;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class TensorServiceTest : public EitherStoreFixture {
 protected:
  // Records two ranks with two tokens of three ops each.
  void IngestTwoRanks() {
    for (int rank = 0; rank < 2; ++rank) {
      Producer producer("run", rank, 100 + rank);
      std::vector<std::vector<ProducedTensor>> chunks;
      for (int64_t token = 0; token < 2; ++token) {
        const float base = static_cast<float>(10 * rank + token);
        chunks.push_back({{.op = "emb", .token = token, .values = {base}},
                          {.op = "layers.0/attn",
                           .token = token,
                           .values = {base, -base, base}},
                          {.op = "layers.0/mlp",
                           .token = token,
                           .values = {base, kNaN, kInf, -kInf, 0}}});
      }
      Ingest(producer, chunks);
    }
  }

  grpc::Status Get(const std::string& name, v1::Tensor& tensor) {
    v1::GetTensorRequest request;
    request.set_name(name);
    return Invoke(*tensors_, &Stub::GetTensor, request, tensor);
  }

  grpc::Status List(const v1::ListTensorsRequest& request,
                    v1::ListTensorsResponse& response) {
    response.Clear();
    return Invoke(*tensors_, &Stub::ListTensors, request, response);
  }

  std::string ListOutcome(const v1::ListTensorsRequest& request) {
    v1::ListTensorsResponse response;
    return Outcome(List(request, response));
  }

  // Returns rank/token/op of the tensors on all pages.
  std::vector<std::string> ListAll(v1::ListTensorsRequest request) {
    std::vector<std::string> out;
    v1::ListTensorsResponse response;
    do {
      request.set_page_token(response.next_page_token());
      const grpc::Status status = List(request, response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      for (const v1::Tensor& t : response.tensors()) {
        out.push_back(fmt::format("{}/{}/{}", t.rank(), t.token(), t.op()));
      }
    } while (!response.next_page_token().empty());
    return out;
  }

  grpc::Status Read(const v1::ReadTensorRequest& request, std::string& data,
                    int& messages) {
    grpc::ClientContext context;
    const auto reader = tensors_->ReadTensor(&context, request);
    v1::ReadTensorResponse response;
    data.clear();
    messages = 0;
    while (reader->Read(&response)) {
      EXPECT_EQ(response.offset_bytes(),
                request.offset_bytes() + static_cast<int64_t>(data.size()));
      EXPECT_LE(response.data().size(), query::TensorReader::kPieceBytesMax);
      data += response.data();
      ++messages;
    }
    return reader->Finish();
  }

  // Records a tensor with the values 0, 1, 2, ... of which a sample is kept.
  // Returns its name.
  std::string IngestSampled(int element_count) {
    Producer producer("sampled", 0, 9);
    ProducedTensor tensor{.op = "op", .values = {}};
    for (int i = 0; i < element_count; ++i) {
      tensor.values.push_back(static_cast<float>(i));
    }
    const auto stream = OpenChunks(producer);
    EXPECT_EQ(stream->AwaitOpened(), 0);
    EXPECT_TRUE(stream->Write(testing::Patched(
        producer.Chunk(0, {tensor}), offsetof(chunk::ChunkHeader, flags),
        chunk::kSampleFlag)));
    EXPECT_TRUE(stream->Finish().ok());
    return FormatTensorName(producer.KeyOf(tensor));
  }

  // Returns the values of a sample as requested by `request`.
  std::vector<float> ReadSample(v1::ReadTensorRequest request) {
    request.set_sample(true);
    std::string data;
    int messages = 0;
    const grpc::Status status = Read(request, data, messages);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<float> values(data.size() / sizeof(float));
    std::memcpy(values.data(), data.data(), values.size() * sizeof(float));
    return values;
  }

  static v1::ReadTensorRequest ReadOf(const std::string& name, int64_t offset,
                                      int64_t limit) {
    v1::ReadTensorRequest request;
    request.set_name(name);
    request.set_offset_bytes(offset);
    request.set_limit_bytes(limit);
    return request;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, TensorServiceTest,
                         ::testing::Values(StoreKind::kFake, StoreKind::kReal),
                         StoreName);

TEST_P(TensorServiceTest, GetsEverythingButTheBytes) {
  Producer producer("my run", 0, 7);
  const ProducedTensor tensor{
      .op = "layers.0/ättn %", .token = 4, .values = {1, -2, 0, kNaN, kInf}};
  Ingest(producer, {{tensor}});
  const std::string name = FormatTensorName(producer.KeyOf(tensor));
  v1::Tensor got;
  const grpc::Status status = Get(name, got);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(got.name(), name);
  EXPECT_EQ(got.run(), "my run");
  EXPECT_EQ(got.device(), "cpu:0");
  EXPECT_EQ(got.token(), 4);
  EXPECT_EQ(got.op(), tensor.op);
  EXPECT_EQ(got.io(), v1::IO_OUTPUT);
  EXPECT_EQ(got.index(), "0");
  EXPECT_EQ(got.dtype(), v1::D_TYPE_FLOAT32);
  EXPECT_THAT(got.shape(), ElementsAre(5));
  EXPECT_EQ(got.size_bytes(), 20);
  EXPECT_TRUE(got.has_bytes());
  EXPECT_EQ(got.hash().size(), 32u);
  const v1::Summary& summary = got.summary();
  EXPECT_EQ(summary.count(), 5);
  EXPECT_EQ(summary.nan_count(), 1);
  EXPECT_EQ(summary.positive_infinity_count(), 1);
  EXPECT_EQ(summary.negative_infinity_count(), 0);
  EXPECT_EQ(summary.zero_count(), 1);
  EXPECT_EQ(summary.min(), -2);
  EXPECT_EQ(summary.max(), kInf);
  EXPECT_EQ(summary.abs_max(), kInf);
  EXPECT_EQ(summary.sum(), -1);
  EXPECT_DOUBLE_EQ(summary.mean(), -1.0 / 3);
  EXPECT_EQ(summary.l1_norm(), 3);
  EXPECT_DOUBLE_EQ(summary.l2_norm(), std::sqrt(5.0));
}

TEST_P(TensorServiceTest, EmptyTensorHasNoExtremes) {
  Producer producer("run", 0, 7);
  const ProducedTensor tensor{.op = "a", .values = {}};
  Ingest(producer, {{tensor}});
  v1::Tensor got;
  ASSERT_TRUE(Get(FormatTensorName(producer.KeyOf(tensor)), got).ok());
  EXPECT_EQ(got.size_bytes(), 0);
  EXPECT_FALSE(got.summary().has_min());
  EXPECT_FALSE(got.summary().has_abs_max());
  EXPECT_FALSE(got.summary().has_mean());
  std::string data;
  int messages = 0;
  ASSERT_TRUE(Read(ReadOf(got.name(), 0, 0), data, messages).ok());
  EXPECT_EQ(data, "");
  EXPECT_EQ(messages, 1);
}

TEST_P(TensorServiceTest, SampledTensorHasItsSampleAndNoBytes) {
  const std::string name = IngestSampled(2500);
  v1::Tensor got;
  ASSERT_TRUE(Get(name, got).ok());
  EXPECT_FALSE(got.has_bytes());
  EXPECT_TRUE(got.has_sample());
  EXPECT_EQ(got.size_bytes(), 10'000);
  EXPECT_EQ(got.summary().count(), 2500);
  EXPECT_EQ(got.summary().max(), 2499);
  std::string data;
  int messages = 0;
  const grpc::Status status = Read(ReadOf(name, 0, 0), data, messages);
  EXPECT_EQ(Outcome(status), "9 TENSOR_EXPIRED");
  EXPECT_THAT(status.error_message(), HasSubstr("its sample is"));
  const std::vector<float> sample = ReadSample(ReadOf(name, 0, 0));
  ASSERT_EQ(sample.size(), 834u);
  for (size_t i = 0; i < sample.size(); ++i) EXPECT_EQ(sample[i], 3 * i);
  EXPECT_THAT(ReadSample(ReadOf(name, 4 * 833, 0)), ElementsAre(2499));
  EXPECT_THAT(ReadSample(ReadOf(name, 4, 8)), ElementsAre(3, 6));
  EXPECT_THAT(ReadSample(ReadOf(name, 4 * 834, 0)), ElementsAre());
  v1::ReadTensorRequest behind = ReadOf(name, 4 * 834 + 1, 0);
  behind.set_sample(true);
  EXPECT_EQ(Outcome(Read(behind, data, messages)), "11 OFFSET_OUT_OF_RANGE");
}

TEST_P(TensorServiceTest, TensorWithBytesHasASampleWhenAskedForIt) {
  Producer producer("run", 0, 7);
  ProducedTensor tensor{.op = "op", .values = {}};
  for (int i = 0; i < 2500; ++i) {
    tensor.values.push_back(static_cast<float>(i));
  }
  const ProducedTensor empty{.op = "empty", .values = {}};
  Ingest(producer, {{tensor, empty}});
  const std::string name = FormatTensorName(producer.KeyOf(tensor));
  v1::Tensor got;
  ASSERT_TRUE(Get(name, got).ok());
  EXPECT_TRUE(got.has_bytes());
  EXPECT_FALSE(got.has_sample());
  const std::vector<float> sample = ReadSample(ReadOf(name, 0, 0));
  ASSERT_EQ(sample.size(), 834u);
  for (size_t i = 0; i < sample.size(); ++i) EXPECT_EQ(sample[i], 3 * i);
  EXPECT_TRUE(ReadSample(ReadOf(FormatTensorName(producer.KeyOf(empty)), 0, 0))
                  .empty());
}

TEST_P(TensorServiceTest, NamesAreCheckedAndLookedUp) {
  Producer producer("run", 0, 7);
  Ingest(producer, {{{.op = "a", .values = {1}}}});
  v1::Tensor got;
  EXPECT_EQ(Outcome(Get("", got)), "3 NAME_INVALID");
  EXPECT_EQ(Outcome(Get("runs/run/ranks/x", got)), "3 NAME_INVALID");
  const std::string missing =
      FormatTensorName(producer.KeyOf({.op = "b", .values = {}}));
  EXPECT_EQ(Outcome(Get(missing, got)), "5 TENSOR_NOT_FOUND");
  std::string data;
  int messages = 0;
  EXPECT_EQ(Outcome(Read(ReadOf("x", 0, 0), data, messages)), "3 NAME_INVALID");
  EXPECT_EQ(Outcome(Read(ReadOf(missing, 0, 0), data, messages)),
            "5 TENSOR_NOT_FOUND");
  EXPECT_EQ(Outcome(Get("runs/none/ranks/0/devices/d/tokens/0/ops/o/calls/0/"
                        "output/0",
                        got)),
            "5 TENSOR_NOT_FOUND");
}

TEST_P(TensorServiceTest, ListsInOrderWhateverThePageSize) {
  IngestTwoRanks();
  v1::ListTensorsRequest request;
  request.set_run("run");
  const std::vector<std::string> all = ListAll(request);
  EXPECT_THAT(all,
              ElementsAre("0/0/emb", "0/0/layers.0/attn", "0/0/layers.0/mlp",
                          "0/1/emb", "0/1/layers.0/attn", "0/1/layers.0/mlp",
                          "1/0/emb", "1/0/layers.0/attn", "1/0/layers.0/mlp",
                          "1/1/emb", "1/1/layers.0/attn", "1/1/layers.0/mlp"));
  for (const int size : {1, 2, 5, 12, 13}) {
    request.set_page_size(size);
    EXPECT_EQ(ListAll(request), all) << size;
  }
}

TEST_P(TensorServiceTest, FiltersByEveryField) {
  IngestTwoRanks();
  const auto list = [this](void (*set)(v1::TensorFilter & filter)) {
    v1::ListTensorsRequest request;
    request.set_run("run");
    set(*request.mutable_filter());
    return ListAll(request);
  };
  EXPECT_EQ(list([](v1::TensorFilter& f) { f.add_ranks(1); }).size(), 6u);
  EXPECT_EQ(list([](v1::TensorFilter& f) { f.add_ranks(2); }).size(), 0u);
  EXPECT_EQ(list([](v1::TensorFilter& f) { f.add_devices("cpu:0"); }).size(),
            12u);
  EXPECT_EQ(list([](v1::TensorFilter& f) { f.add_devices("npu:0"); }).size(),
            0u);
  EXPECT_EQ(
      list([](v1::TensorFilter& f) {
        f.add_tokens()->set_first(1);
        f.mutable_tokens(0)->set_last(std::numeric_limits<int64_t>::max());
      }).size(),
      6u);
  EXPECT_EQ(list([](v1::TensorFilter& f) { f.add_ios(v1::IO_INPUT); }).size(),
            0u);
  EXPECT_THAT(list([](v1::TensorFilter& f) {
                f.add_op_patterns("*attn");
                f.add_op_patterns("em?");
                f.add_ranks(0);
                f.add_tokens();
              }),
              ElementsAre("0/0/emb", "0/0/layers.0/attn"));
}

TEST_P(TensorServiceTest, FilterBoundsAreThoseOfItsProto) {
  Producer producer("run", 0, 7);
  Ingest(producer, {{{.op = "a", .values = {1}}}});
  const auto outcome = [this](auto set) {
    v1::ListTensorsRequest request;
    request.set_run("run");
    set(*request.mutable_filter());
    return ListOutcome(request);
  };
  using F = v1::TensorFilter&;
  const auto repeat = [](int count, auto add) {
    return [count, add](F f) {
      for (int i = 0; i < count; ++i) add(f);
    };
  };
  const auto rank = [](F f) { f.add_ranks(0); };
  const auto device = [](F f) { f.add_devices("d"); };
  const auto range = [](F f) { f.add_tokens(); };
  const auto pattern = [](F f) { f.add_op_patterns("*"); };
  EXPECT_EQ(outcome(repeat(4096, rank)), "0 ");
  EXPECT_EQ(outcome(repeat(4097, rank)), "3 FIELD_INVALID");
  EXPECT_EQ(outcome(repeat(64, device)), "0 ");
  EXPECT_EQ(outcome(repeat(65, device)), "3 FIELD_INVALID");
  EXPECT_EQ(outcome(repeat(256, range)), "0 ");
  EXPECT_EQ(outcome(repeat(257, range)), "3 FIELD_INVALID");
  EXPECT_EQ(outcome(repeat(64, pattern)), "0 ");
  EXPECT_EQ(outcome(repeat(65, pattern)), "3 FIELD_INVALID");
  EXPECT_EQ(outcome([](F f) { f.add_ranks(-1); }), "3 FIELD_INVALID");
  EXPECT_EQ(outcome([](F f) { f.add_devices(""); }), "3 FIELD_INVALID");
  EXPECT_EQ(outcome([](F f) { f.add_devices(std::string(33, 'd')); }),
            "3 FIELD_INVALID");
  EXPECT_EQ(outcome([](F f) { f.add_tokens()->set_first(-1); }),
            "3 FIELD_INVALID");
  EXPECT_EQ(outcome([](F f) { f.add_tokens()->set_first(1); }),
            "3 FIELD_INVALID");
  EXPECT_EQ(outcome([](F f) { f.add_op_patterns(std::string(1025, 'x')); }),
            "3 FIELD_INVALID");
  EXPECT_EQ(outcome([](F f) { f.add_ios(v1::IO_UNSPECIFIED); }),
            "3 FIELD_INVALID");
  EXPECT_EQ(outcome([](F f) { f.add_ios(static_cast<v1::Io>(8)); }),
            "3 FIELD_INVALID");
}

TEST_P(TensorServiceTest, WhereAsksTheSummary) {
  IngestTwoRanks();
  v1::ListTensorsRequest request;
  request.set_run("run");
  request.set_where("nan_count > 0 and inf_count == 2");
  EXPECT_EQ(ListAll(request).size(), 4u);
  request.set_where("abs_max >= 10 and nan_count == 0");
  EXPECT_THAT(ListAll(request), ElementsAre("1/0/emb", "1/0/layers.0/attn",
                                            "1/1/emb", "1/1/layers.0/attn"));
  request.set_where("size_bytes == 12 and min < -10");
  EXPECT_THAT(ListAll(request), ElementsAre("1/1/layers.0/attn"));
  request.set_where("cosine > 1");
  EXPECT_EQ(ListOutcome(request), "3 PREDICATE_INVALID");
  request.set_where("min >");
  EXPECT_EQ(ListOutcome(request), "3 PREDICATE_INVALID");
}

TEST_P(TensorServiceTest, PageTokensAreBoundToTheirRequest) {
  IngestTwoRanks();
  v1::ListTensorsRequest request;
  request.set_run("run");
  request.set_page_size(2);
  v1::ListTensorsResponse response;
  ASSERT_TRUE(List(request, response).ok());
  const std::string token = response.next_page_token();
  ASSERT_NE(token, "");
  request.set_page_token(token);
  request.set_page_size(7);
  EXPECT_EQ(ListOutcome(request), "0 ");
  request.mutable_filter()->add_ranks(0);
  EXPECT_EQ(ListOutcome(request), "3 PAGE_TOKEN_INVALID");
  request.clear_filter();
  request.set_page_token(token + "AAAA");
  EXPECT_EQ(ListOutcome(request), "3 PAGE_TOKEN_INVALID");
  request.set_page_token(std::string(100'000, 'A'));
  EXPECT_EQ(ListOutcome(request), "3 PAGE_TOKEN_INVALID");
  request.clear_page_token();
  request.set_page_size(-1);
  EXPECT_EQ(ListOutcome(request), "3 FIELD_INVALID");
  request.set_page_size(1);
  request.set_run("none");
  EXPECT_EQ(ListOutcome(request), "5 RUN_NOT_FOUND");
}

TEST_P(TensorServiceTest, ReadsAnyRangeOfATensorOfSeveralParts) {
  constexpr int64_t kPart = static_cast<int64_t>(kPartBytes);
  constexpr int64_t kBytes = 2 * kPart + 1000;
  Producer producer("run", 0, 7);
  const auto stream = OpenChunks(producer);
  std::string expected;
  for (uint64_t part = 0; part < 3; ++part) {
    const char fill = static_cast<char>('a' + part);
    stream->Write(producer.Part(part, "big", kBytes, part, fill));
    expected.resize(std::min<size_t>(expected.size() + kPart, kBytes), fill);
  }
  ASSERT_TRUE(stream->Finish().ok());
  const std::string name =
      FormatTensorName(producer.KeyOf({.op = "big", .values = {}}));
  struct Range {
    int64_t offset;
    int64_t limit;
  };
  const Range ranges[] = {{0, 0},          {1, 0},          {kPart - 1, 2},
                          {kPart, kPart},  {kBytes - 1, 0}, {5, 3'000'000},
                          {0, kBytes * 2}, {kBytes, 0},     {0, 1}};
  for (const Range& range : ranges) {
    std::string data;
    int messages = 0;
    const grpc::Status status =
        Read(ReadOf(name, range.offset, range.limit), data, messages);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const size_t count =
        range.limit == 0 ? std::string::npos : static_cast<size_t>(range.limit);
    EXPECT_TRUE(data == expected.substr(range.offset, count))
        << range.offset << "+" << range.limit;
    EXPECT_GE(messages, 1);
  }
}

TEST_P(TensorServiceTest, ReadRefusesOffsetsBehindTheEnd) {
  Producer producer("run", 0, 7);
  Ingest(producer, {{{.op = "a", .values = {1, 2}}}});
  const std::string name =
      FormatTensorName(producer.KeyOf({.op = "a", .values = {}}));
  std::string data;
  int messages = 0;
  const ErrorDetails error =
      DetailsOf(Read(ReadOf(name, 9, 0), data, messages));
  EXPECT_EQ(error.code, grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(error.reason, "OFFSET_OUT_OF_RANGE");
  EXPECT_EQ(error.metadata.at("size_bytes"), "8");
  EXPECT_EQ(Outcome(Read(ReadOf(name, -1, 0), data, messages)),
            "11 OFFSET_OUT_OF_RANGE");
  EXPECT_EQ(Outcome(Read(ReadOf(name, 0, -1), data, messages)),
            "3 FIELD_INVALID");
}

TEST_P(TensorServiceTest, SummarizesWholeAndByGroup) {
  IngestTwoRanks();
  v1::SummarizeTensorsRequest request;
  request.set_run("run");
  v1::SummarizeTensorsResponse response;
  const auto summarize = [&](v1::SummarizeTensorsRequest::GroupBy group_by) {
    request.set_group_by(group_by);
    response.Clear();
    const grpc::Status status =
        Invoke(*tensors_, &Stub::SummarizeTensors, request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::vector<std::string> keys;
    for (const auto& group : response.groups()) keys.push_back(group.key());
    return keys;
  };
  EXPECT_THAT(summarize(v1::SummarizeTensorsRequest::GROUP_BY_UNSPECIFIED),
              ElementsAre(""));
  EXPECT_EQ(response.groups(0).tensor_count(), 12);
  EXPECT_EQ(response.groups(0).size_bytes(), 4 * 4 * 9);
  EXPECT_EQ(response.groups(0).summary().nan_count(), 4);
  EXPECT_EQ(response.groups(0).summary().count(), 36);
  EXPECT_THAT(summarize(v1::SummarizeTensorsRequest::RANK),
              ElementsAre("0", "1"));
  EXPECT_EQ(response.groups(1).tensor_count(), 6);
  EXPECT_THAT(summarize(v1::SummarizeTensorsRequest::TOKEN),
              ElementsAre("0", "1"));
  EXPECT_THAT(summarize(v1::SummarizeTensorsRequest::OP),
              ElementsAre("emb", "layers.0/attn", "layers.0/mlp"));
  EXPECT_EQ(response.groups(1).summary().max(), 11);
  EXPECT_EQ(response.groups(1).summary().min(), -11);
  EXPECT_THAT(summarize(v1::SummarizeTensorsRequest::DEVICE),
              ElementsAre("cpu:0"));
  request.mutable_filter()->add_op_patterns("none");
  EXPECT_THAT(summarize(v1::SummarizeTensorsRequest::GROUP_BY_UNSPECIFIED),
              ElementsAre(""));
  EXPECT_EQ(response.groups(0).tensor_count(), 0);
  EXPECT_FALSE(response.groups(0).summary().has_min());
  EXPECT_THAT(summarize(v1::SummarizeTensorsRequest::RANK), ElementsAre());
}

TEST_P(TensorServiceTest, SummarizeRefusesWhatItDoesNotKnow) {
  v1::SummarizeTensorsRequest request;
  v1::SummarizeTensorsResponse response;
  const auto outcome = [&] {
    return Outcome(
        Invoke(*tensors_, &Stub::SummarizeTensors, request, response));
  };
  request.set_run("none");
  EXPECT_EQ(outcome(), "5 RUN_NOT_FOUND");
  request.set_group_by(static_cast<v1::SummarizeTensorsRequest::GroupBy>(99));
  EXPECT_EQ(outcome(), "3 FIELD_INVALID");
}

class FakeTensorServiceTest : public ServiceFixture {
 protected:
  std::string ReadOutcome(const std::string& name) {
    grpc::ClientContext context;
    v1::ReadTensorRequest request;
    request.set_name(name);
    const auto reader = tensors_->ReadTensor(&context, request);
    v1::ReadTensorResponse response;
    while (reader->Read(&response)) {
    }
    return Outcome(reader->Finish());
  }
};

TEST_F(FakeTensorServiceTest, CorruptAndExpiredBytesAreNotSent) {
  Producer producer("run", 0, 7);
  const ProducedTensor corrupt{.op = "a", .values = {1}};
  const ProducedTensor expired{.op = "b", .values = {2}};
  Ingest(producer, {{corrupt, expired}});
  fake_->Corrupt(producer.KeyOf(corrupt), 0);
  fake_->Expire(producer.KeyOf(expired));
  EXPECT_EQ(ReadOutcome(FormatTensorName(producer.KeyOf(corrupt))),
            "15 FRAME_CORRUPT");
  EXPECT_EQ(ReadOutcome(FormatTensorName(producer.KeyOf(expired))),
            "9 TENSOR_EXPIRED");
}

TEST_F(FakeTensorServiceTest, TooManyGroupsAreRefused) {
  Producer producer("run", 0, 7);
  std::vector<std::vector<ProducedTensor>> chunks;
  int64_t token = 0;
  while (token <= 65'536) {
    std::vector<ProducedTensor>& chunk = chunks.emplace_back();
    for (int i = 0; i < 1000 && token <= 65'536; ++i) {
      chunk.push_back({.op = "a", .token = token++, .values = {1}});
    }
  }
  Ingest(producer, chunks);
  v1::SummarizeTensorsRequest request;
  request.set_run("run");
  request.set_group_by(v1::SummarizeTensorsRequest::TOKEN);
  v1::SummarizeTensorsResponse response;
  EXPECT_EQ(
      Outcome(Invoke(*tensors_, &Stub::SummarizeTensors, request, response)),
      "8 FIELD_INVALID");
  request.mutable_filter()->add_tokens()->set_last(65'535);
  EXPECT_EQ(
      Outcome(Invoke(*tensors_, &Stub::SummarizeTensors, request, response)),
      "0 ");
  ASSERT_EQ(response.groups_size(), 65'536);
  EXPECT_EQ(response.groups(10'000).key(), "10000");
}

// A listing whose condition no tensor satisfies still returns bounded pages.
TEST_F(FakeTensorServiceTest, PagesAreBoundedByWork) {
  Producer producer("run", 0, 7);
  std::vector<std::vector<ProducedTensor>> chunks(25);
  for (int64_t c = 0; c < 25; ++c) {
    for (int64_t i = 0; i < 1000; ++i) {
      chunks[c].push_back({.op = "a", .token = 1000 * c + i, .values = {1}});
    }
  }
  Ingest(producer, chunks);
  v1::ListTensorsRequest request;
  request.set_run("run");
  request.set_where("nan_count > 0");
  v1::ListTensorsResponse response;
  ASSERT_TRUE(Invoke(*tensors_, &Stub::ListTensors, request, response).ok());
  EXPECT_EQ(response.tensors_size(), 0);
  ASSERT_NE(response.next_page_token(), "");
  request.set_page_token(response.next_page_token());
  response.Clear();
  ASSERT_TRUE(Invoke(*tensors_, &Stub::ListTensors, request, response).ok());
  EXPECT_EQ(response.tensors_size(), 0);
  EXPECT_EQ(response.next_page_token(), "");
}

}  // namespace
}  // namespace msitd::service
