// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace msitd {

// Side of an op that a tensor belongs to. The numbers are part of the chunk
// format and equal those of msitd.v1.Io.
enum class Io : uint8_t {
  kUnspecified = 0,
  kInput = 1,
  kOutput = 2,
  kWeight = 3,
  kGradInput = 4,
  kGradOutput = 5,
  kGradWeight = 6,
  kState = 7,
};

inline constexpr int kIoCount = 8;

constexpr bool IsValid(Io io) { return io >= Io::kInput && io <= Io::kState; }

// Returns "input", "output", "weight", "grad_input", "grad_output",
// "grad_weight" or "state"; "unspecified" otherwise.
std::string_view IoName(Io io);

// Inverse of IoName; nothing for an unknown name.
std::optional<Io> ParseIo(std::string_view name);

// Identifies one tensor among all runs of all nodes, without naming the node.
// The fields are in the order of the primary index. See docs/glossary.md.
struct TensorKey {
  std::string run;
  int32_t rank = 0;
  std::string device;
  int64_t token = 0;
  std::string op;
  int32_t call = 0;
  Io io = Io::kUnspecified;
  std::string index;

  friend bool operator==(const TensorKey&, const TensorKey&) = default;
};

}  // namespace msitd
