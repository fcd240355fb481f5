// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "client/ask/query/byte_sink.h"
#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"
#include "protos/status/status.h"

namespace msitd::ask {

// Consecutive streams without any byte before reading is given up. With the
// delays, this is about 6 seconds, in which a daemon restarts.
inline constexpr int kFruitlessReadsMax = 6;
inline constexpr std::chrono::milliseconds kFirstReadDelay(100);

// Reads bytes that a daemon streams in pieces. A Response has `offset_bytes`
// and `data`. A stream that fails with UNAVAILABLE is resumed where it failed.
// A failure of the sink is a local error.
template <typename Response>
class ResumingRead {
 public:
  // Starts a stream at an offset in bytes.
  using Start = std::function<std::unique_ptr<grpc::ClientReader<Response>>(
      grpc::ClientContext&, int64_t offset_bytes)>;
  // Called with each response before its bytes are checked. May set the number
  // of bytes from it.
  using See = std::function<void(const Response&, int64_t& size_bytes)>;

  // `size_bytes` is 0 if `see` sets it.
  ResumingRead(Connection& connection, int64_t size_bytes, Start start,
               ByteSink sink, See see = nullptr, ReadLimit limit = {})
      : connection_(connection),
        size_bytes_(size_bytes),
        start_(std::move(start)),
        sink_(std::move(sink)),
        see_(std::move(see)),
        limit_(limit) {}

  Outcome Run() {
    int fruitless_count = 0;
    while (true) {
      const int64_t offset_before = offset_;
      const grpc::Status status = ReadStream();
      if (!sink_status_.ok()) return LocalError(Message(sink_status_));
      if (status.ok()) return {};
      fruitless_count = offset_ > offset_before ? 0 : fruitless_count + 1;
      if (limit_.has_value() ||
          status.error_code() != grpc::StatusCode::UNAVAILABLE ||
          fruitless_count == kFruitlessReadsMax ||
          connection_.interrupts().WaitFor(kFirstReadDelay *
                                           (1 << fruitless_count))) {
        return connection_.OutcomeOf(status);
      }
    }
  }

 private:
  // OK once the last byte is taken.
  grpc::Status ReadStream() {
    grpc::ClientContext context;
    auto deadline = connection_.StreamDeadline();
    if (limit_.has_value()) {
      deadline = std::min(deadline, Connection::Clock::now() + *limit_);
    }
    context.set_deadline(deadline);
    const Interrupts::Hold hold(connection_.interrupts(), &context);
    const auto reader = start_(context, offset_);
    Response response;
    while (reader->Read(&response)) {
      const grpc::Status status = Take(response);
      if (!status.ok()) {
        context.TryCancel();
        reader->Finish();
        return status;
      }
    }
    const grpc::Status status = reader->Finish();
    if (status.ok() && offset_ != size_bytes_) {
      return grpc::Status(
          grpc::StatusCode::UNAVAILABLE,
          fmt::format("the daemon ended the stream after {} of {} bytes",
                      offset_, size_bytes_));
    }
    return status;
  }

  grpc::Status Take(const Response& response) {
    if (see_) see_(response, size_bytes_);
    const auto size = static_cast<int64_t>(response.data().size());
    if (response.offset_bytes() != offset_ || size > size_bytes_ - offset_) {
      return grpc::Status(
          grpc::StatusCode::INTERNAL,
          fmt::format("the daemon sent {} bytes at {}; {} of {} were read",
                      size, response.offset_bytes(), offset_, size_bytes_));
    }
    sink_status_ = sink_(response.data());
    if (!sink_status_.ok()) return grpc::Status::CANCELLED;
    offset_ += size;
    return grpc::Status::OK;
  }

  Connection& connection_;
  int64_t size_bytes_;
  const Start start_;
  const ByteSink sink_;
  const See see_;
  const ReadLimit limit_;
  int64_t offset_ = 0;
  absl::Status sink_status_;
};

}  // namespace msitd::ask
