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

// The document that says in which module a call is.
inline constexpr std::string_view kMsprobeConstructFile = "construct.json";

// Which of the three entries of a call: those of a name in dump.json.
enum class MsprobePass : uint8_t { kForward, kBackward, kGradients };

// Calls that belong together.
struct LayerPair {
  MsprobePass pass = MsprobePass::kForward;
  size_t golden_op = 0;
  int32_t golden_call = 0;
  size_t target_op = 0;
  int32_t target_call = 0;
};

struct LayerPairs {
  std::vector<LayerPair> pairs;
  // Of MsprobeMapping::layers, which of them met a module of the target.
  std::vector<bool> is_used;
  // Calls that belong to none.
  size_t target_left = 0;
  size_t golden_left = 0;
};

// Puts calls together that have the same place in their models: the same path
// of layers, once the layer mapping has made golden names of those of the
// target. Of several calls at one place the n-th belong together.
//
// The place of a call that is no module is that of the module which it is
// called in, as construct.json of each run says; without one it is the top.
// Layers of a ParallelTransformer are numbered from 0, whatever the stage of a
// pipeline.
//
// Errors: RESOURCE_EXHAUSTED above kLayerCallsMax; INVALID_ARGUMENT for a
// construct.json that is none, or if two of a run, which are of different ranks
// or tokens, have a call at different places, or differ in which of the calls
// at its place it is: a pair is for all ranks and tokens. One may lack calls
// that come last at their place in another.
absl::StatusOr<LayerPairs> PairLayers(const RunFacts& golden,
                                      const RunFacts& target,
                                      const MsprobeMapping& mapping);

}  // namespace msitd::match
