// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/ge/ge_dump_file.h"

#include <gtest/gtest.h>

#include "client/foreign/formats/ge/ge_names.h"
#include "tests/unit/client/foreign/formats/ge_dump_bytes.h"

namespace msitd::formats {
namespace {

constexpr int kUint8Type = 4;

absl::Status OpenStatus(const std::string& file) {
  return OpenText(file).status();
}

// Returns the bytes of all tensors, with "!" for a problem.
std::vector<std::string> ReadTensors(const std::string& file) {
  std::vector<std::string> all;
  const auto opened = OpenText(file);
  EXPECT_TRUE(opened.ok()) << opened.status();
  if (!opened.ok()) return all;
  while ((*opened)->Next() != nullptr) {
    all.push_back(ReadAll(**opened, 100).value_or("!"));
  }
  return all;
}

TEST(GeDumpFileTest, TheHeadIsAvailable) {
  ge::DumpData head;
  head.set_version("2.0");
  head.set_op_name("model/layer.0/mm");
  head.set_dump_time(1756699200000001);
  ge::OpAttr attr;
  attr.set_name("ffts");
  attr.set_value("{}");
  head.add_attr(attr.SerializeAsString());
  ge::OpOutput& output = *head.add_output();
  SetTensor(kUint8Type, kFormatFractalNz, {1, 1, 2, 2}, {1, 2}, 4, output);
  output.mutable_original_op()->set_name("relu");
  const auto file = OpenText(GeDumpOf(head, "abcd"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->kind(), FileKind::kGeDump);
  EXPECT_EQ((*file)->attributes(),
            (Attributes{{"version", "2.0"},
                        {"op_name", "model/layer.0/mm"},
                        {"dump_time", "1756699200000001"},
                        {"attr.ffts", "{}"}}));
  const ForeignTensor* const tensor = (*file)->Next();
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->name, "relu");
  EXPECT_EQ(tensor->io, Io::kOutput);
  EXPECT_EQ(tensor->index, "0");
  EXPECT_EQ(tensor->stored_type, "UINT8");
  EXPECT_EQ(tensor->stored_layout, "FRACTAL_NZ");
  EXPECT_EQ(tensor->stored_shape, (std::vector<int64_t>{1, 1, 2, 2}));
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(tensor->bytes, 2);
  EXPECT_FALSE(tensor->is_as_stored);
  EXPECT_EQ(*ReadAll(**file, 100), "ab");
}

TEST(GeDumpFileTest, BytesLieInTheOrderOfTheirKinds) {
  ge::DumpData head;
  SetTensor(kUint8Type, kFormatNd, {1}, {1}, 1, *head.add_output());
  SetTensor(kUint8Type, kFormatNd, {2}, {2}, 3, *head.add_input());
  SetTensor(0, kFormatNd, {9}, {9}, 2, *head.add_input());
  head.add_buffer()->set_size(1);
  head.add_buffer();
  head.add_space()->set_size(2);
  EXPECT_EQ(ReadTensors(GeDumpOf(head, "ab-cdefgh")),
            (std::vector<std::string>{"ab", "cd", "e", "f", "gh"}));
}

TEST(GeDumpFileTest, ATensorThatTheTaskDidNotHaveIsAbsent) {
  ge::DumpData head;
  SetTensor(kUint8Type, kFormatNd, {2}, {2}, 2, *head.add_input());
  SetTensor(kUint8Type, kFormatNd, {2}, {2}, 2, *head.add_input());
  head.mutable_input(1)->clear_address();
  SetTensor(kUint8Type, kFormatNd, {}, {}, 0, *head.add_input());
  SetTensor(0, kFormatNd, {}, {}, 0, *head.add_input());
  SetTensor(kUint8Type, kFormatNd, {0}, {0}, 0, *head.add_input());
  SetTensor(kUint8Type, kFormatNd, {2}, {2}, 2, *head.add_output());
  const std::string dump = GeDumpOf(head, "abcd");
  EXPECT_EQ(ReadTensors(dump),
            (std::vector<std::string>{"ab", "!", "!", "!", "", "cd"}));
  const auto file = OpenText(dump);
  ASSERT_TRUE(file.ok());
  for (const bool is_absent : {false, true, true, true, false, false}) {
    const ForeignTensor* const tensor = (*file)->Next();
    EXPECT_EQ(tensor->is_absent, is_absent) << tensor->index;
    EXPECT_EQ(tensor->is_statistics, is_absent) << tensor->index;
  }
  // While the file is being written, missing tensors cannot be determined.
  const auto cut = OpenText(dump.substr(0, dump.size() - 1));
  ASSERT_TRUE(cut.ok());
  while (const ForeignTensor* tensor = (*cut)->Next()) {
    EXPECT_FALSE(tensor->is_absent) << tensor->index;
    EXPECT_TRUE(tensor->problem.ok() || absl::IsDataLoss(tensor->problem));
  }
}

TEST(GeDumpFileTest, AnOlderEditionHasWorkspacesElsewhere) {
  ge::DumpData head;
  SetTensor(kUint8Type, kFormatNd, {}, {}, 1, *head.add_input());
  ge::Workspace space;
  space.set_size(2);
  head.add_attr(space.SerializeAsString());
  head.add_attr("\xff\xff");
  EXPECT_EQ(ReadTensors(GeDumpOf(head, "abc")),
            (std::vector<std::string>{"a", "bc"}));
}

TEST(GeDumpFileTest, AWrongTensorDoesNotHideTheNext) {
  ge::DumpData head;
  const uint64_t large = uint64_t{1} << 63;
  SetTensor(13, kFormatNd, {1}, {1}, 1, *head.add_input());
  SetTensor(kUint8Type, kFormatNd, {large}, {1}, 1, *head.add_input());
  SetTensor(kUint8Type, kFormatNd, {large - 1, large - 1}, {}, 1,
            *head.add_input());
  SetTensor(kUint8Type, kFormatNd, std::vector<uint64_t>(40, 1), {}, 1,
            *head.add_input());
  SetTensor(kUint8Type, kFormatNd, {2}, {2}, 1, *head.add_input());
  SetTensor(kUint8Type, kFormatNd, {1}, {1}, 1, *head.add_input());
  SetTensor(kUint8Type, kFormatNd, {1}, {1}, ~uint64_t{0}, *head.add_output());
  SetTensor(kUint8Type, kFormatNd, {1}, {1}, 2, *head.add_output());
  EXPECT_EQ(ReadTensors(GeDumpOf(head, "123456x")),
            (std::vector<std::string>{"!", "!", "!", "!", "!", "6", "x", "!"}));
}

TEST(GeDumpFileTest, UnknownLayoutsComeAsTheyAre) {
  ge::DumpData head;
  // The original shape does not match the stored one, or is unknown.
  SetTensor(kUint8Type, kFormatFractalNz, {1, 1, 2, 2}, {3, 2}, 4,
            *head.add_input());
  SetTensor(kUint8Type, kFormatNc1hwc0, {1, 1, 1, 1, 4}, {}, 4,
            *head.add_input());
  SetTensor(kUint8Type, 33, {4}, {4}, 4, *head.add_input());
  SetTensor(kUint8Type, kFormatFractalZ, {1, 1, 2, 2}, {2, 2, 1, 1}, 4,
            *head.add_input());
  head.mutable_input(3)->set_sub_format(2);
  const auto file = OpenText(GeDumpOf(head, "abcdefghijklmnop"));
  ASSERT_TRUE(file.ok());
  for (const char* bytes : {"abcd", "efgh", "ijkl", "mnop"}) {
    const ForeignTensor* const tensor = (*file)->Next();
    EXPECT_TRUE(tensor->is_as_stored);
    EXPECT_EQ(tensor->shape, tensor->stored_shape);
    EXPECT_EQ(*ReadAll(**file, 100), bytes);
  }
}

TEST(GeDumpFileTest, WrongHeadsAreRefused) {
  ge::DumpData head;
  head.set_version("2.0");
  const std::string good = GeDumpOf(head, "");
  EXPECT_TRUE(OpenStatus(good).ok());
  EXPECT_EQ(OpenStatus(good.substr(0, good.size() - 1)).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(OpenStatus(good.substr(0, 8)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenStatus(BytesOf<uint64_t>({3}) + "\x0a\x7fx").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenStatus(BytesOf<uint64_t>({4, 0x5a5a5a5a})).code(),
            absl::StatusCode::kInvalidArgument);
  const std::string many(2 * (kTensorsMax + 1), '\x22');
  std::string empty_inputs = BytesOf<uint64_t>({many.size()}) + many;
  for (size_t i = 9; i < empty_inputs.size(); i += 2) empty_inputs[i] = 0;
  EXPECT_EQ(OpenStatus(empty_inputs).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(GeDumpFileTest, TypesHaveNames) {
  EXPECT_EQ(GeTypeOf(27).name, "BF16");
  EXPECT_EQ(GeTypeOf(99).name, "type 99");
  EXPECT_EQ(GeTypeOf(-1).dtype, DType::kUnspecified);
  EXPECT_EQ(AclTypeOf(27).dtype, DType::kBfloat16);
  EXPECT_EQ(AclTypeOf(5).name, "type 5");
  EXPECT_EQ(FormatName(29), "FRACTAL_NZ");
  EXPECT_EQ(FormatName(999), "format 999");
  // If both tables use CANN's name for a type, it is the name in the dtype
  // table.
  for (int number = 0; number < 50; ++number) {
    for (const CannType& type : {GeTypeOf(number), AclTypeOf(number)}) {
      if (!IsValid(type.dtype) || type.name.starts_with('Q')) continue;
      if (type.name == "UNDEFINED") continue;
      EXPECT_EQ(InfoOf(type.dtype).cann_name, type.name);
    }
  }
}

}  // namespace
}  // namespace msitd::formats
