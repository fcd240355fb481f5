// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/foreign/trees/tree.h"

namespace msitd::msit_command {

// The file in which msit writes the modules of a torch model.
inline constexpr char kModelTree[] = "model_tree.json";

// A dump that msit wrote of a torch model or of the acceleration library: a
// process, and the processes next to it, which are its cards.
struct DumpSide {
  trees::TreeKind kind = trees::TreeKind::kMsit;
  // The folder to open: that of the process, or that of several. For the
  // library it is the folder of the whole dump, because its graphs are next to
  // its tensors.
  std::string folder;
  // The folder of the process that the path names, or of the first one.
  std::string process;
  // The folders of all processes there, by rank; at least `process`.
  std::vector<std::string> cards;
  // The index of `process` in `cards`.
  int32_t card = 0;
  // The token whose folder the path names; for the library, the execution.
  std::optional<int64_t> token;
  // The number of topologies of the process of the library.
  size_t graph_count = 0;
};

// Parses the paths that msit supports: for a dump of the library any path from
// `msit_dump*` on, with a graph in `model/<pid>`, and for a torch model the
// path of a process, or up to two folders in it. Returns nothing for other
// paths. `path` is absolute.
std::optional<DumpSide> FindDumpSide(const std::string& path);

}  // namespace msitd::msit_command
