// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/foreign/match/facts.h"
#include "client/foreign/match/mapping.h"

namespace msitd::match {

// Builds facts of a run. For example, RunBuilder("ge").Op("Add", {4, 4},
// {4}).Build() has two inputs and an output of 4 elements each.
class RunBuilder {
 public:
  explicit RunBuilder(std::string source) {
    run_.source = source;
    run_.run = std::move(source) + "-run";
  }

  RunBuilder& Op(std::string_view op, const std::vector<int64_t>& inputs,
                 const std::vector<int64_t>& outputs, int32_t call = 0) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensor(op, call, Io::kInput, std::to_string(i), inputs[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      Tensor(op, call, Io::kOutput, std::to_string(i), outputs[i]);
    }
    return *this;
  }
  RunBuilder& Tensor(std::string_view op, int32_t call, Io io,
                     std::string_view index, int64_t count) {
    (void)builder_.Add(op, call, io, index, {count}, count);
    return *this;
  }
  RunBuilder& Rank(int32_t rank) {
    builder_.GoToRank(rank);
    return *this;
  }
  RunBuilder& File(std::string name, std::string text, int32_t rank = 0,
                   int64_t token = 0) {
    run_.files.push_back({std::move(name), std::move(text), rank, token});
    return *this;
  }
  RunFacts Build() {
    run_.ops = builder_.Finish();
    return std::move(run_);
  }

 private:
  RunFacts run_;
  FactsBuilder builder_;
};

// Returns `op.input.0`, or only the op.
inline std::string ToName(const Reference& reference) {
  std::string out = reference.op;
  if (reference.call.has_value()) out += "#" + std::to_string(*reference.call);
  if (reference.io != Io::kUnspecified) {
    out += "." + std::string(IoName(reference.io)) + "." + reference.index;
  }
  return out;
}

// Returns the pairs as `target=golden`, without reasons. `target=` and
// `=golden` are tensors without a partner.
inline std::vector<std::string> PairsOf(const Mapping& mapping) {
  std::vector<std::string> out;
  for (const Line& line : mapping.lines) {
    out.push_back((line.target ? ToName(*line.target) : "") + "=" +
                  (line.golden ? ToName(*line.golden) : ""));
  }
  return out;
}

// Returns the unpaired tensors as `golden 2: reason`, followed by ` (lacks)` if
// they should have a partner.
inline std::vector<std::string> LeftOf(const Mapping& mapping) {
  std::vector<std::string> out;
  for (const LeftTensors& left : mapping.left) {
    out.push_back((left.is_golden ? "golden " : "target ") +
                  std::to_string(left.count) + ": " + left.reason +
                  (left.is_expected ? "" : " (lacks)"));
  }
  return out;
}

}  // namespace msitd::match
