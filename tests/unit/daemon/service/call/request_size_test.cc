// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/request_size.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "msitd/v1/tensor_service.pb.h"

namespace msitd::service {
namespace {

absl::StatusOr<size_t> Measure(std::string_view bytes, size_t bytes_max) {
  google::protobuf::io::ArrayInputStream in(bytes.data(),
                                            static_cast<int>(bytes.size()));
  return ParsedBytes(in, *v1::ListTensorsRequest::descriptor(), bytes_max);
}

absl::StatusOr<size_t> Measure(const v1::ListTensorsRequest& message,
                               size_t bytes_max) {
  return Measure(message.SerializeAsString(), bytes_max);
}

TEST(RequestSizeTest, IsNoLessThanWhatTheMessageTakes) {
  v1::ListTensorsRequest request;
  request.set_run("run");
  for (int i = 0; i < 1000; ++i) {
    request.mutable_filter()->add_op_patterns("");
    request.mutable_filter()->add_op_patterns(std::string(50, 'x'));
    request.mutable_filter()->add_ranks(i % 3);
    request.mutable_filter()->add_tokens()->set_last(1);
    request.mutable_filter()->add_devices("cpu:0");
  }
  const absl::StatusOr<size_t> size = Measure(request, 1 << 20);
  ASSERT_TRUE(size.ok());
  EXPECT_GE(*size, request.SpaceUsedLong());
  EXPECT_LE(*size, 5 * request.SpaceUsedLong());
}

TEST(RequestSizeTest, StopsAtTheBound) {
  v1::ListTensorsRequest request;
  for (int i = 0; i < 1000; ++i) request.mutable_filter()->add_op_patterns("");
  EXPECT_TRUE(absl::IsResourceExhausted(Measure(request, 40'000).status()));
  EXPECT_TRUE(Measure(request, 80'000).ok());
}

TEST(RequestSizeTest, PassesNothingThatItCannotMeasure) {
  for (int i = 0; i < 256; ++i) {
    const std::string garbage(200, static_cast<char>(i));
    v1::ListTensorsRequest request;
    if (Measure(garbage, 1 << 20).ok()) {
      EXPECT_TRUE(request.ParseFromString(garbage)) << i;
    }
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(Measure("\x0a\x05run", 1 << 20).status()));
}

TEST(RequestSizeTest, NothingHidesBehindAGroup) {
  // An empty group of an unknown field, after which protobuf continues to read.
  const std::string group = "\x9b\x3e\x9c\x3e";
  v1::ListTensorsRequest request;
  for (int i = 0; i < 1000; ++i) request.mutable_filter()->add_op_patterns("");
  const std::string bytes = group + request.SerializeAsString();
  ASSERT_TRUE(request.ParseFromString(bytes));
  EXPECT_TRUE(absl::IsInvalidArgument(Measure(bytes, 40'000).status()));
}

}  // namespace
}  // namespace msitd::service
