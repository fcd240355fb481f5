// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/tensor_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/support/temp_dir.h"
#include "tests/unit/client/foreign/formats/read_all.h"

namespace msitd::formats {
namespace {

constexpr char kHead[] =
    "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }\n";

TEST(TensorFileTest, TheContentSaysWhatItIs) {
  const testing::TempDir dir;
  const std::string path = dir / "MatMul.mm.1.2.3";
  std::ofstream(path, std::ios::binary) << NpyOf(kHead, "abcd");
  const auto file = OpenTensorFile(path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->kind(), FileKind::kNpy);
  EXPECT_EQ(FileKindName((*file)->kind()), "npy");
  EXPECT_EQ((*file)->tensor_count(), 1);
  ASSERT_NE((*file)->Next(), nullptr);
  EXPECT_EQ(*ReadAll(**file, 1000), "abcd");
  EXPECT_EQ((*file)->Next(), nullptr);
  EXPECT_EQ((*file)->Next(), nullptr);
}

TEST(TensorFileTest, WhatIsNoFileIsRefused) {
  const testing::TempDir dir;
  EXPECT_EQ(OpenTensorFile(dir / "none", {}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenTensorFile(dir.path(), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::string pipe = dir / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(OpenTensorFile(pipe, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TensorFileTest, UnknownKindsAreRefused) {
  for (const char* text : {"x", "\x93NUMP", "hello, world: no tensors"}) {
    EXPECT_EQ(OpenText(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  // An empty file may still be in the process of being written.
  EXPECT_EQ(OpenText("").status().code(), absl::StatusCode::kDataLoss);
}

TEST(TensorFileTest, AFileThatShrinksWhileItIsReadIsDataLoss) {
  const testing::TempDir dir;
  const std::string path = dir / "x.npy";
  // The tensor is longer than the read-ahead.
  const std::string head =
      "{'descr': '<i4', 'fortran_order': False, 'shape': (4096,), }";
  std::ofstream(path, std::ios::binary) << NpyOf(head, std::string(16384, 'x'));
  const auto file = OpenTensorFile(path, {});
  ASSERT_TRUE(file.ok());
  ASSERT_NE((*file)->Next(), nullptr);
  ASSERT_EQ(::truncate(path.c_str(), 8192), 0);
  EXPECT_EQ(ReadAll(**file, 16384).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace msitd::formats
