// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/match/facts.h"
#include "client/foreign/match/msprobe/msprobe_mapping.h"

namespace msitd::match {

// The document that assigns calls to modules.
inline constexpr std::string_view kMsprobeConstructFile = "construct.json";

// Which of the three entries of a call, as named in dump.json.
enum class MsprobePass : uint8_t { kForward, kBackward, kGradients };

// Two paired calls.
struct LayerPair {
  MsprobePass pass = MsprobePass::kForward;
  size_t golden_op = 0;
  int32_t golden_call = 0;
  size_t target_op = 0;
  int32_t target_call = 0;
};

struct LayerPairs {
  std::vector<LayerPair> pairs;
  // Whether each of MsprobeMapping::layers matched a module of the target.
  std::vector<bool> is_used;
  // The numbers of calls that are not paired.
  size_t target_left = 0;
  size_t golden_left = 0;
};

// Pairs calls that have the same place in their models: the same path of
// layers, after the layer mapping has replaced the names of the target by
// golden names. If several calls have the same place, they are paired in order.
//
// The place of a call that is not a module is that of the module that contains
// it, according to construct.json of each run; without this file it is the top.
// Layers of a ParallelTransformer are numbered from 0 over all stages of a
// pipeline.
//
// Errors: RESOURCE_EXHAUSTED above kLayerCallsMax. INVALID_ARGUMENT for an
// invalid construct.json, or if two such files of a run, which belong to
// different ranks or tokens, disagree on the place of a call or on its number
// among the calls at that place, because a pair applies to all ranks and
// tokens. A file may lack calls that are last at their place in another file.
absl::StatusOr<LayerPairs> PairLayers(const RunFacts& golden,
                                      const RunFacts& target,
                                      const MsprobeMapping& mapping);

}  // namespace msitd::match
