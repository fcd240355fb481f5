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

// What msit writes of the modules of a torch model.
inline constexpr char kModelTree[] = "model_tree.json";

// What msit dumped of a torch model or of the acceleration library: a process,
// and those beside it, which are its cards.
struct DumpSide {
  trees::TreeKind kind = trees::TreeKind::kMsit;
  // What is opened: the folder of the process, or that of several; of the
  // library that of the whole dump, whose graphs lie beside its tensors.
  std::string folder;
  // The folder of the process that the path names, or of the first one.
  std::string process;
  // The folders of all processes there, by their ranks; at least `process`.
  std::vector<std::string> cards;
  // The place of `process` among them.
  int32_t card = 0;
  // The folder of a token that a path names; of the library, that of an
  // execution.
  std::optional<int64_t> token;
  // Topologies of the process of the library.
  size_t graph_count = 0;
};

// Understands the paths that msit does: of a dump of the library any path from
// `msit_dump*` on, with a graph in `model/<pid>`, and of a torch model that of
// a process, or up to two folders in it. Nothing for other paths. `path` is
// absolute.
std::optional<DumpSide> FindDumpSide(const std::string& path);

}  // namespace msitd::msit_command
