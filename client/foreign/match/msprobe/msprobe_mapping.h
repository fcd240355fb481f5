// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/names/msprobe_names.h"

// What the mapping files of msprobe say. The target is what it calls NPU, or
// MindSpore; golden is what it calls bench, or PyTorch.
namespace msitd::match {

struct MsprobeMapping {
  // A line of a data mapping.
  struct Leaves {
    names::MsprobeKey target;
    names::MsprobeKey golden;
  };
  // A line of a cell mapping: names of modules with their class, but without
  // `Cell.` or `Module.`, or a part of such names.
  struct Cells {
    std::string target;
    std::string golden;
  };
  // Arguments that belong together, target first. Those of a list that is there
  // and does not name them belong to none.
  struct Arguments {
    bool is_given = false;
    std::vector<std::pair<std::string, std::string>> pairs;
  };
  // An entry of an API mapping.
  struct Apis {
    std::string target;
    std::string golden;
    Arguments inputs;
    Arguments outputs;
    Arguments parameters;
    Arguments gradients;
  };
  // A line of a layer mapping: paths below a module of this class.
  struct Layers {
    std::string type;
    std::string target;
    std::string golden;
  };

  // Arguments of an API that are not compared: receive buffers and scratch.
  struct Ignored {
    std::string op;
    Io io = Io::kInput;
    // A list of tensors is there with all of them.
    std::string index;
  };

  std::vector<Leaves> data;
  std::vector<Cells> cells;
  std::vector<Apis> apis;
  // Those of one type stand together, the longest target paths first.
  std::vector<Layers> layers;
  // True if there is a layer mapping, though it may be empty: names that are
  // equal belong together nevertheless.
  bool has_layers = false;
  std::vector<Ignored> ignored;
};

// The class that stands for the model itself in a layer mapping.
inline constexpr std::string_view kMsprobeTopLayer = "TopLayer";

// The table of what is ignored unless there is another: msprobe_ignored.yaml.
std::string_view DefaultIgnoreTable();

// Read a file each, and add it to `out`.
//
// Errors: INVALID_ARGUMENT with the line for what is no such mapping;
// RESOURCE_EXHAUSTED beyond the bounds of yaml_text.h.
absl::Status ReadDataMapping(std::string_view yaml, MsprobeMapping& out);
absl::Status ReadCellMapping(std::string_view yaml, MsprobeMapping& out);
absl::Status ReadApiMapping(std::string_view yaml, MsprobeMapping& out);
absl::Status ReadLayerMapping(std::string_view yaml, MsprobeMapping& out);
absl::Status ReadIgnoreTable(std::string_view yaml, MsprobeMapping& out);

}  // namespace msitd::match
