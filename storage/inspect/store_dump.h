// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "storage/check/store_view.h"

namespace msitd::storage {

// Takes one line, without its end.
using LineSink = std::function<void(std::string_view)>;

// Gives a line for each segment, frame, record, gap and torn tail of the
// store, in the order of files and offsets. Payloads are not read.
absl::Status DumpStore(StoreView& store, const LineSink& sink);

// Gives a line for each run, in the order of names.
void DumpRuns(StoreView& store, const LineSink& sink);

}  // namespace msitd::storage
