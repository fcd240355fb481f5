// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/measure/tensor_stream.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/support/named_runs.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {

class StreamObserver final : public WorkObserver {
 public:
  absl::Status Check() override {
    ++questions;
    return cancelled_at >= 0 && questions >= cancelled_at
               ? absl::CancelledError("cancelled")
               : absl::OkStatus();
  }
  void OnRead(uint64_t bytes) override { read_bytes += bytes; }

  int questions = 0;
  int cancelled_at = -1;  // The first question that is answered with an error.
  uint64_t read_bytes = 0;
};

// Records tensors with random bytes, and reads streams of them.
class StreamFixture : public ::testing::Test {
 protected:
  RecordedTensor RecordOne(DType dtype, std::vector<int64_t> shape,
                           int32_t rank) {
    RecordedTensor out;
    out.op = "op" + std::to_string(recorded_++);
    out.dtype = dtype;
    out.shape = std::move(shape);
    out.rank = rank;
    out.bytes.resize(ElementCount(out.shape) * ElementBytes(dtype));
    for (char& c : out.bytes) c = static_cast<char>(random_());
    recorder_.Record(out);
    return out;
  }

  TensorSource SourceOf(const std::vector<RecordedTensor>& shards,
                        ShardGrid grid = {}) {
    TensorSource out;
    out.side = "golden";
    out.run = *runs_.Open("g");
    out.grid = std::move(grid);
    for (const RecordedTensor& shard : shards) {
      out.shards.push_back(*runs_.GetTensor(recorder_.KeyOf(shard)));
    }
    return out;
  }

  // Returns all bytes of the stream, and checks the size of every piece.
  absl::StatusOr<std::string> Drain(const TensorSource& source) {
    MSITD_ASSIGN_OR_RETURN(const auto stream,
                           TensorStream::Open(source, observer_, buffers_));
    std::string out;
    uint64_t rest = stream->element_count();
    while (rest > 0) {
      MSITD_RETURN_IF_ERROR(stream->Fill());
      const uint64_t count = stream->rest_count();
      EXPECT_TRUE(count == rest ||
                  count % compute::PairAccumulator::kPairBlockElements == 0);
      const auto bytes = stream->Take(count);
      out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      rest -= count;
    }
    dtype_ = stream->dtype();
    summary_ = stream->summary();
    return out;
  }

  std::mt19937 random_{20};
  testing::FakeStore store_;
  RunRecorder recorder_{store_, "g"};
  testing::NamedRuns runs_{store_};
  StreamObserver observer_;
  StreamBuffers buffers_;
  int recorded_ = 0;
  // Those of the last stream.
  DType dtype_ = DType::kUnspecified;
  Summary summary_;
};

}  // namespace msitd::compare
