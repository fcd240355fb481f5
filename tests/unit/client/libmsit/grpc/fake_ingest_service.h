// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "msitd/v1/ingest_service.grpc.pb.h"

namespace msitd::libmsit {

// An IngestService that keeps chunks. The test determines how a stream ends.
class FakeIngestService final : public v1::IngestService::Service {
 public:
  using Bytes = std::vector<std::byte>;

  grpc::Status WriteChunks(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::WriteChunksResponse, v1::WriteChunksRequest>*
          stream) override {
    v1::WriteChunksRequest request;
    if (!stream->Read(&request) || !request.has_open()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "no opening"};
    }
    {
      const std::lock_guard lock(mu_);
      ++stream_count_;
      open_ = request.open();
      if (!refusal_.ok()) return refusal_;
    }
    Acknowledge(stream);
    while (stream->Read(&request)) {
      std::unique_lock lock(mu_);
      if (request.has_coverage()) {
        coverage_ = request.coverage();
        continue;
      }
      const std::string& chunk = request.chunk();
      const auto* begin = reinterpret_cast<const std::byte*>(chunk.data());
      if (const grpc::Status end = on_chunk_(chunks_.size()); !end.ok()) {
        return end;
      }
      chunks_.emplace_back(begin, begin + chunk.size());
      lock.unlock();
      Acknowledge(stream);
    }
    const std::lock_guard lock(mu_);
    was_cancelled_ = context->IsCancelled();
    return grpc::Status::OK;
  }

  void RefuseOpening(const grpc::Status& status) {
    const std::lock_guard lock(mu_);
    refusal_ = status;
  }

  // `on_chunk` receives the number of chunks so far, and returns how the stream
  // ends.
  void OnChunk(std::function<grpc::Status(size_t)> on_chunk) {
    const std::lock_guard lock(mu_);
    on_chunk_ = std::move(on_chunk);
  }

  std::vector<Bytes> chunks() const {
    const std::lock_guard lock(mu_);
    return chunks_;
  }
  v1::OpenStream open() const {
    const std::lock_guard lock(mu_);
    return open_;
  }
  v1::CoverageReport coverage() const {
    const std::lock_guard lock(mu_);
    return coverage_;
  }
  int stream_count() const {
    const std::lock_guard lock(mu_);
    return stream_count_;
  }
  bool was_cancelled() const {
    const std::lock_guard lock(mu_);
    return was_cancelled_;
  }

 private:
  template <typename Stream>
  void Acknowledge(Stream* stream) {
    v1::WriteChunksResponse response;
    response.set_committed_chunk_count(static_cast<int64_t>(chunks().size()));
    stream->Write(response);
  }

  mutable std::mutex mu_;
  std::vector<Bytes> chunks_;
  v1::OpenStream open_;
  v1::CoverageReport coverage_;
  int stream_count_ = 0;
  bool was_cancelled_ = false;
  grpc::Status refusal_;
  std::function<grpc::Status(size_t)> on_chunk_ = [](size_t) {
    return grpc::Status::OK;
  };
};

}  // namespace msitd::libmsit
