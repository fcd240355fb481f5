// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// A tensor of a run: equal numbers mean equal bytes.
struct Record {
  std::string op;
  Io io = Io::kOutput;
  uint64_t golden = 0;
  uint64_t target = 0;
  // When each run recorded it; 0 if the run did not.
  uint64_t golden_at = 0;
  uint64_t target_at = 0;
};

class RecordedPairsTest : public ::testing::Test {
 protected:
  const LogicalTensor* Tensor(const Record& record, uint64_t bytes,
                              uint64_t at) {
    if (at == 0) return nullptr;
    LogicalTensor& out = tensors_.emplace_back();
    out.key.op = record.op;
    out.key.io = record.io;
    out.key.index = "0";
    out.dtype = DType::kFloat32;
    out.shape = shape_;
    out.hash.low = bytes;
    out.sequence = at;
    out.summary.min = min_;
    out.summary.max = 1;
    return &out;
  }

  // Returns the pairs in the order of the golden run.
  std::vector<TensorPair> Pairs(const std::vector<Record>& records) {
    std::vector<TensorPair> out;
    for (const Record& record : records) {
      out.push_back({Tensor(record, record.golden, record.golden_at),
                     Tensor(record, record.target, record.target_at)});
    }
    return out;
  }

  std::vector<int64_t> shape_ = {4, 8};
  double min_ = -1;
  std::deque<LogicalTensor> tensors_;
};

}  // namespace msitd::compare
