// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "daemon/origin/find_origin.h"
#include "tests/support/fake_store.h"
#include "tests/support/test_chunk.h"

namespace msitd::origin {

inline constexpr char kRun[] = "r";
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

// Records of one rank, in the order of the calls of this class. They are stored
// when the object is destroyed.
class RecordedProgram {
 public:
  explicit RecordedProgram(testing::FakeStore& store, int32_t rank = 0)
      : store_(store), rank_(rank) {}
  ~RecordedProgram();

  // Adds a tensor of float32.
  RecordedProgram& Add(Io io, const std::string& op, std::vector<float> values,
                       const std::string& index = "0", int32_t call = 0);
  RecordedProgram& In(const std::string& op, std::vector<float> values) {
    return Add(Io::kInput, op, std::move(values));
  }
  RecordedProgram& Out(const std::string& op, std::vector<float> values) {
    return Add(Io::kOutput, op, std::move(values));
  }
  // Adds a call with an input and an output.
  RecordedProgram& Call(const std::string& op, std::vector<float> input,
                        std::vector<float> output) {
    return In(op, std::move(input)).Out(op, std::move(output));
  }
  // Adds a number of float64.
  RecordedProgram& AddNumber(Io io, const std::string& op, double number,
                             const std::string& index = "0");
  RecordedProgram& AddStatistics(const std::string& op,
                                 const std::string& text);
  RecordedProgram& AddDocument(const std::string& op, const std::string& text,
                               int64_t token = 0);

  // The token of later records.
  RecordedProgram& Token(int64_t token);
  // Skips positions of the execution order, as for records that are lost.
  RecordedProgram& Skip(uint64_t count);
  // The shape of the last tensor.
  RecordedProgram& Shape(std::vector<int64_t> dims);
  // The last tensor requires a gradient.
  RecordedProgram& RequiresGrad();

 private:
  testing::FakeStore& store_;
  const int32_t rank_;
  int64_t token_ = 0;
  uint64_t sequence_ = 0;
  std::vector<testing::TestTensor> records_;
};

// Creates the run.
void CreateRun(testing::FakeStore& store, int32_t world_size = 1);

// Reports coverage of a rank that has lost `dropped_count` records.
void ReportLost(testing::FakeStore& store, int32_t rank,
                uint64_t dropped_count);

// Searches for NaN and infinities. `activity` is that of FindOrigin.
OriginAnswer Search(testing::FakeStore& store, bool is_strict = false,
                    const compare::ActivitySource* activity = nullptr);

// Returns `OP op`, `CODE op after A before B`, and so on, or the gaps of the
// first symptom, or `none`.
std::string Describe(const OriginAnswer& answer);

}  // namespace msitd::origin
