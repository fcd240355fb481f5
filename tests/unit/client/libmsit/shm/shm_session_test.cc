// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/shm/shm_session.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <functional>
#include <thread>

#include "protos/chunk/chunk.h"
#include "protos/shm/ring_reader.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/client/libmsit/shm/shm_client_fixture.h"

// Tests of the client with daemons that violate the protocol.
namespace msitd::libmsit {
namespace {

class ShmSessionTest : public ::testing::Test {
 protected:
  ShmSessionTest() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(
        ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address),
               sizeof(address)),
        0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
  }
  ~ShmSessionTest() override { EndDaemon(); }

  void EndDaemon() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    if (daemon_.joinable()) daemon_.join();
  }

  // Responds to every hello with `answer`, and keeps the connection.
  void Answer(std::function<void(int socket, shm::Packet& hello)> answer) {
    daemon_ = std::thread([this, answer = std::move(answer)] {
      std::vector<UniqueFd> sockets;
      while (true) {
        UniqueFd socket(
            ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket.valid()) return;
        shm::Packet packet;
        pollfd event{socket.get(), POLLIN, 0};
        ::poll(&event, 1, 60'000);
        if (shm::ReceivePacket(socket.get(), packet) ==
            shm::ReceiveResult::kPacket) {
          answer(socket.get(), packet);
        }
        sockets.push_back(std::move(socket));
      }
    });
  }

  Status Open(ClientOptions options = ShmOptions("run")) {
    return OpenShm(options, path_, &client_);
  }

  // A table and an arena as created by a correct daemon, and its welcome
  // message.
  struct Ring {
    std::shared_ptr<shm::RingArena> arena =
        *shm::RingArena::Create(shm::kArenaBytesMin);
    std::unique_ptr<shm::RingReader> reader =
        *shm::RingReader::Create(arena, 1, 0);
    shm::SessionWelcome welcome;

    Ring() { welcome.arena_bytes = shm::kArenaBytesMin; }
    void Send(int socket, int table, int event, int memory) const {
      const int fds[] = {table, event, memory};
      EXPECT_TRUE(shm::SendMessage(socket, welcome, fds));
    }
    void Send(int socket) const {
      Send(socket, reader->table_fd(), reader->data_ready_fd(), arena->fd());
    }
  };

  void ExpectRefused() {
    const Status status = Open();
    EXPECT_EQ(status.code, MSIT_ERROR_REFUSED) << status.message;
    EXPECT_EQ(status.message,
              "the answer of the daemon has a different version");
  }

  testing::TempDir directory_;
  const std::string path_ = directory_ / "ingest.sock";
  UniqueFd listener_;
  std::thread daemon_;
  std::unique_ptr<Client> client_;
};

TEST_F(ShmSessionTest, DaemonThatDoesNotAnswerCostsNoMoreThanTheDeadlines) {
  // Connections wait in the backlog, as with a daemon that was stopped.
  ClientOptions options = ShmOptions("run");
  options.open_timeout = milliseconds(20);
  EXPECT_EQ(Open(options).code, MSIT_ERROR_UNAVAILABLE);
  options.open_timeout = seconds(0);
  options.max_block = milliseconds(20);
  options.buffer_bytes = 2 * kSlotBytes;
  ASSERT_TRUE(Open(options).ok());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 500; ++i) {
    const bool fits = i < 2;
    EXPECT_EQ(Record(*client_, "op", kPartBytes / 2 + 1).ok(), fits);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
  EXPECT_EQ(client_->counters().dropped_count, 498u);
  EXPECT_EQ(client_->Close(milliseconds(0)).code, MSIT_ERROR_TIMEOUT);
}

TEST_F(ShmSessionTest, NoDaemonIsUnavailable) {
  ClientOptions options = ShmOptions("run");
  options.open_timeout = milliseconds(20);
  const Status status = OpenShm(options, path_ + ".no", &client_);
  EXPECT_EQ(status.code, MSIT_ERROR_UNAVAILABLE);
  EXPECT_NE(status.message.find("connect to"), std::string::npos);
}

TEST_F(ShmSessionTest, AnswerThatIsNoneIsRefused) {
  Answer([](int socket, shm::Packet&) {
    shm::SendMessage(socket, shm::SessionFinish{});
  });
  ExpectRefused();
}

TEST_F(ShmSessionTest, CommitBeforeTheWelcomeIsRefused) {
  Answer([](int socket, shm::Packet&) {
    shm::SendMessage(socket, shm::SessionCommitted{});
  });
  ExpectRefused();
}

TEST_F(ShmSessionTest, WelcomeWithoutMemoryIsRefused) {
  Answer([](int socket, shm::Packet&) {
    shm::SendMessage(socket, shm::SessionWelcome{});
  });
  ExpectRefused();
}

