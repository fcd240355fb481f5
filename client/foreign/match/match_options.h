// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "client/foreign/match/msprobe/msprobe_mapping.h"

namespace msitd::match {

// The modules of a torch model and of the acceleration library that are paired.
enum class ModuleLevel : uint8_t { kAll, kLayer, kModule, kApi };

struct MatchOptions {
  // Reproduces msit, including its mistakes: arguments are ordered by text, the
  // longer list is truncated, ops match by the beginning of their names, and
  // only the last of several tensors of an op and the largest of several calls
  // are used.
  bool is_compat = false;
  ModuleLevel level = ModuleLevel::kAll;
  // Selects one of several graphs of the acceleration library by position;
  // prefill is before decode. Required if the target is a torch model, because
  // each of its tensors has one golden tensor.
  std::optional<size_t> graph = {};
  // The ranks of a run have copies or pieces of a tensor, which are joined as
  // the sizes of both runs imply. For torch and the acceleration library.
  bool joins_ranks = false;
  // The numbers of ranks of both runs, for engines; 0 if unknown.
  int32_t golden_ranks = 0;
  int32_t target_ranks = 0;
  // The bytes of an op_mapping_file.json; empty for none.
  std::string op_mapping = {};
  // The contents of the mapping files of msprobe.
  MsprobeMapping msprobe = {};
};

}  // namespace msitd::match
