// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/access/caller.h"
#include "daemon/ingest/buffer_pool.h"
#include "daemon/ingest/chunk_sink.h"
#include "daemon/log/log.h"
#include "daemon/service/call/admission.h"
#include "daemon/service/call/first_reads.h"
#include "daemon/service/call/task_pool.h"
#include "msitd/v1/ingest_service.grpc.pb.h"

namespace msitd::service {

// IngestService: the transport for producers that do not share memory. Copies
// each chunk from its message into a buffer of the pool. While no buffer is
// free, it stops reading, so that gRPC's flow control slows the producer down.
//
// All arguments must outlive it.
class IngestServiceImpl final
    : public v1::IngestService::WithRawCallbackMethod_WriteChunks<
          v1::IngestService::Service> {
 public:
  // Shared by the streams; `tasks` runs blocking work.
  struct Parts {
    ingest::ChunkSink& sink;
    ingest::BufferPool& buffers;
    TaskPool& tasks;
    Admission admission;
    // Any client can open and end streams in a loop.
    log::Limiter log_limiter{};
  };

  IngestServiceImpl(ingest::ChunkSink& sink, ingest::BufferPool& buffers,
                    TaskPool& tasks, const Admission& admission)
      : parts_{sink, buffers, tasks, admission} {}

  using v1::IngestService::WithRawCallbackMethod_WriteChunks<
      v1::IngestService::Service>::WriteChunks;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* WriteChunks(
      grpc::CallbackServerContext* context) override;

 private:
  Parts parts_;
};

}  // namespace msitd::service
