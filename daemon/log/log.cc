// SPDX-License-Identifier: Apache-2.0
#include "daemon/log/log.h"

#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "daemon/log/log_sink.h"

namespace msitd::log {

namespace {

// Set once, before other threads exist.
std::shared_ptr<LogSink>& SinkPointer() {
  static auto& sink = *new std::shared_ptr<LogSink>;
  return sink;
}

}  // namespace

LogSink* Sink() { return SinkPointer().get(); }

void SetUp(std::string_view level, Format format) {
  SinkPointer() = std::make_shared<LogSink>(stderr, format);
  auto logger = std::make_shared<spdlog::logger>("msitd", SinkPointer());
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing sets the environment.
  const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
  logger->set_pattern(journal ? "%l %n: %v"
                              : "%Y-%m-%dT%H:%M:%S.%e%z %l %n: %v");
  logger->set_level(spdlog::level::from_str(std::string(level)));
  spdlog::set_default_logger(std::move(logger));
}

void SetLevel(std::string_view level) {
  // Covers the registered loggers, which include the default one.
  spdlog::set_level(spdlog::level::from_str(std::string(level)));
}

std::shared_ptr<spdlog::logger> Get(const std::string& module) {
  // spdlog reports an error if a name is registered twice.
  static Mutex& mu = *new Mutex;
  MutexLock lock(mu);
  std::shared_ptr<spdlog::logger> logger = spdlog::get(module);
  if (logger == nullptr) {
    logger = spdlog::default_logger()->clone(module);
    spdlog::register_logger(logger);
  }
  return logger;
}

std::optional<uint64_t> Limiter::Admit(
    std::chrono::steady_clock::time_point now) {
  MutexLock lock(mu_);
  if (now - window_begin_ >= kWindow) {
    window_begin_ = now;
    admitted_ = 0;
  }
  if (admitted_ >= kWindowMessagesMax) {
    ++suppressed_;
    return std::nullopt;
  }
  ++admitted_;
  return std::exchange(suppressed_, 0);
}

}  // namespace msitd::log
