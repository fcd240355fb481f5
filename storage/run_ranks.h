// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/chunk_store.h"
#include "storage/types.h"

namespace msitd::storage {

// Which ranks of a run an answer is made of.
struct RunRanks {
  // Those of which there are tensors, or of which the capture policy left all
  // out; ascending. A rank that streamed and recorded nothing, though the
  // policy asks everything of it, is none of them.
  std::vector<int32_t> held;
  // The others of the world size that the capture policy asks something of;
  // ascending. None of a run whose world size is not known.
  std::vector<int32_t> lacking;
};

// Looks which ranks of `run` have come. Only those of `selected` count, unless
// it is empty.
//
// Errors: those of the store.
absl::StatusOr<RunRanks> FindRunRanks(ChunkStore& store, const RunInfo& run,
                                      std::span<const int32_t> selected);

// The same of the run of that name.
absl::StatusOr<RunRanks> FindRunRanks(ChunkStore& store, std::string_view run,
                                      std::span<const int32_t> selected);

}  // namespace msitd::storage