TEST_F(ShmSessionTest, MemoryThatCanShrinkIsRefused) {
  Answer([](int socket, shm::Packet&) {
    const Ring ring;
    const UniqueFd loose(::memfd_create("loose", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(loose.get(), shm::kArenaBytesMin), 0);
    ring.Send(socket, ring.reader->table_fd(), ring.reader->data_ready_fd(),
              loose.get());
  });
  ExpectRefused();
}

TEST_F(ShmSessionTest, TableOfAnotherKindIsRefused) {
  Answer([](int socket, shm::Packet&) {
    const Ring ring;
    ring.Send(socket, ring.arena->fd(), ring.reader->data_ready_fd(),
              ring.arena->fd());
  });
  ExpectRefused();
}

TEST_F(ShmSessionTest, TableOfAnotherVersionIsRefused) {
  Answer([](int socket, shm::Packet&) {
    const Ring ring;
    const shm::MappedRegion table(ring.reader->table_fd(), shm::kTableBytes,
                                  PROT_READ | PROT_WRITE);
    reinterpret_cast<shm::RingHeader*>(table.data())->version = 9;
    ring.Send(socket);
  });
  ExpectRefused();
}

TEST_F(ShmSessionTest, CommitOfChunksThatWereNeverSentIsRefused) {
  Answer([](int socket, shm::Packet&) {
    const Ring ring;
    ring.Send(socket);
    ring.reader->Commit(7, 0);
    shm::SendMessage(socket, shm::SessionCommitted{});
  });
  const Status status = Open();
  if (status.ok()) {
    while (client_->stream_error().empty()) std::this_thread::yield();
    EXPECT_EQ(client_->stream_error(),
              "the daemon acknowledged chunks that were not sent");
  } else {
    EXPECT_EQ(status.code, MSIT_ERROR_REFUSED);
  }
}

TEST_F(ShmSessionTest, EndWithLengthsThatCannotBeIsCut) {
  Answer([](int socket, shm::Packet&) {
    shm::SessionEnd end;
    end.code = 9;
    end.reason_bytes = UINT32_MAX;
    end.message_bytes = UINT32_MAX;
    std::memset(end.reason, 'R', sizeof(end.reason));
    std::memset(end.message, 'm', sizeof(end.message));
    shm::SendMessage(socket, end);
  });
  const Status status = Open();
  EXPECT_EQ(status.code, MSIT_ERROR_REFUSED);
  EXPECT_EQ(status.message, "FAILED_PRECONDITION: " + std::string(512, 'm') +
                                " [" + std::string(64, 'R') + "]");
}

TEST_F(ShmSessionTest, LastCommitCountsThoughTheDaemonDiedBeforeItTold) {
  Answer([](int socket, shm::Packet& hello) {
    // The client reconnects with the memory that it received before.
    if (hello.fd_count != 0) return;
    const Ring ring;
    ring.Send(socket);
    pollfd event{ring.reader->data_ready_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&event, 1, 60'000), 1);
    ring.reader->Commit(1, 3);
    ::shutdown(socket, SHUT_RDWR);
  });
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record(*client_, "op", 1000).ok());
  EXPECT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().acknowledged_count, 1u);
  EXPECT_EQ(client_->counters().conflict_count, 3u);
}

TEST_F(ShmSessionTest, ConflictsAreKnownWithTheCommitThatTheyBelongTo) {
  const Ring ring;
  Answer([&ring](int socket, shm::Packet&) {
    ring.Send(socket);
    pollfd event{ring.reader->data_ready_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&event, 1, 60'000), 1);
    // The packet for this commit could not be sent. An earlier packet wakes the
    // client.
    ring.reader->Commit(1, 2);
    shm::SendMessage(socket, shm::SessionCommitted{});
  });
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(Record(*client_, "op", 1000).ok());
  EXPECT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(client_->counters().conflict_count, 2u);
}

TEST_F(ShmSessionTest, DraftsAreTheDaemonsUntilTheClientBreaksOff) {
  const Ring ring;
  Answer([&ring](int socket, shm::Packet&) { ring.Send(socket); });
  ClientOptions options = ShmOptions("run");
  options.linger = kLong;
  ASSERT_TRUE(Open(options).ok());
  EXPECT_EQ(ring.reader->Drafts().size(), 0u);
  ASSERT_TRUE(Record(*client_, "op", 1000, 7).ok());
  const auto drafts = ring.reader->Drafts();
  ASSERT_EQ(drafts.size(), 1u);
  const auto chunk = chunk::Chunk::FromDraft(
      drafts[0], {.run = "run", .stream_id = 1, .chunk_sequence = 0});
  ASSERT_TRUE(chunk.ok()) << chunk.status();
  const chunk::RecordDescriptor& record = (*chunk)->records()[0];
  EXPECT_EQ((*chunk)->Text(record.op), "op");
  EXPECT_EQ((*chunk)->PayloadOf(record)[999], std::byte{7});
  const shm::MappedRegion table(ring.reader->table_fd(), shm::kTableBytes,
                                PROT_READ);
  const auto& header = *reinterpret_cast<shm::RingHeader*>(table.data());
  EXPECT_EQ(header.draft_state, shm::kDraftsKept);
  EXPECT_EQ(client_->Close(milliseconds(0)).code, MSIT_ERROR_TIMEOUT);
  EXPECT_EQ(header.draft_state, 0u);
}

}  // namespace
}  // namespace msitd::libmsit
