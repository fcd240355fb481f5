// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/ge/ge_head.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/wire_reader.h"
#include "tests/unit/client/foreign/formats/ge_dump_bytes.h"

namespace msitd::formats {
namespace {

// Returns any message that CANN could write, and some that it would not.
ge::DumpData RandomHead(std::mt19937_64& random) {
  const auto number = [&] { return random() >> (random() % 64); };
  const auto fill = [&](auto& tensor) {
    tensor.set_data_type(static_cast<int32_t>(number()));
    tensor.set_format(static_cast<int32_t>(number()));
    tensor.set_sub_format(static_cast<int32_t>(number()));
    tensor.set_size(number());
    tensor.set_address(number());
    for (uint64_t i = random() % 5; i > 0; --i) {
      tensor.mutable_shape()->add_dim(number());
      tensor.mutable_original_shape()->add_dim(number());
    }
  };
  ge::DumpData head;
  head.set_version(std::string(random() % 4, 'v'));
  head.set_dump_time(number());
  head.set_op_name(std::string(random() % 300, 'o'));
  head.set_dfx_message(std::string(random() % 3, 'd'));
  for (uint64_t i = random() % 4; i > 0; --i) {
    ge::OpInput& input = *head.add_input();
    fill(input);
    input.set_arg_index(static_cast<uint32_t>(number()));
    input.set_input_type(static_cast<uint32_t>(number()));
    ge::OpOutput& output = *head.add_output();
    fill(output);
    output.mutable_original_op()->set_name(std::string(random() % 3, 'n'));
    output.mutable_original_op()->set_output_index(
        static_cast<uint32_t>(number()));
    head.add_buffer()->set_size(number());
    head.add_space()->set_size(number() | 1);
  }
  return head;
}

void ExpectEqual(const GeTensor& got, const auto& put) {
  EXPECT_EQ(got.has_no_type, put.data_type() == 0);
  EXPECT_EQ(got.type.dtype, GeTypeOf(put.data_type()).dtype);
  EXPECT_EQ(got.format, put.format());
  EXPECT_EQ(got.sub_format, put.sub_format());
  EXPECT_EQ(got.size, put.size());
  EXPECT_EQ(got.address, put.address());
  ASSERT_EQ(got.shape.size(), static_cast<size_t>(put.shape().dim_size()));
  for (int i = 0; i < put.shape().dim_size(); ++i) {
    const auto dim = static_cast<int64_t>(put.shape().dim(i));
    EXPECT_EQ(got.shape[static_cast<size_t>(i)], dim < 0 ? -1 : dim);
  }
  EXPECT_EQ(got.original_shape.size(),
            static_cast<size_t>(put.original_shape().dim_size()));
}

TEST(GeHeadTest, ReadsWhatProtobufWrites) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const ge::DumpData put = RandomHead(random);
    const auto got = ParseGeHead(put.SerializeAsString());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->version, put.version());
    EXPECT_EQ(got->dump_time_us, put.dump_time());
    EXPECT_EQ(got->op_name, put.op_name());
    EXPECT_EQ(got->dfx_message, put.dfx_message());
    ASSERT_EQ(got->inputs.size(), static_cast<size_t>(put.input_size()));
    ASSERT_EQ(got->outputs.size(), got->inputs.size());
    ASSERT_EQ(got->buffers.size(), got->inputs.size());
    ASSERT_EQ(got->workspaces.size(), got->inputs.size());
    for (size_t i = 0; i < got->inputs.size(); ++i) {
      const int at = static_cast<int>(i);
      ExpectEqual(got->inputs[i].tensor, put.input(at));
      EXPECT_EQ(got->inputs[i].arg_index, put.input(at).arg_index());
      EXPECT_EQ(got->inputs[i].input_type, put.input(at).input_type());
      ExpectEqual(got->outputs[i].tensor, put.output(at));
      const ge::OriginalOp& original = put.output(at).original_op();
      EXPECT_EQ(got->outputs[i].original_name, original.name());
      EXPECT_EQ(got->outputs[i].original_index, original.output_index());
      EXPECT_EQ(got->buffers[i], put.buffer(at).size());
      EXPECT_EQ(got->workspaces[i], put.space(at).size());
    }
  }
}

// The parser rejects the same input as protobuf, except that it skips groups.
TEST(GeHeadTest, TakesWhatProtobufTakes) {
  std::mt19937_64 random(2);
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = RandomHead(random).SerializeAsString();
    for (uint64_t i = random() % 3 + 1; i > 0 && !bytes.empty(); --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    ge::DumpData expected;
    const bool is_good = expected.ParseFromString(bytes);
    const auto got = ParseGeHead(bytes);
    if (got.ok()) {
      ++taken;
      EXPECT_TRUE(is_good);
      EXPECT_EQ(got->op_name, expected.op_name());
      EXPECT_EQ(got->inputs.size(), static_cast<size_t>(expected.input_size()));
    }
  }
  EXPECT_GT(taken, 1000);
}

TEST(GeHeadTest, NumbersMayComeOneByOne) {
  // An output with an unpacked shape: 3 { 3 { 1: 5, 1: 7 } }.
  const auto head = ParseGeHead("\x1a\x06\x1a\x04\x08\x05\x08\x07");
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->outputs.at(0).tensor.shape, (std::vector<int64_t>{5, 7}));
}

TEST(GeHeadTest, BrokenMessagesAreRefused) {
  for (const std::string_view bytes :
       {std::string_view("\x1a", 1), std::string_view("\x1a\x05\x08", 3),
        std::string_view("\x00\x01", 2), std::string_view("\x0b", 1),
        std::string_view("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                         12),
        std::string_view("\x1a\x03\x1a\x01\x09", 5)}) {
    EXPECT_EQ(ParseGeHead(bytes).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace msitd::formats
