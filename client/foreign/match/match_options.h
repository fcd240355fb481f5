// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "client/foreign/match/msprobe/msprobe_mapping.h"

namespace msitd::match {

// Which modules of a torch model and of the acceleration library are put side
// by side.
enum class ModuleLevel : uint8_t { kAll, kLayer, kModule, kApi };

struct MatchOptions {
  // As msit does it, with its mistakes: arguments in the order of their texts,
  // the longer list cut, the op of which only the beginning is known, the last
  // of several tensors of an op alone, the larger of several calls alone.
  bool is_compat = false;
  ModuleLevel level = ModuleLevel::kAll;
  // Of several graphs of the acceleration library, prefill before decode, the
  // one at this place alone. A model of torch that is the target needs that: of
  // its tensors each belongs to one golden tensor.
  std::optional<size_t> graph = {};
  // The ranks of a run have copies or pieces of a tensor, which are put
  // together as the sizes of both runs say. Of torch and the acceleration
  // library.
  bool joins_ranks = false;
  // The bytes of an op_mapping_file.json; empty for none.
  std::string op_mapping = {};
  // What the mapping files of msprobe say.
  MsprobeMapping msprobe = {};
};

}  // namespace msitd::match
