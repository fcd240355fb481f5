// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "storage/face/run_reader.h"

namespace msitd::storage {

// Maximum number of shares that are read concurrently.
inline constexpr size_t kSharesAtOnceMax = 32;

// A share of a run: the records that are stored in one place.
struct RunShare {
  std::string place;  // Used in errors.
  std::unique_ptr<RunReader> reader;
};

}  // namespace msitd::storage
