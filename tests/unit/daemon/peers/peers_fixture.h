// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/peers/remote_source.h"
#include "tests/support/test_chunk.h"
#include "tests/unit/daemon/service/service_fixture.h"

namespace msitd::peers {

// Returns all entries that the selector matches, in their wire format. `run` is
// omitted. If `with_places` is false, places, stacks and originals are omitted
// as well.
std::string EntriesOf(storage::RunReader& run, const Selector& selector,
                      bool with_places = true);

// Returns the same entries as readable names, in order.
std::vector<std::string> NamesOf(storage::RunReader& run,
                                 const Selector& selector);

// Selects records of every kind.
Selector Everything();

// A node in this process. A RemoteSource of another node reads its runs. The
// store is also accessible directly.
class PeersFixture : public service::ServiceFixture,
                     public ::testing::WithParamInterface<testing::StoreKind> {
 protected:
  PeersFixture() : ServiceFixture(GetParam()) {}

  std::string endpoint() const { return node_->endpoints()[0]; }

  // Records tensors of every kind: two ranks, three tokens, several parts,
  // values, statistics, a document, aliases, samples, placements. The seed
  // changes the records of the last token of the last rank.
  static void Record(storage::Store& store, const std::string& run,
                     uint32_t seed = 1, bool seals = true);

  absl::StatusOr<std::unique_ptr<storage::RunReader>> OpenFar(
      const std::string& run) {
    return source().Open({endpoint(), run}, {});
  }

  RemoteSource& source() {
    if (source_ == nullptr) {
      PeerOptions options;
      options.timeout = std::chrono::milliseconds(1000);
      source_ = std::make_unique<RemoteSource>(
          std::vector<std::string>{endpoint()}, options);
    }
    return *source_;
  }

 private:
  std::unique_ptr<RemoteSource> source_;
};

}  // namespace msitd::peers
