// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "protos/chunk/chunk_draft.h"
#include "protos/shm/ring_writer.h"
#include "protos/shm/session_socket.h"

namespace msitd::shm {

// A producer without the client library. It does exactly what the test
// requests, even if it is invalid.
class RawProducer {
 public:
  explicit RawProducer(const std::string& path) : socket_(Connect(path)) {}

  static SessionHello Hello(const std::string& run, int32_t rank,
                            uint64_t stream_id) {
    SessionHello hello;
    hello.rank = rank;
    hello.world_size = 4;
    hello.stream_id = stream_id;
    // The streams of a test append to the same run.
    hello.if_exists = IfExists::kAppend;
    hello.arena_bytes = kArenaBytesMin;
    hello.run_bytes = static_cast<uint32_t>(run.size());
    std::memcpy(hello.run, run.data(), run.size());
    return hello;
  }

  template <typename Message>
  bool Send(const Message& message, std::span<const int> fds = {}) {
    return SendMessage(socket_.get(), message, fds);
  }

  // Returns the next packet, or nothing if the daemon has closed the
  // connection.
  std::optional<Packet> Receive() {
    Packet packet;
    while (true) {
      switch (ReceivePacket(socket_.get(), packet)) {
        case ReceiveResult::kPacket:
          return packet;
        case ReceiveResult::kClosed:
          return std::nullopt;
        case ReceiveResult::kNothing:
          pollfd event{socket_.get(), POLLIN, 0};
          EXPECT_EQ(::poll(&event, 1, 60'000), 1);
          if (event.revents == 0) return std::nullopt;
      }
    }
  }

  // Opens a stream, with the arena of `before` if it is given. Returns false if
  // the daemon did not send a welcome message.
  bool Open(const SessionHello& hello, const RawProducer* before = nullptr) {
    const int fd = before == nullptr ? -1 : before->arena_fd_.get();
    // A daemon that refuses the caller may have closed the connection already.
    if (!Send(hello, std::span(&fd, before == nullptr ? 0 : 1))) return false;
    std::optional<Packet> packet = Receive();
    SessionPolicy policy;
    if (packet && packet->As(policy)) packet = Receive();
    SessionWelcome welcome;
    if (!packet || !packet->As(welcome)) return false;
    committed_at_open_ = welcome.committed_count;
    arena_fd_ = before == nullptr ? std::move(packet->fds[2])
                                  : UniqueFd(::dup(before->arena_fd_.get()));
    arena_ = MappedRegion(arena_fd_.get(), welcome.arena_bytes,
                          PROT_READ | PROT_WRITE);
    table_ =
        MappedRegion(packet->fds[0].get(), kTableBytes, PROT_READ | PROT_WRITE);
    data_ready_ = UniqueFd(::dup(packet->fds[1].get()));
    MappedRegion table(packet->fds[0].get(), kTableBytes,
                       PROT_READ | PROT_WRITE);
    EXPECT_TRUE(RingWriter::IsTable(table, welcome.arena_bytes));
    writer_.emplace(std::move(table), arena(), std::move(packet->fds[1]));
    return true;
  }

  // Copies a chunk to place `place` of the arena and publishes it.
  bool Publish(const std::string& chunk, uint64_t place) {
    const auto bytes = arena().subspan(place * kPlaceBytes, chunk.size());
    std::memcpy(bytes.data(), chunk.data(), chunk.size());
    return writer_->Publish(bytes);
  }

  // Publishes a chunk that is already in the arena.
  bool PublishAgain(size_t size, uint64_t place) {
    return writer_->Publish(arena().subspan(place * kPlaceBytes, size));
  }

  // Sets whether the daemon must store drafts when the socket is closed.
  void KeepDrafts(bool keep) { writer_->KeepDrafts(keep); }

  // Returns the memory of an unfinished chunk.
  std::span<std::byte> Piece(uint64_t piece) {
    return arena().subspan(piece * chunk::kPieceBytes, chunk::kPieceBytes);
  }

  // Returns true when `count` chunks are committed, and false if the session
  // ends before.
  bool AwaitCommitted(uint64_t count) {
    while (writer_->committed_count() < count) {
      const std::optional<Packet> packet = Receive();
      SessionCommitted committed;
      if (!packet || !packet->As(committed)) return false;
    }
    return true;
  }

  // Returns the end of the session. Skips all packets before it.
  std::optional<SessionEnd> AwaitEnd() {
    while (const std::optional<Packet> packet = Receive()) {
      SessionEnd end;
      if (packet->As(end)) return end;
    }
    return std::nullopt;
  }
  std::string AwaitReason() {
    const std::optional<SessionEnd> end = AwaitEnd();
    return end ? std::string(end->reason, end->reason_bytes) : "closed";
  }

  // Closes the connection, as if the process was killed.
  void Close() { socket_.reset(); }

  std::span<std::byte> arena() { return {arena_.data(), arena_.size()}; }
  RingHeader& header() { return *reinterpret_cast<RingHeader*>(table_.data()); }
  RingEntry* entries() {
    return reinterpret_cast<RingEntry*>(table_.data() + sizeof(RingHeader));
  }
  void Notify() {
    const uint64_t one = 1;
    EXPECT_EQ(::write(data_ready_.get(), &one, sizeof(one)), 8);
  }
  int data_ready_fd() const { return data_ready_.get(); }
  int socket() const { return socket_.get(); }
  uint64_t committed_at_open() const { return committed_at_open_; }

 private:
  static constexpr uint64_t kPlaceBytes = uint64_t{64} << 10;

  static UniqueFd Connect(const std::string& path) {
    UniqueFd socket = ConnectSession(path);
    EXPECT_TRUE(socket.valid());
    return socket;
  }

  UniqueFd socket_;
  UniqueFd arena_fd_;
  UniqueFd data_ready_;
  MappedRegion arena_;
  MappedRegion table_;
  std::optional<RingWriter> writer_;
  uint64_t committed_at_open_ = 0;
};

}  // namespace msitd::shm
