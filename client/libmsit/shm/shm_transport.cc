// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/shm/shm_transport.h"

#include <sys/mman.h>

#include <system_error>

namespace msitd::libmsit {

void ShmTransport::Open(const StreamIdentity& identity,
                        TransportListener* listener) {
  try {
    session_ =
        std::make_unique<ShmSession>(socket_path_, identity, listener, arena_);
  } catch (const std::system_error& error) {
    listener->OnEnd(StreamEnd::kLost, error.what());
  }
}

void ShmTransport::Send(std::span<const std::byte> chunk) {
  session_->Publish(chunk);
  SendCoverage();
}

void ShmTransport::ReportCoverage(const StreamCoverage& coverage,
                                  int64_t token_end) {
  unsent_coverage_ = coverage;
  token_end_ = token_end;
  SendCoverage();
}

void ShmTransport::SendCoverage() {
  if (unsent_coverage_ &&
      session_->ReportCoverage(*unsent_coverage_, token_end_)) {
    unsent_coverage_.reset();
  }
}

void ShmTransport::Finish() {
  SendCoverage();
  session_->Finish();
}

bool ShmTransport::Stop() {
  session_.reset();
  // The daemon may still read chunks that it has accepted, but through its own
  // mapping, and the client does not rewrite chunks that are not acknowledged.
  return true;
}

void ShmTransport::KeepMemory(std::span<std::byte> mapping) {
  // Stop never leaves chunks borrowed.
  ::munmap(mapping.data(), mapping.size());
}

void ShmTransport::Destroy() {
  Stop();
  delete this;
}

}  // namespace msitd::libmsit
