// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/atb_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "protos/status/status.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/client/foreign/formats/read_all.h"

namespace msitd::formats {
namespace {

// Returns a head as written by ATB, with a length that may be wrong.
std::string HeadOf(const std::string& type, const std::string& dims,
                   const std::string& format = "2", int length = 4) {
  const std::string bytes = std::to_string(length);
  return "$Version=1.0\n$Object.Count=1\n$Object.Length=" + bytes +
         "\nformat=" + format + "\ndtype=" + type + "\ndims=" + dims +
         "\n$Object.data=0," + bytes + "\n$End=1\n";
}

struct Read {
  absl::Status status;
  ForeignTensor tensor;
  std::string bytes;
};

Read ReadOne(const std::string& text, const std::string& folder = "") {
  Read read;
  const auto file =
      OpenTensorBytes(std::make_shared<MemorySource>(text), folder, {});
  read.status = file.status();
  if (!file.ok()) return read;
  EXPECT_EQ((*file)->kind(), FileKind::kAtb);
  read.tensor = *(*file)->Next();
  const auto bytes = ReadAll(**file, 64);
  read.status = bytes.status();
  if (bytes.ok()) read.bytes = *bytes;
  return read;
}

TEST(AtbFileTest, ElementsAreBehindTheHead) {
  const Read read = ReadOne(HeadOf("1", "1,1,2") + "abcd");
  EXPECT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(read.tensor.dtype, DType::kFloat16);
  EXPECT_EQ(read.tensor.stored_type, "FLOAT16");
  EXPECT_EQ(read.tensor.stored_layout, "ND");
  EXPECT_EQ(read.tensor.shape, (std::vector<int64_t>{1, 1, 2}));
  EXPECT_EQ(read.tensor.attributes.at("$Object.Length"), "4");
  EXPECT_EQ(read.bytes, "abcd");
}

TEST(AtbFileTest, ALengthThatLiesDoesNotMatter) {
  EXPECT_EQ(ReadOne(HeadOf("1", "2,2", "2", 4) + "abcdefgh").bytes, "abcdefgh");
  EXPECT_EQ(ReadOne(HeadOf("1", "1", "2", 9999) + "ab and more").bytes, "ab");
}

TEST(AtbFileTest, TheShortHeadOfViewersIsRead) {
  const Read read = ReadOne("dtype=2\ndims=\n$End=1\nx");
  EXPECT_EQ(read.tensor.dtype, DType::kInt8);
  EXPECT_TRUE(read.tensor.shape.empty());
  EXPECT_EQ(read.tensor.stored_layout, "");
  EXPECT_EQ(read.bytes, "x");
}

TEST(AtbFileTest, PackedElementsGetBytes) {
  EXPECT_EQ(ReadOne(HeadOf("29", "3") + "\x21\x07").bytes, "\x01\x02\x07");
  EXPECT_EQ(ReadOne(HeadOf("30", "2") + "\x40").bytes, std::string("\0\1", 2));
}

TEST(AtbFileTest, BlocksComeAsTheyAre) {
  Read read = ReadOne(HeadOf("4", "1,1,2,2", "29") + "abcd");
  EXPECT_TRUE(read.tensor.is_as_stored);
  EXPECT_EQ(read.tensor.stored_layout, "FRACTAL_NZ");
  EXPECT_EQ(read.bytes, "abcd");
  read = ReadOne(HeadOf("4", "2", "-1") + "ab");
  EXPECT_FALSE(read.tensor.is_as_stored);
  EXPECT_EQ(read.bytes, "ab");
}

TEST(AtbFileTest, StatisticsAreNoElements) {
  const Read read = ReadOne(
      "format=2\ntype=1\ndims=1,2,3\nmax=10.5\nmin=0.1\nmean=5.0\n"
      "l2norm=7.2\n$End=1");
  EXPECT_EQ(read.status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(read.tensor.dtype, DType::kFloat16);
  EXPECT_EQ(read.tensor.shape, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(read.tensor.attributes, (Attributes{{"max", "10.5"},
                                                {"min", "0.1"},
                                                {"mean", "5.0"},
                                                {"l2_norm", "7.2"}}));
  EXPECT_TRUE(read.tensor.is_statistics);
  EXPECT_EQ(ReadOne("max=x\n$End=1\n").status.code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadOne("max=1\n$End=1\n").status.code(),
            absl::StatusCode::kUnimplemented);
}

TEST(AtbFileTest, StatisticsNeedNoType) {
  const Read read =
      ReadOne("dims=2,3\nmax=7\nmin=-1.5\nmean=nan\nl2norm=inf\n$End=1\n");
  EXPECT_TRUE(read.tensor.is_statistics);
  EXPECT_EQ(read.tensor.dtype, DType::kFloat32);
  EXPECT_EQ(read.tensor.stored_type, "");
  EXPECT_EQ(read.tensor.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(
      read.tensor.attributes,
      (Attributes{
          {"max", "7"}, {"min", "-1.5"}, {"mean", "nan"}, {"l2_norm", "inf"}}));
  // A type that is named but not supported does not default to float32.
  EXPECT_FALSE(IsValid(ReadOne("dtype=13\nmax=1\n$End=1\n").tensor.dtype));
}

TEST(AtbFileTest, DescriptionsHaveNoElements) {
  const Read read = ReadOne(HeadOf("27", "4,8", "2", 0));
  EXPECT_EQ(read.status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Message(read.status),
            "the file has only its description, not its elements");
  // They are read as statistics without values.
  EXPECT_TRUE(read.tensor.is_statistics);
  EXPECT_EQ(read.tensor.dtype, DType::kBfloat16);
  EXPECT_EQ(read.tensor.shape, (std::vector<int64_t>{4, 8}));
  EXPECT_TRUE(ReadOne(HeadOf("1", "0,8", "2", 0)).status.ok());
  // The writer stopped before it wrote the elements.
  EXPECT_EQ(ReadOne(HeadOf("27", "4,8", "2", 64)).status.code(),
            absl::StatusCode::kDataLoss);
}

TEST(AtbFileTest, TensorsWithoutElementsHaveAReason) {
  EXPECT_EQ(ReadOne(HeadOf("999", "1") + "abcd").status.code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReadOne(HeadOf("13", "1") + "abcd").status.code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReadOne("dims=1\n$End=1\nx").status.code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReadOne(HeadOf("1", "3") + "abcd").status.code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadOne(HeadOf("1", "9999999999999,9999999999999")).status.code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(AtbFileTest, WrongHeadsAreRefused) {
  for (const std::string& head :
       {std::string("dtype=1\n"), std::string("dtype=1\ndims=1=2\n$End=1\n"),
        std::string("dtype=1\nhello\n$End=1\n"), HeadOf("x", "1"),
        HeadOf("1", "1,,2"), HeadOf("1", "-1"), HeadOf("1", "1 2"),
        HeadOf("1", "1", "x"), "dims=" + std::string(kAtbHeadBytesMax, '1')}) {
    EXPECT_EQ(ReadOne(head + "").status.code(),
              absl::StatusCode::kInvalidArgument)
        << head.substr(0, 100);
  }
}

TEST(AtbFileTest, ElementsCanBeInAnotherFileOfTheFolder) {
  const testing::TempDir dir;
  std::ofstream(dir / "weights") << "abcd";
  const std::string head = "dtype=1\ndims=2\n";
  for (const std::string& name : {std::string("weights"), dir / "weights"}) {
    const Read read = ReadOne(head + "data=" + name + "\n$End=1\n", dir.path());
    EXPECT_TRUE(read.status.ok()) << read.status;
    EXPECT_EQ(read.bytes, "abcd");
  }
  EXPECT_EQ(ReadOne(head + "data=none\n$End=1\n", dir.path()).status.code(),
            absl::StatusCode::kNotFound);
}

TEST(AtbFileTest, ATensorMayBeThatOfAnotherOp) {
  namespace fs = std::filesystem;
  const testing::TempDir dir;
  const fs::path execution = fs::path(dir.path()) / "0_42" / "1";
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories((execution / file).parent_path());
    std::ofstream(execution / file) << text;
  };
  write("3_Layer/0_Add/after/outtensor0.bin", HeadOf("1", "2") + "abcd");
  write("3_Layer/0_Add/before/intensor1.bin", HeadOf("1", "2") + "efgh");
  write("3_Layer/1_Mul/before/intensor0.bin", "dtype=1\ndata=x\n$End=1\n");
  write("4_A/after/outtensor0.bin", HeadOf("1", "2") + "abcd");
  write("4_B/after/outtensor0.bin", HeadOf("1", "2") + "abcd");
  fs::create_directory_symlink(execution / "3_Layer", execution / "5_Layer");
  const std::string folder = execution / "3_Layer" / "1_Mul" / "after";
  const auto read = [&](const std::string& name, const std::string& type) {
    return ReadOne("dtype=" + type + "\ndims=2\ndata=" + name + "\n$End=1\n",
                   folder);
  };
  EXPECT_EQ(read("3_0_outtensor0.bin", "1").bytes, "abcd");
  EXPECT_EQ(read("3_0_intensor1.bin", "1").bytes, "efgh");
  for (const char* name :
       {"3_0_outtensor1.bin", "3_outtensor0.bin", "4_outtensor0.bin",
        "5_0_outtensor0.bin", "9_outtensor0.bin", "3_1_intensor0.bin",
        "3_0_tiling.bin"}) {
    const Read other = read(name, "1");
    EXPECT_EQ(other.status.code(), absl::StatusCode::kNotFound) << name;
    EXPECT_EQ(other.bytes, "");
  }
  // A tensor of another type is a different tensor.
  EXPECT_EQ(read("3_0_outtensor0.bin", "0").status.code(),
            absl::StatusCode::kNotFound);
  // A kernel whose tensors were not saved refers to itself.
  fs::create_directories(folder);
  const std::string self = "dtype=1\ndims=2\ndata=outtensor0.bin\n$End=1\n";
  std::ofstream(fs::path(folder) / "outtensor0.bin") << self;
  EXPECT_EQ(ReadOne(self, folder).status.code(), absl::StatusCode::kNotFound);
}

TEST(AtbFileTest, OtherFilesElsewhereAreNotOpened) {
  const testing::TempDir dir;
  std::ofstream(dir / "secret") << "abcd";
  const std::string inner = dir / "in";
  for (const std::string& name :
       {std::string("../secret"), dir / "secret", inner + "/../secret",
        std::string(".."), std::string("."), std::string()}) {
    const Read read =
        ReadOne("dtype=1\ndims=2\ndata=" + name + "\n$End=1\n", inner);
    EXPECT_FALSE(read.status.ok()) << name;
    EXPECT_EQ(read.bytes, "");
  }
  EXPECT_EQ(ReadOne("dtype=1\ndims=2\ndata=secret\n$End=1\n").status.code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(AtbFileTest, LinksToOtherFilesAreNotFollowed) {
  namespace fs = std::filesystem;
  const testing::TempDir dir;
  const fs::path inner = fs::path(dir.path()) / "in";
  fs::create_directory(inner);
  std::ofstream(dir / "secret") << "abcd";
  std::ofstream(inner / "weights") << "efgh";
  fs::create_symlink(dir / "secret", inner / "leak.raw");
  fs::create_symlink("leak.raw", inner / "twice.raw");
  fs::create_symlink("weights", inner / "inside.raw");
  fs::create_symlink(dir / "secret", inner / "3_0_outtensor0.bin");
  fs::create_directory(inner / "folder");
  for (const char* name : {"leak.raw", "twice.raw", "inside.raw",
                           "3_0_outtensor0.bin", "folder"}) {
    const Read read = ReadOne(
        "dtype=1\ndims=2\ndata=" + std::string(name) + "\n$End=1\n", inner);
    EXPECT_EQ(read.status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(read.bytes, "") << name;
  }
}

}  // namespace
}  // namespace msitd::formats
