// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "client/foreign/match/engine/engine_run.h"
#include "client/foreign/match/engine/engine_table.h"
#include "client/foreign/match/mapping.h"
#include "protos/base/tensor_key.h"

// The part of the tensors of a module that each of several ranks has.
namespace msitd::match {

// Returns a size by its name, or the number that `text` is.
std::optional<int64_t> SizeOf(std::string_view text, const EngineSizes& sizes);

// Returns the lengths of the parts of a fused projection; empty if one of them
// is not known.
std::vector<int64_t> PartSizes(const EngineModuleRule& rule,
                               const EngineSizes& sizes);

// Returns the lengths of the parts in the tensor that the shards of `ranks`
// ranks form. If there are fewer key heads than ranks, several ranks have the
// same one.
std::vector<int64_t> HeldSizes(const EngineModuleRule& rule,
                               const EngineSizes& sizes, int ranks);

// Returns the shape of the tensor that the shards of `ranks` ranks form, each
// of which has `shape`. `rule` may be null.
std::vector<int64_t> ShapeOfLayer(const EngineModuleRule* rule, Io io,
                                  std::string_view index,
                                  std::vector<int64_t> shape, int ranks);

// Returns the layouts that put together the shards of `ranks` ranks for the ops
// of a run. `world_size` is the number of ranks of the run. With `fits_others`,
// tensors that the tables do not mention are put together as the sizes of both
// runs suggest. Otherwise they are copies.
std::vector<ShardLayout> LayoutsOf(const EngineRun& run,
                                   const EngineSizes& sizes, int ranks,
                                   int world_size, bool fits_others);

}  // namespace msitd::match
