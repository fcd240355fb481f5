// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/origin/rank_origin.h"
#include "storage/face/run_reader.h"

namespace msitd::origin {

// Maximum number of different places at which the ranks of a run have their
// first symptom. If there are more, their order is not determined.
inline constexpr size_t kPlacesMax = 64;

// A place at which some ranks have their first symptom: the same tensor by
// name.
struct SymptomPlace {
  // The origin of one of these ranks. If the value may be received, one that is
  // not known, if there is one.
  RankOrigin origin;
  std::vector<int32_t> ranks;  // Ascending.
};

struct RankRelations {
  // Places that do not follow from another rank. The first one is before all
  // others whose order is known.
  std::vector<SymptomPlace> origins;
  // Places that can follow from another rank.
  std::vector<SymptomPlace> followers;
};

// Determines which first symptoms of several ranks can follow from those of
// other ranks.
//
// The communication between ranks is not recorded completely. A value that may
// have been received (RankOrigin::may_be_received) is assumed to be received if
// another rank has its first symptom earlier, or if the order is not known.
// A tensor with the bytes of one that another rank returned or sent follows
// from it, as in a pipeline. Otherwise, ranks are assumed to run the same
// program: a rank that has a tensor of the same name, type and shape shows at
// which position in the program another rank is.
//
// `origins` are of one token, ascending by rank. If all of them can follow from
// each other, there are no origins.
//
// Errors: those of the reader; that of `stop`.
absl::StatusOr<RankRelations> RelateRanks(storage::RunReader& run,
                                          std::vector<RankOrigin> origins,
                                          storage::StopCheck stop);

}  // namespace msitd::origin
