// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/spdlog.h>

#include <memory>

namespace msitd::storage {

// Returns the logger named "storage" if the program has registered one;
// otherwise a logger of that name that writes to the same sinks as the default
// logger.
inline std::shared_ptr<spdlog::logger> StorageLogger() {
  std::shared_ptr<spdlog::logger> logger = spdlog::get("storage");
  return logger != nullptr ? logger
                           : spdlog::default_logger()->clone("storage");
}

}  // namespace msitd::storage
