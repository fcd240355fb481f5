// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/spdlog.h>

#include <memory>

namespace msitd::storage {

// The logger named "storage", if the program has registered one; one of that
// name which writes where the default logger does otherwise.
inline std::shared_ptr<spdlog::logger> StorageLogger() {
  std::shared_ptr<spdlog::logger> logger = spdlog::get("storage");
  return logger != nullptr ? logger
                           : spdlog::default_logger()->clone("storage");
}

}  // namespace msitd::storage
