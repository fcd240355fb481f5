// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "client/foreign/match/engine/engine_run.h"
#include "client/foreign/match/engine/engine_view.h"
#include "client/foreign/match/facts.h"
#include "client/foreign/match/mapping.h"
#include "protos/base/tensor_key.h"

namespace msitd::match {

// A tensor of a model, named as in transformers: the path of its module, io and
// index.
using CommonTensor = std::tuple<std::string, Io, std::string>;

// The meaning of a recorded tensor, seen through a view.
struct EnginePlace {
  CommonTensor is;
  EngineView view;
  // Why, as the reason of the pair.
  std::string reason;
  // Used only if no other tensor of the run is the same.
  bool is_fallback = false;
  // The whole of a fused projection, of which other places are the parts.
  bool is_fused = false;
  bool has_vocabulary = false;
  bool has_logits = false;
};

// The meanings of all tensors of a run.
struct EnginePlaces {
  // May be null.
  const EngineTable* table = nullptr;
  struct Entry {
    Slot slot;
    std::vector<EnginePlace> places;
    // Why it has no place; empty if it has one.
    std::string gone;
    // Why no place could be derived, although there should be one.
    std::string unfit;
  };

  // In the order of the run.
  std::vector<Entry> entries;
  // Tensors in the names of transformers that the run does not have by design,
  // and why.
  std::map<CommonTensor, std::string> gone;
  // Modules of the run, by their path in transformers.
  std::map<std::string, bool, std::less<>> modules;
};

// Derives what the tensors of a run are. `ranks` is RanksOfLayer.
EnginePlaces PlacesOf(const RunFacts& facts, const EngineRun& run,
                      const EngineSizes& sizes, int ranks);

}  // namespace msitd::match
