// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/tensor_key.h"
#include "storage/face/types.h"
#include "storage/merge/run_share.h"

// A rank whose records are in several places, because its process was restarted
// on another machine.
//
// Such a rank can be read as one if each coordinate (rank, device, token) has
// its records in a single place. Documents are an exception: clients record
// texts about the whole rank, such as the module tree, at token 0, so every
// place to which the process moved has a copy of them there.
namespace msitd::storage {

// Maximum number of places of one rank. Bounds the size of the positions of
// scans.
inline constexpr size_t kRankPlacesMax = 64;

// Maximum number of coordinates of a run that have documents in more than one
// place.
inline constexpr size_t kSharedCoordinatesMax = 4096;

// Maximum number of documents at those coordinates.
inline constexpr size_t kSharedDocumentsMax = size_t{1} << 16;

// The tokens of one device in one share.
struct TokenSpan {
  size_t share = 0;
  int64_t first = 0;
  int64_t last = 0;
};

// Identifies a document at a coordinate in one share.
struct ShareDocument {
  size_t share = 0;
  std::string op;
  int32_t call = 0;
  Io io = Io::kUnspecified;
  std::string index;

  friend auto operator<=>(const ShareDocument&, const ShareDocument&) = default;
};

ShareDocument ShareDocumentOf(size_t share, const TensorKey& key);

struct SplitDevice {
  std::string name;
  std::vector<TokenSpan> spans;  // Ascending by share.
  // The tokens that several shares have, with the documents to skip there
  // because an earlier share has the same.
  std::map<int64_t, std::set<ShareDocument>> shared_tokens;
};

struct SplitRank {
  // In the order in which the shares list them. Stores do not agree on an order
  // of devices.
  std::vector<SplitDevice> devices;

  // Null if the rank does not have the device.
  const SplitDevice* Find(std::string_view device) const;

  // Sorts coordinates of the rank by device and token.
  void Sort(std::span<Coordinate> coordinates) const;
};

// Lists the coordinates of ranks that several shares have. `shares_of_rank` has
// the shares of each of these ranks, ascending. `name` is the name of the run.
//
// Errors: FAILED_PRECONDITION (FIELD_INVALID) if a coordinate has records in
// two places, or two versions of a document; the message names the rank, the
// token and both places. RESOURCE_EXHAUSTED (FIELD_INVALID) above the maximums.
// DATA_LOSS if a share lists its coordinates out of order. Those of the
// readers, with the place.
absl::StatusOr<std::map<int32_t, SplitRank>> FindSplitRanks(
    std::string_view name, std::span<const RunShare> shares,
    const std::map<int32_t, std::vector<size_t>>& shares_of_rank);

}  // namespace msitd::storage
