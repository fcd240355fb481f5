// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Limits on the input of matchers. Input beyond a limit is rejected with
// RESOURCE_EXHAUSTED unless stated otherwise.
namespace msitd::match {

// Different ops of a run, and different tensors of all of them.
inline constexpr size_t kOpsMax = size_t{1} << 17;
inline constexpr size_t kTensorsMax = size_t{1} << 19;

// Texts of a run: graphs, mappings, trees of modules.
inline constexpr size_t kFilesMax = 256;
inline constexpr size_t kFileBytesMax = size_t{64} << 20;
inline constexpr size_t kFilesBytesMax = size_t{256} << 20;

// Ops of a graph, and edges of an op. The rest of the text is not read.
inline constexpr size_t kGraphOpsMax = size_t{1} << 18;
inline constexpr size_t kGraphEdgesMax = size_t{1} << 12;
// Nesting depth of messages.
inline constexpr size_t kGraphDepthMax = 100;

// Values of a JSON text, and their nesting depth. A module of a tree is in a
// list of an object.
inline constexpr size_t kJsonValuesMax = size_t{1} << 21;
inline constexpr size_t kJsonDepthMax = 256;

// Modules of a tree.
inline constexpr size_t kModulesMax = size_t{1} << 17;

// Lists of arguments whose lengths have a larger product are not aligned.
inline constexpr size_t kAlignCellsMax = size_t{1} << 20;

// Calls of all ops of a run that are paired by layer.
inline constexpr size_t kLayerCallsMax = size_t{1} << 18;

// Lines of a cell mapping, each of which is searched for in each module, and
// entries of an API mapping.
inline constexpr size_t kCellLinesMax = size_t{1} << 13;
inline constexpr size_t kApiEntriesMax = size_t{1} << 13;

// Arguments in a table of ignored arguments.
inline constexpr size_t kIgnoredMax = size_t{1} << 13;

// Topologies of a run of the acceleration library.
inline constexpr size_t kTopologiesMax = 16;

// Candidates of a heuristic matcher: pairs of modules.
inline constexpr size_t kModulePairsMax = size_t{1} << 18;

// An op_mapping_file.json of a user.
inline constexpr size_t kOpMappingBytesMax = size_t{1} << 20;

// Tensors that are named for each reason why tensors are left unpaired.
inline constexpr size_t kExamplesMax = 3;

}  // namespace msitd::match
