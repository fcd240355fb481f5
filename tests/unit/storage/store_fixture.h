// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protos/status/status.h"
#include "storage/env/env.h"
#include "storage/store.h"
#include "tests/support/named_runs.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_chunk.h"

namespace msitd::storage {

using msitd::testing::MakeTensor;
using msitd::testing::NamedRuns;
using msitd::testing::TempDir;
using msitd::testing::TestChunks;
using msitd::testing::TestTensor;

// A store in its own directory.
class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    options_.directory = dir_ / "store";
    options_.index_write_buffer_bytes = uint64_t{1} << 20;
    options_.index_cache_bytes = uint64_t{1} << 20;
  }

  absl::Status TryOpen(Env& env = Env::Posix()) {
    Drop();
    auto store = Store::Open(options_, env);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    read_.emplace(store_->readers());
    return absl::OkStatus();
  }

  void Open() { ASSERT_TRUE(TryOpen().ok()); }

  void OpenWithRun(const std::string& run) {
    Open();
    ASSERT_TRUE(store_->runs().CreateRun({run, 0, {}}).ok());
  }

  // Closes the store as a crash of the process does.
  void Drop() {
    read_.reset();
    store_.reset();
  }

  absl::Status Append(TestChunks chunks) {
    return store_->log().Append(chunks.span());
  }

  // Appends the next chunk of the stream, with these records.
  absl::Status Append(const std::vector<TestTensor>& records) {
    return Append(TestChunks(kStream, next_chunk_++, records));
  }

  absl::StatusOr<std::vector<std::byte>> Read(const TensorKey& key) {
    MSITD_ASSIGN_OR_RETURN(const TensorInfo info, read_->GetTensor(key));
    std::vector<std::byte> bytes;
    AlignedBuffer buffer;
    for (const PartInfo& part : info.parts) {
      MSITD_ASSIGN_OR_RETURN(const auto span,
                             read_->ReadPart(key.run, part, buffer));
      bytes.insert(bytes.end(), span.begin(), span.end());
    }
    return bytes;
  }

  // Expects that the tensor has the dtype, the shape and the bytes that were
  // sent.
  void ExpectStored(const TestTensor& tensor) {
    const auto info = read_->GetTensor(tensor.key);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->key, tensor.key);
    EXPECT_EQ(info->dtype, tensor.dtype);
    EXPECT_EQ(info->shape, tensor.dims);
    EXPECT_EQ(info->tensor_bytes, tensor.bytes.size());
    EXPECT_EQ(info->sequence, tensor.sequence);
    EXPECT_TRUE(info->has_bytes);
    const auto bytes = Read(tensor.key);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_TRUE(*bytes == tensor.bytes);
  }

  void ExpectAbsent(const TensorKey& key) {
    const auto info = read_->GetTensor(key);
    EXPECT_EQ(info.status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(Reason(info.status()), "TENSOR_NOT_FOUND");
  }

  std::vector<TensorKey> ScanKeys(std::string_view run,
                                  const Selector& selector = {}) {
    std::vector<TensorKey> keys;
    auto scan = read_->Scan(run, selector, "");
    EXPECT_TRUE(scan.ok()) << scan.status();
    if (!scan.ok()) return keys;
    TensorInfo info;
    while (true) {
      const auto found = (*scan)->Next(info);
      EXPECT_TRUE(found.ok()) << found.status();
      if (!found.ok() || !*found) return keys;
      keys.push_back(info.key);
    }
  }

  std::vector<std::string> ScanOps(std::string_view run,
                                   const Selector& selector = {}) {
    std::vector<std::string> ops;
    for (const TensorKey& key : ScanKeys(run, selector)) ops.push_back(key.op);
    return ops;
  }

  std::string SegmentPath(int number) const {
    return options_.directory + fmt::format("/segments/{:08}.seg", number);
  }

  static constexpr uint64_t kStream = 77;

  TempDir dir_;
  StoreOptions options_;
  uint64_t next_chunk_ = 0;
  std::unique_ptr<Store> store_;
  std::optional<NamedRuns> read_;  // Reads the open store.
};

}  // namespace msitd::storage
