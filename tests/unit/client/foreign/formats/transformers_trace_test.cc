// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/transformers_trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "protos/base/limits.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/client/foreign/formats/read_all.h"

namespace msitd::formats {
namespace {

constexpr char kTensor[] =
    R"js({"shape": "torch.Size([1])", "dtype": "torch.float32"})js";

std::string Module(const std::string& path, const std::string& outputs) {
  return fmt::format(R"({{"module_path": "{}", "outputs": {}}})", path,
                     outputs);
}

OpenedFile OpenTrace(const std::string& text) {
  return OpenTransformersTrace(std::make_shared<MemorySource>(text), "");
}

TEST(TransformersTraceTest, ALongIndexIsAProblemOfItsTensor) {
  const std::string longest(kIndexBytesMax, 'k');
  const std::string half(kIndexBytesMax / 2, 'k');
  const auto file = OpenTrace(Module(
      "net",
      fmt::format(
          R"({{"{0}": {2}, "{0}k": {2}, "{1}": {{"{1}": {2}}}, "b": {2}}})",
          longest, half, kTensor)));
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> indexes;
  for (int i = 0; i < 4; ++i) {
    const ForeignTensor* const tensor = (*file)->Next();
    ASSERT_NE(tensor, nullptr);
    EXPECT_LE(tensor->index.size(), kIndexBytesMax);
    EXPECT_EQ(tensor->is_statistics, i == 0 || i == 3);
    if (!tensor->is_statistics) {
      EXPECT_EQ(tensor->problem.message(), "its index has more than 128 bytes");
    }
    indexes.push_back(tensor->index);
  }
  EXPECT_EQ(indexes[0], longest);
  EXPECT_EQ(indexes[2], half);
  EXPECT_EQ(indexes[3], "b");
}

TEST(TransformersTraceTest, TheTextsOfAllTensorsAreBounded) {
  const std::string path(kTraceTextBytesMax, 'm');
  std::string tensors = kTensor;
  const auto count = static_cast<int>(kTraceHeldBytesMax / kTraceTextBytesMax);
  for (int i = 0; i < count; ++i) tensors += std::string(",") + kTensor;
  EXPECT_EQ(OpenTrace(Module(path, "[" + tensors + "]")).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(OpenTrace(Module("m", "[" + tensors + "]")).ok());
}

// A trace that names `count` files, each with one number.
class FilesTest : public ::testing::Test {
 protected:
  std::string PathOf(int i) { return dir_ / fmt::format("{}.safetensors", i); }

  void Write(int i, float value) {
    const std::string head =
        R"({"data":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    std::ofstream(PathOf(i), std::ios::binary)
        << BytesOf(std::vector<uint64_t>{head.size()}) << head
        << BytesOf(std::vector<float>{value});
  }

  std::unique_ptr<TensorFile> Open(int count) {
    std::string tensors;
    for (int i = 0; i < count; ++i) {
      Write(i, static_cast<float>(i));
      if (i > 0) tensors += ",";
      tensors += fmt::format(
          R"js({{"shape": "torch.Size([1])", "dtype": "torch.float32",)js"
          R"js("value": "./{}.safetensors"}})js",
          i);
    }
    const std::string path = dir_ / "t_debug_tree_FULL_TENSORS.json";
    std::ofstream(path) << Module("net", "[" + tensors + "]");
    auto file = OpenTensorFile(path, {});
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? *std::move(file) : nullptr;
  }

  static int64_t OpenDescriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         {});
  }

  const testing::TempDir dir_;
};

TEST_F(FilesTest, AreOpenOnlyWhileTheyAreRead) {
  const int64_t before = OpenDescriptors();
  const auto file = Open(100);
  ASSERT_NE(file, nullptr);
  EXPECT_LE(OpenDescriptors(), before + 1);
  for (int i = 0; i < 100; ++i) {
    ASSERT_NE(file->Next(), nullptr);
    EXPECT_EQ(*ReadAll(*file, 16),
              BytesOf(std::vector<float>{static_cast<float>(i)}));
  }
  EXPECT_LE(OpenDescriptors(), before + 1);
}

TEST_F(FilesTest, ThatWereReplacedAreNotRead) {
  const auto file = Open(3);
  ASSERT_NE(file, nullptr);
  Write(3, 5);
  std::filesystem::rename(PathOf(3), PathOf(0));
  std::filesystem::remove(PathOf(1));
  ASSERT_NE(file->Next(), nullptr);
  EXPECT_EQ(ReadAll(*file, 16).status().code(), absl::StatusCode::kDataLoss);
  ASSERT_NE(file->Next(), nullptr);
  EXPECT_EQ(ReadAll(*file, 16).status().code(), absl::StatusCode::kNotFound);
  ASSERT_NE(file->Next(), nullptr);
  EXPECT_EQ(*ReadAll(*file, 16), BytesOf(std::vector<float>{2}));
}

}  // namespace
}  // namespace msitd::formats
