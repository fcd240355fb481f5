// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/index_logger.h"

#include <rocksdb/env.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <string>

#include "storage/env/logger.h"

namespace msitd::storage {
namespace {

// Longer lines are cut: some hold a whole manifest.
constexpr size_t kLineBytesMax = 512;

class IndexLogger final : public rocksdb::Logger {
 public:
  IndexLogger() : Logger(rocksdb::WARN_LEVEL) {}

  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    Logv(rocksdb::INFO_LEVEL, format, arguments);
  }

  void Logv(const rocksdb::InfoLogLevel level, const char* format,
            va_list arguments) override {
    // Headers list all options of all tables, and have a higher level than all
    // others.
    if (level < GetInfoLogLevel() || level == rocksdb::HEADER_LEVEL) return;
    std::array<char, kLineBytesMax> line;
    if (std::vsnprintf(line.data(), line.size(), format, arguments) < 0) return;
    std::string text(line.data());
    while (text.ends_with('\n')) text.pop_back();
    std::replace(text.begin(), text.end(), '\n', ' ');
    // Warnings report normal events, such as writes that wait for a flush.
    // Significant errors are also returned by a call.
    StorageLogger()->log(level == rocksdb::WARN_LEVEL ? spdlog::level::debug
                                                      : spdlog::level::err,
                         "index: {}", text);
  }

  // Called for headers only.
  void LogHeader(const char* /*format*/, va_list /*arguments*/) override {}
};

}  // namespace

std::shared_ptr<rocksdb::Logger> MakeIndexLogger() {
  return std::make_shared<IndexLogger>();
}

}  // namespace msitd::storage
