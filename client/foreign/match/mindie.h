// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/match/mapping.h"
#include "client/foreign/match/match_options.h"

namespace msitd::match {

// Returns true for the name of a file that MatchMindieWithTorch reads.
bool IsMindieMapping(std::string_view file);

// An op of GE, and the torch node of its layer; empty if the layer has none.
struct MindiePart {
  std::string ge_op;
  std::string node;
};

// The layers that became one op of MindIE, and the torch node that it computes.
struct MindieGroup {
  std::string fusion_op;
  // Nodes of the first and of the last layer in it; empty if they have none.
  std::string first_node;
  std::string node;
  std::vector<MindiePart> parts;  // Its layers.
};

struct MindieMapping {
  // True for nodes of TorchScript, false for those of torch.export.
  bool is_jit = false;
  std::vector<MindieGroup> groups;  // In the order of their ids.
};

// Parses both mappings that MindIE-Torch writes. Their bytes are untrusted.
//
// Errors: INVALID_ARGUMENT with the name of the file and the error in it. A
// mapping without nodes, such as that of a model that was saved and loaded, is
// also an error.
absl::StatusOr<MindieMapping> ParseMindieMapping(std::string_view rt_text,
                                                 std::string_view torch_text);

// Returns the text of msit's op_map_updated.json: the groups by name, and the
// last of several groups with the same name. `is_compat`: each group has the
// layers of the next one, as msit writes it.
std::string OpMapText(const MindieMapping& mapping, bool is_compat);

// Returns the name of the torch module of a node, without `root.`; empty if it
// has none. For torch.export, `_` may stand for a dot.
std::string ModuleOfNode(std::string_view node, bool is_jit);

// Pairs the ops of MindIE (target) with the modules of a torch model (golden).
// The mappings are among the files of the target or of the golden run.
//
// Errors: NOT_FOUND without both mappings; those of ParseMindieMapping.
absl::StatusOr<Mapping> MatchMindieWithTorch(const RunFacts& golden,
                                             const RunFacts& target,
                                             const MatchOptions& options);

}  // namespace msitd::match
