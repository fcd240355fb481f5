// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/daemon/origin/recorded_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "protos/compute/digest.h"

namespace msitd::origin {

using testing::FakeStore;
using testing::TestChunks;
using testing::TestTensor;

RecordedProgram::~RecordedProgram() {
  if (records_.empty()) return;
  TestChunks chunks(/*stream_id=*/1 + static_cast<uint64_t>(rank_),
                    /*chunk_sequence=*/0, records_);
  // A daemon computes summaries before it appends.
  for (chunk::Chunk& chunk : chunks.span()) {
    for (chunk::RecordDescriptor& record : chunk.records()) {
      if (chunk::KindOf(record) != RecordKind::kTensor &&
          chunk::KindOf(record) != RecordKind::kNumber) {
        continue;
      }
      const Digest digest = compute::DigestPart(
          chunk.PayloadOf(record), static_cast<DType>(record.dtype));
      record.summary = digest.summary;
      record.hash = digest.hash;
    }
  }
  EXPECT_TRUE(store_.Append(chunks.span()).ok());
}

RecordedProgram& RecordedProgram::Add(Io io, const std::string& op,
                                      std::vector<float> values,
                                      const std::string& index, int32_t call) {
  TestTensor& tensor = records_.emplace_back();
  tensor.key = {kRun, rank_, "cpu:0", token_, op, call, io, index};
  tensor.dtype = DType::kFloat32;
  tensor.dims = {static_cast<int64_t>(values.size())};
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  tensor.sequence = sequence_++;
  return *this;
}

RecordedProgram& RecordedProgram::AddNumber(Io io, const std::string& op,
                                            double number,
                                            const std::string& index) {
  records_.push_back(testing::MakeValue(kRun, token_, RecordKind::kNumber,
                                        index, fmt::format("{}", number)));
  TestTensor& record = records_.back();
  record.key.rank = rank_;
  record.key.op = op;
  record.key.io = io;
  record.sequence = sequence_++;
  std::memcpy(record.bytes.data(), &number, sizeof(number));
  return *this;
}

RecordedProgram& RecordedProgram::AddStatistics(const std::string& op,
                                                const std::string& text) {
  records_.push_back(testing::MakeStatistics(kRun, token_, op, text));
  records_.back().key.rank = rank_;
  records_.back().sequence = sequence_++;
  return *this;
}

RecordedProgram& RecordedProgram::AddDocument(const std::string& op,
                                              const std::string& text,
                                              int64_t token) {
  TestTensor& document = records_.emplace_back();
  document.key = {kRun, rank_, "cpu:0", token, op, 0, Io::kState, ""};
  document.kind = RecordKind::kDocument;
  document.dtype = DType::kUint8;
  document.dims = {static_cast<int64_t>(text.size())};
  document.bytes.resize(text.size());
  std::memcpy(document.bytes.data(), text.data(), text.size());
  document.sequence = sequence_++;
  return *this;
}

RecordedProgram& RecordedProgram::Token(int64_t token) {
  token_ = token;
  return *this;
}

RecordedProgram& RecordedProgram::Skip(uint64_t count) {
  sequence_ += count;
  return *this;
}

RecordedProgram& RecordedProgram::Shape(std::vector<int64_t> dims) {
  records_.back().dims = std::move(dims);
  return *this;
}

RecordedProgram& RecordedProgram::RequiresGrad() {
  records_.back().requires_grad = true;
  return *this;
}

void CreateRun(FakeStore& store, int32_t world_size) {
  ASSERT_TRUE(store.CreateRun({kRun, world_size, {}}).ok());
  for (int32_t rank = 0; rank < world_size; ++rank) ReportLost(store, rank, 0);
}

void ReportLost(FakeStore& store, int32_t rank, uint64_t dropped_count) {
  StreamCoverage coverage;
  coverage.seen_count = 1000;
  coverage.dropped_count = dropped_count;
  EXPECT_TRUE(store
                  .ReportCoverage(kRun, rank,
                                  /*stream_id=*/1 + static_cast<uint64_t>(rank),
                                  coverage)
                  .ok());
}

OriginAnswer Search(FakeStore& store, bool is_strict,
                    const compare::ActivitySource* activity) {
  Condition condition;
  condition.is_not_finite = true;
  condition.is_strict = is_strict;
  condition.holds = [](const storage::TensorInfo& tensor) {
    return tensor.summary.finite_count() < tensor.summary.count;
  };
  const auto run = store.OpenRun(kRun);
  EXPECT_TRUE(run.ok());
  auto answer =
      FindOrigin(**run, condition, activity, [] { return absl::OkStatus(); });
  EXPECT_TRUE(answer.ok()) << answer.status();
  return *std::move(answer);
}

std::string Describe(const OriginAnswer& answer) {
  if (answer.result == OriginAnswer::Result::kNone) return "none";
  if (answer.result == OriginAnswer::Result::kNotKnown) {
    return fmt::format("not known: {}",
                       fmt::join(answer.unknown.front().origin.gaps, "; "));
  }
  constexpr const char* kKinds[] = {"op", "code", "input", "weight", "state"};
  const RankOrigin& origin = answer.origins.front().origin;
  std::string text =
      fmt::format("{} {}", kKinds[static_cast<size_t>(origin.kind)], origin.op);
  if (!origin.after.empty()) text += " after " + origin.after;
  if (!origin.before.empty()) text += " before " + origin.before;
  const TensorKey& key = origin.tensor.key;
  if (key.token > 0) text += fmt::format(" token {}", key.token);
  if (key.rank > 0) text += fmt::format(" rank {}", key.rank);
  return text;
}

}  // namespace msitd::origin
