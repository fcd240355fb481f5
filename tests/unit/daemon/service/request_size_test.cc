// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/request_size.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "msitd/v1/tensor_service.pb.h"

namespace msitd::service {
namespace {

std::optional<size_t> Measure(const google::protobuf::Message& message,
                              size_t bytes_max) {
  const std::string bytes = message.SerializeAsString();
  google::protobuf::io::ArrayInputStream in(bytes.data(),
                                            static_cast<int>(bytes.size()));
  return ParsedBytes(in, *message.GetDescriptor(), bytes_max);
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
  const std::optional<size_t> size = Measure(request, 1 << 20);
  ASSERT_TRUE(size.has_value());
  EXPECT_GE(*size, request.SpaceUsedLong());
  EXPECT_LE(*size, 5 * request.SpaceUsedLong());
}

TEST(RequestSizeTest, StopsAtTheBound) {
  v1::ListTensorsRequest request;
  for (int i = 0; i < 1000; ++i) request.mutable_filter()->add_op_patterns("");
  EXPECT_EQ(Measure(request, 40'000), std::nullopt);
  EXPECT_TRUE(Measure(request, 80'000).has_value());
}

TEST(RequestSizeTest, GarbageIsMeasuredToo) {
  std::string bytes;
  const auto measure = [&bytes] {
    google::protobuf::io::ArrayInputStream in(bytes.data(),
                                              static_cast<int>(bytes.size()));
    return ParsedBytes(in, *v1::ListTensorsRequest::descriptor(), 1 << 20);
  };
  // Garbage is measured too, up to where it shows.
  for (int i = 0; i < 256; ++i) {
    bytes.assign(200, static_cast<char>(i));
    EXPECT_TRUE(measure().has_value());
  }
}

}  // namespace
}  // namespace msitd::service
