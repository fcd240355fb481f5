// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "storage/check/store_view.h"

namespace msitd::storage {

// Receives one line, without its end.
using LineSink = std::function<void(std::string_view)>;

// Passes `sink` a line for each segment, frame, record, gap and torn tail of
// the store, ordered by file and offset. Does not read payloads.
absl::Status DumpStore(StoreView& store, const LineSink& sink);

// Passes `sink` a line for each run, ordered by name.
void DumpRuns(StoreView& store, const LineSink& sink);

}  // namespace msitd::storage
