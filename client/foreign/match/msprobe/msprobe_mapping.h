// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/names/msprobe_names.h"

// The contents of msprobe's mapping files. The target is what msprobe calls
// NPU, or MindSpore; golden is what it calls bench, or PyTorch.
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
  // Paired arguments, target first. If a list is given, arguments that it does
  // not name are not paired.
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
    // A list of tensors is ignored with all of its elements.
    std::string index;
  };

  std::vector<Leaves> data;
  std::vector<Cells> cells;
  std::vector<Apis> apis;
  // Lines of the same type are adjacent, the longest target paths first.
  std::vector<Layers> layers;
  // True if there is a layer mapping, even an empty one. Equal names are paired
  // in any case.
  bool has_layers = false;
  std::vector<Ignored> ignored;
};

// The class that represents the model itself in a layer mapping.
inline constexpr std::string_view kMsprobeTopLayer = "TopLayer";

// The table of ignored arguments that is used by default: msprobe_ignored.yaml.
std::string_view DefaultIgnoreTable();

// Each function parses one file and adds it to `out`.
//
// Errors: INVALID_ARGUMENT with the line if the text is not such a mapping;
// RESOURCE_EXHAUSTED beyond the limits of yaml_text.h.
absl::Status ReadDataMapping(std::string_view yaml, MsprobeMapping& out);
absl::Status ReadCellMapping(std::string_view yaml, MsprobeMapping& out);
absl::Status ReadApiMapping(std::string_view yaml, MsprobeMapping& out);
absl::Status ReadLayerMapping(std::string_view yaml, MsprobeMapping& out);
absl::Status ReadIgnoreTable(std::string_view yaml, MsprobeMapping& out);

}  // namespace msitd::match
