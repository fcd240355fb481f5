// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/tensor_key.h"

// Tables that state how the modules of an engine correspond to those of
// transformers. There is one for each engine, as YAML that is compiled in.
// README.md describes their keys.
//
// A table translates the path of a module to its path in transformers, and
// lists the modules whose tensors differ. The tables of two
// runs translate both to the same paths, so that any two engines can be
// compared without a table for each pair.
namespace msitd::match {

// A tensor of a module.
struct EngineTensorRule {
  Io io = Io::kUnspecified;
  std::string index;
  Io as_io = Io::kUnspecified;  // Unspecified: no counterpart.
  std::string as_index;
  std::optional<std::string> module;
  std::string also;
  // Each an io and an index.
  std::vector<std::pair<Io, std::string>> plus;
  bool needs_plus = false;
  std::optional<std::pair<Io, std::string>> unless;
  std::string unless_version;
  std::vector<int64_t> split;
  size_t part = 0;
  bool ends_layer = false;
  std::string gone;
};

// A part of a fused projection.
struct EnginePart {
  std::string name;
  std::string size;  // A number or the name of a size.
};

// A weight that holds all experts.
struct EngineExperts {
  std::string weight;
  bool is_gate_up = false;  // Otherwise the second projection.
};

// How each of several ranks has a part of a tensor of a module: along `dim`, in
// sections of these relative lengths.
struct EngineCut {
  Io io = Io::kUnspecified;
  std::string index;
  int dim = 0;
  std::vector<int> sections;
};

enum class EngineShards : uint8_t {
  kNone,
  kColumns,
  kRows,
  kRowsAndSum,
  kParts,
  kVocabulary,
  kSum
};

struct EngineModuleRule {
  std::string module;
  std::string module_class;  // Empty for any.
  std::string versions;      // Empty for any.
  std::vector<EngineTensorRule> tensors;
  std::vector<EnginePart> parts;
  std::string groups;
  std::vector<EngineExperts> experts;
  std::string owner;
  std::string gone;
  std::string activations;
  bool is_batch_first = false;
  EngineShards shards = EngineShards::kNone;
  std::vector<EngineCut> cuts;       // Before `shards`.
  std::vector<EngineCut> head_cuts;  // As `cuts`, of keys and values.
  bool has_vocabulary = false;
  bool has_logits = false;
};

struct EngineTable {
  std::string engine;
  std::string package;
  std::string checked;
  bool is_sequence_first = false;
  // Whether hooks record the placement of most tensors on ranks.
  bool is_placed = false;
  std::vector<std::pair<std::string, std::string>> names;
  std::vector<std::string> arguments;
  // Modules of transformers that the engine does not have, and why.
  std::vector<std::pair<std::string, std::string>> lacks;
  std::vector<EngineModuleRule> rules;
};

// Returns the texts of all tables.
std::vector<std::string_view> EngineTableTexts();

// Parses a table. Errors: INVALID_ARGUMENT with the line.
absl::StatusOr<EngineTable> ParseEngineTable(std::string_view yaml);

// Returns the parsed tables, which a test checks.
const std::vector<EngineTable>& EngineTables();

// Returns the table of an engine; null if there is none.
const EngineTable* FindEngineTable(std::string_view engine);

// Returns whether a version such as `0.11.2.post1` is in a range such as
// `>=0.5` or `<5`. A version that is not known is taken to be the newest.
bool IsInVersions(std::string_view version, std::string_view range);

// Returns whether a path or a class fits a pattern of a table.
bool FitsPattern(std::string_view text, std::string_view pattern);

// Returns the path of a module in transformers, without `owner`.
std::string ToCommonPath(const EngineTable& table, std::string_view path);

// Returns the rule of a module; null if there is none. `path` is the path in
// transformers.
const EngineModuleRule* FindModuleRule(const EngineTable& table,
                                       std::string_view path,
                                       std::string_view module_class,
                                       std::string_view version);

}  // namespace msitd::match
