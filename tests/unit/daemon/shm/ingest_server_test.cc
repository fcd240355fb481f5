// SPDX-License-Identifier: Apache-2.0
#include "daemon/shm/ingest_server.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "protos/chunk/chunk_format.h"
#include "tests/support/named_runs.h"
#include "tests/support/producer.h"
#include "tests/unit/daemon/shm/raw_producer.h"
#include "tests/unit/daemon/shm/server_fixture.h"

namespace msitd::shm {
namespace {

constexpr uint64_t kStream = 0x77;

class IngestServerTest : public ServerTest {
 protected:
  IngestServerTest() { Start(); }

  SessionHello Hello() const { return RawProducer::Hello("run", 1, kStream); }

  testing::Producer chunks_{"run", 1, kStream};
};

TEST_F(IngestServerTest, ChunksAreStoredAndAcknowledged) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  EXPECT_EQ(producer.committed_at_open(), 0u);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(producer.Publish(chunks_.Chunk(i), i));
  }
  EXPECT_TRUE(producer.AwaitCommitted(100));
  EXPECT_EQ(TensorCount("run"), 100u);
}

// The user of this process is always an admin, and so is root, so a process of
// another user is needed.
class RevokedSessionTest : public ServerTest {
 protected:
  static constexpr uid_t kUser = 43117;

  // Opens a session as another user, without leaving this process.
  std::unique_ptr<RawProducer> OpenAsUser() {
    EXPECT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
    EXPECT_EQ(::chmod(path().c_str(), 0666), 0);
    // The functions of the C library would also change the threads of the
    // server.
    const gid_t group = kUser;
    EXPECT_EQ(::syscall(SYS_setgroups, 1, &group), 0);
    EXPECT_EQ(::syscall(SYS_setresuid, kUser, kUser, 0), 0);
    auto out = std::make_unique<RawProducer>(path());
    EXPECT_EQ(::syscall(SYS_setresuid, 0, 0, 0), 0);
    EXPECT_EQ(::syscall(SYS_setgroups, 0, nullptr), 0);
    return out;
  }

  static access::AccessPolicy WritersIn(const std::string& group) {
    access::AccessOptions options;
    options.unix_role = access::Role::kNone;
    options.writer_groups = {group};
    return *access::AccessPolicy::Create(options);
  }

  access::LivePolicy policy_{WritersIn(std::to_string(kUser))};
  testing::Producer chunks_{"run", 1, kStream};
};

TEST_F(RevokedSessionTest, EndsWhenItsCallerMayNoLongerWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  options_.policy = &policy_;
  Start();
  const auto producer = OpenAsUser();
  ASSERT_TRUE(producer->Open(RawProducer::Hello("run", 1, kStream)));
  ASSERT_TRUE(producer->Publish(chunks_.Chunk(0), 0));
  ASSERT_TRUE(producer->AwaitCommitted(1));
  // A change that keeps the role keeps the session.
  server_->ApplyPolicy();
  ASSERT_TRUE(producer->Publish(chunks_.Chunk(1), 1));
  ASSERT_TRUE(producer->AwaitCommitted(2));
  policy_.Set(WritersIn("43118"));
  server_->ApplyPolicy();
  const std::optional<SessionEnd> end = producer->AwaitEnd();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, static_cast<int>(absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(TensorCount("run"), 2u);
  const auto again = OpenAsUser();
  EXPECT_FALSE(again->Open(RawProducer::Hello("run", 1, kStream + 1)));
}

TEST_F(IngestServerTest, FinishIsAnsweredBehindTheLastCommit) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  for (uint64_t i = 0; i < 30; ++i) producer.Publish(chunks_.Chunk(i), i);
  ASSERT_TRUE(producer.Send(SessionFinish{}));
  const std::optional<SessionEnd> end = producer.AwaitEnd();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, 0);
  EXPECT_EQ(producer.header().committed_count.load(), 30u);
  EXPECT_EQ(TensorCount("run"), 30u);
}

TEST_F(IngestServerTest, WhatAProducerPublishedBeforeItDiedIsStored) {
  store_.BlockAppends();
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  for (uint64_t i = 0; i < 100; ++i) producer.Publish(chunks_.Chunk(i), i);
  producer.Close();
  store_.UnblockAppends();
  // The next stream of the rank is accepted after the first one has ended.
  RawProducer next(path());
  while (!next.Open(RawProducer::Hello("run", 1, kStream + 1))) {
    next = RawProducer(path());
  }
  EXPECT_EQ(TensorCount("run"), 100u);
}

TEST_F(IngestServerTest, DeadProcessIsNoticedThoughAChildHoldsItsSocket) {
  int wait[2];
  ASSERT_EQ(::pipe2(wait, O_CLOEXEC), 0);
  const pid_t process = ::fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    RawProducer producer(path());
    const bool is_open = producer.Open(Hello());
    producer.Publish(chunks_.Chunk(0), 0);
    if (::fork() == 0) {
      ::close(wait[1]);
      char ignored;
      (void)!::read(wait[0], &ignored, 1);
    }
    ::_exit(is_open ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  ASSERT_EQ(status, 0);
  RawProducer next(path());
  while (!next.Open(RawProducer::Hello("run", 1, kStream + 1))) {
    next = RawProducer(path());
  }
  EXPECT_EQ(TensorCount("run"), 1u);
  ::close(wait[0]);
  ::close(wait[1]);
}

TEST_F(IngestServerTest, ProducerThatComesBackGoesOnWithItsArena) {
  store_.BlockAppends();
  RawProducer first(path());
  ASSERT_TRUE(first.Open(Hello()));
  std::vector<size_t> sizes;
  for (uint64_t i = 0; i < 20; ++i) {
    sizes.push_back(chunks_.Chunk(i).size());
    first.Publish(chunks_.Chunk(i), i);
  }
  store_.AwaitAppend();
  first.Close();
  RawProducer second(path());
  std::thread unblock([this] { store_.UnblockAppends(); });
  ASSERT_TRUE(second.Open(Hello(), &first));
  unblock.join();
  for (uint64_t i = second.committed_at_open(); i < 20; ++i) {
    ASSERT_TRUE(second.PublishAgain(sizes[i], i));
  }
  EXPECT_TRUE(second.AwaitCommitted(20));
  EXPECT_EQ(TensorCount("run"), 20u);
}

TEST_F(IngestServerTest, ArenaThatIsNotSealedIsRefused) {
  UniqueFd memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(memory.get(), kArenaBytesMin), 0);
  RawProducer producer(path());
  const int fd = memory.get();
  ASSERT_TRUE(producer.Send(Hello(), std::span(&fd, 1)));
  EXPECT_EQ(producer.AwaitReason(), "RING_INVALID");
}

TEST_F(IngestServerTest, EntryOutsideTheArenaEndsTheStreamBehindWhatWasGood) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  producer.Publish(chunks_.Chunk(0), 0);
  ASSERT_TRUE(producer.AwaitCommitted(1));
  producer.entries()[1].chunk_sequence = 1;
  producer.entries()[1].chunk_offset = kArenaBytesMin;
  producer.entries()[1].chunk_bytes = 4096;
  producer.header().published_count = 2;
  producer.Notify();
  EXPECT_EQ(producer.AwaitReason(), "RING_INVALID");
  EXPECT_EQ(TensorCount("run"), 1u);
}

TEST_F(IngestServerTest, MalformedChunkEndsTheStreamWithItsReason) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  producer.Publish(std::string(4096, 'x'), 0);
  EXPECT_EQ(producer.AwaitReason(), "CHUNK_MALFORMED");
}

TEST_F(IngestServerTest, ChunkOfAnotherRankIsRefused) {
  testing::Producer other("run", 2, kStream);
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  producer.Publish(other.Chunk(0), 0);
  EXPECT_EQ(producer.AwaitReason(), "CHUNK_MISDIRECTED");
}

TEST_F(IngestServerTest, BadHelloIsRefusedWithAReason) {
  const auto refusal = [this](const SessionHello& hello) {
    RawProducer producer(path());
    EXPECT_TRUE(producer.Send(hello));
    return producer.AwaitReason();
  };
  SessionHello hello = Hello();
  hello.run_bytes = kRunNameBytesMax + 1;
  EXPECT_EQ(refusal(hello), "FIELD_INVALID");
  hello = Hello();
  hello.user_agent_bytes = UINT32_MAX;
  EXPECT_EQ(refusal(hello), "FIELD_INVALID");
  hello = Hello();
  hello.run[0] = '\xff';
  EXPECT_EQ(refusal(hello), "FIELD_INVALID");
  hello = Hello();
  hello.rank = 4;
  EXPECT_EQ(refusal(hello), "RANK_OUT_OF_RANGE");
  hello = Hello();
  hello.stream_id = 0;
  EXPECT_EQ(refusal(hello), "FIELD_INVALID");
  hello = Hello();
  hello.header.version = kSessionVersion + 1;
  EXPECT_EQ(refusal(hello), "FIELD_INVALID");
}

TEST_F(IngestServerTest, PacketThatDoesNotBelongEndsTheStream) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  ASSERT_TRUE(producer.Send(Hello()));
  EXPECT_EQ(producer.AwaitReason(), "FIELD_INVALID");
  RawProducer liar(path());
  ASSERT_TRUE(liar.Open(RawProducer::Hello("run", 2, kStream + 1)));
  SessionCoverage report;
  report.coverage.degraded_count = uint64_t{INT64_MAX} + 1;
  ASSERT_TRUE(liar.Send(report));
  EXPECT_EQ(liar.AwaitReason(), "FIELD_INVALID");
  RawProducer other(path());
  ASSERT_TRUE(other.Open(RawProducer::Hello("run", 2, kStream + 2)));
  other.header().recording_ns = uint64_t{INT64_MAX} + 1;
  ASSERT_TRUE(other.Send(SessionCoverage()));
  EXPECT_EQ(other.AwaitReason(), "FIELD_INVALID");
}

TEST_F(IngestServerTest, CoverageIsKept) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  SessionCoverage report;
  report.coverage = {.seen_count = 30,
                     .filtered_count = 10,
                     .dropped_count = 12,
                     .truncated_count = 1,
                     .degraded_count = 2};
  producer.header().recording_ns = 70;
  producer.header().open_ns = 4000;
  ASSERT_TRUE(producer.Send(report));
  ASSERT_TRUE(producer.Send(SessionFinish{}));
  ASSERT_TRUE(producer.AwaitEnd().has_value());
  const auto ranks = testing::NamedRuns(store_).ListCoverage("run");
  ASSERT_TRUE(ranks.ok());
  EXPECT_EQ(
      *ranks,
      (std::vector{storage::RankCoverage{1, 1, {30, 10, 12, 1, 2, 70, 4000}}}));
}

TEST_F(IngestServerTest, SecondProducerOfARankIsTurnedAway) {
  RawProducer first(path());
  ASSERT_TRUE(first.Open(Hello()));
  RawProducer second(path());
  ASSERT_TRUE(second.Send(RawProducer::Hello("run", 1, kStream + 1)));
  EXPECT_EQ(second.AwaitReason(), "RANK_BUSY");
  first.Publish(chunks_.Chunk(0), 0);
  EXPECT_TRUE(first.AwaitCommitted(1));
}

TEST_F(IngestServerTest, ProducerCannotMakeTheDaemonWaitForItsEvent) {
  RawProducer bad(path());
  ASSERT_TRUE(bad.Open(Hello()));
  // A read of the event would now block.
  const int flags = ::fcntl(bad.data_ready_fd(), F_GETFL);
  ASSERT_EQ(::fcntl(bad.data_ready_fd(), F_SETFL, flags & ~O_NONBLOCK), 0);
  for (int i = 0; i < 100; ++i) {
    bad.Notify();
    uint64_t ignored;
    ASSERT_EQ(::read(bad.data_ready_fd(), &ignored, sizeof(ignored)), 8);
  }
  RawProducer good(path());
  ASSERT_TRUE(good.Open(RawProducer::Hello("run", 2, kStream + 1)));
  testing::Producer chunks("run", 2, kStream + 1);
  good.Publish(chunks.Chunk(0), 0);
  EXPECT_TRUE(good.AwaitCommitted(1));
}

TEST_F(IngestServerTest, ProducerThatDoesNotReadHoldsNobodyUp) {
  RawProducer deaf(path());
  ASSERT_TRUE(deaf.Open(Hello()));
  for (uint64_t i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(deaf.Publish(chunks_.Chunk(i), i % 100));
    while (deaf.header().committed_count.load() <= i) std::this_thread::yield();
  }
  EXPECT_TRUE(deaf.AwaitCommitted(2'000));
  EXPECT_EQ(TensorCount("run"), 2'000u);
}

TEST_F(IngestServerTest, GarbageInALiveRingHarmsNobodyElse) {
  RawProducer good(path());
  ASSERT_TRUE(good.Open(RawProducer::Hello("good", 1, kStream + 1)));
  testing::Producer chunks("good", 1, kStream + 1);
  uint64_t good_count = 0;
  std::minstd_rand random(42);
  int refused_count = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    RawProducer bad(path());
    ASSERT_TRUE(bad.Open(
        RawProducer::Hello("bad" + std::to_string(round), 1, 1000 + round)));
    testing::Producer bad_chunks("bad" + std::to_string(round), 1,
                                 1000 + round);
    const uint64_t count = 1 + random() % 8;
    for (uint64_t i = 0; i < count; ++i) bad.Publish(bad_chunks.Chunk(i), i);
    // The producer modifies chunks that the daemon may be reading, and then the
    // table.
    for (int i = 0; i < 200; ++i) {
      bad.arena()[random() % (count * 65'536)] = std::byte(random());
    }
    auto* words = reinterpret_cast<std::atomic<uint64_t>*>(bad.entries());
    for (int i = 0; i < 50; ++i) {
      words[random() % (16 * 4)].store(
          random() % 2 == 0 ? random() % 64 : random() % 4096 * 4096);
    }
    bad.header().arena_bytes = random();
    bad.header().published_count = random() % 4096;
    bad.Notify();
    const std::optional<SessionEnd> end = bad.AwaitEnd();
    ASSERT_TRUE(end.has_value());
    refused_count += end->code != 0 ? 1 : 0;

    ASSERT_TRUE(good.Publish(chunks.Chunk(good_count), good_count % 100));
    ASSERT_TRUE(good.AwaitCommitted(++good_count));
  }
  EXPECT_GT(refused_count, 50);
  EXPECT_EQ(TensorCount("good"), good_count);
}

TEST_F(IngestServerTest, StopEndsSessionsBehindTheirCommits) {
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(Hello()));
  RawProducer silent(path());
  producer.Publish(chunks_.Chunk(0), 0);
  ASSERT_TRUE(producer.AwaitCommitted(1));
  Stop();
  EXPECT_EQ(producer.AwaitReason(), "NOT_SERVING");
  EXPECT_TRUE(silent.AwaitEnd().has_value());
  struct stat info;
  EXPECT_NE(::stat(path().c_str(), &info), 0);
}

TEST_F(IngestServerTest, SocketIsForOwnerAndGroup) {
  struct stat info;
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
}

TEST_F(IngestServerTest, StrangerIsTurnedAwayThoughTheSocketIsOpenToAll) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path().c_str(), 0666), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t kStranger = 54'321;
    if (::setgroups(0, nullptr) != 0 || ::setgid(kStranger) != 0 ||
        ::setuid(kStranger) != 0) {
      ::_exit(2);
    }
    RawProducer producer(path());
    ::_exit(producer.AwaitReason() == "PEER_REFUSED" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

class LimitedServerTest : public ServerTest {};

TEST_F(LimitedServerTest, SilentProducerIsTurnedAway) {
  options_.hello_timeout = std::chrono::milliseconds(1);
  Start();
  RawProducer producer(path());
  EXPECT_EQ(producer.AwaitReason(), "FIELD_INVALID");
}

TEST_F(LimitedServerTest, ProducersOverTheLimitAreTurnedAway) {
  options_.sessions_max = 1;
  Start();
  RawProducer first(path());
  ASSERT_TRUE(first.Open(RawProducer::Hello("run", 1, 1)));
  RawProducer second(path());
  ASSERT_TRUE(second.Send(RawProducer::Hello("run", 2, 2)));
  EXPECT_EQ(second.AwaitReason(), "STREAMS_EXHAUSTED");
}

TEST_F(LimitedServerTest, OneCallerLeavesSessionsToOthers) {
  options_.sessions_max = 16;
  Start();
  std::vector<std::unique_ptr<RawProducer>> producers;
  bool is_open = true;
  while (is_open && producers.size() <= options_.sessions_max) {
    const uint64_t id = producers.size() + 1;
    producers.push_back(std::make_unique<RawProducer>(path()));
    is_open = producers.back()->Open(
        RawProducer::Hello("run" + std::to_string(id), 0, id));
  }
  EXPECT_FALSE(is_open);
  // A quarter is reserved for new callers, for any user of this process.
  EXPECT_LE(producers.size() - 1, 12u);
  EXPECT_GE(producers.size() - 1, 11u);
}

TEST_F(LimitedServerTest, SilentProducersKeepNobodyOut) {
  options_.greetings_max = 4;
  options_.sessions_max = 2;
  options_.hello_timeout = std::chrono::hours(1);
  Start();
  std::vector<std::unique_ptr<RawProducer>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<RawProducer>(path()));
  }
  RawProducer producer(path());
  ASSERT_TRUE(producer.Open(RawProducer::Hello("run", 1, 1)));
  // The oldest connections are closed, and the newest may still send its hello.
  EXPECT_EQ(silent.front()->AwaitReason(), "STREAMS_EXHAUSTED");
  EXPECT_TRUE(silent.back()->Open(RawProducer::Hello("run", 2, 2)));
}

TEST_F(LimitedServerTest, ArenaThatIsBroughtIsNoLargerThanAllowed) {
  options_.arena_bytes_max = kArenaBytesMin + 4096;
  Start();
  for (const uint64_t more : {0, 4096, 8192}) {
    RawProducer producer(path());
    const UniqueFd memory = MakeSealedMemory("test", kArenaBytesMin + more);
    const int fd = memory.get();
    ASSERT_TRUE(producer.Send(RawProducer::Hello("run", 1, 1 + more),
                              std::span(&fd, 1)));
    const std::optional<Packet> packet = producer.Receive();
    ASSERT_TRUE(packet.has_value());
    SessionEnd end;
    ASSERT_EQ(packet->As(end), more == 8192);
    if (more != 8192) continue;
    // The producer should retry, so its data is not lost.
    EXPECT_EQ(end.code, 8);
    EXPECT_EQ(std::string(end.reason, end.reason_bytes), "RING_INVALID");
  }
}

TEST_F(LimitedServerTest, ArenaIsNoLargerThanAllowed) {
  options_.arena_bytes_max = kArenaBytesMin + 4096;
  Start();
  RawProducer producer(path());
  SessionHello hello = RawProducer::Hello("run", 1, 1);
  hello.arena_bytes = UINT64_MAX;
  ASSERT_TRUE(producer.Open(hello));
  EXPECT_EQ(producer.arena().size(), kArenaBytesMin + 4096);
}

int64_t ProcessorMicroseconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return int64_t{time.tv_sec} * 1'000'000 + time.tv_usec;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

TEST_F(LimitedServerTest, IdleServerDoesNotSpin) {
  Start();
  RawProducer streaming(path());
  ASSERT_TRUE(streaming.Open(RawProducer::Hello("run", 1, 1)));
  testing::Producer chunks("run", 1, 1);
  // The event of this stream remains readable from now on.
  streaming.Publish(chunks.Chunk(0), 0);
  ASSERT_TRUE(streaming.AwaitCommitted(1));
  RawProducer silent(path());
  // A half-closed socket is always readable.
  store_.BlockAppends();
  RawProducer left(path());
  ASSERT_TRUE(left.Open(RawProducer::Hello("run", 2, 2)));
  testing::Producer left_chunks("run", 2, 2);
  left.Publish(left_chunks.Chunk(0), 0);
  store_.AwaitAppend();
  left.Close();
  const int64_t before = ProcessorMicroseconds();
  pollfd nothing{-1, 0, 0};
  ::poll(&nothing, 1, 300);
  EXPECT_LT(ProcessorMicroseconds() - before, 100'000);
  store_.UnblockAppends();
}

TEST_F(LimitedServerTest, WakingItForNothingCostsItLittle) {
  Start();
  RawProducer flood(path());
  ASSERT_TRUE(flood.Open(RawProducer::Hello("run", 1, 1)));
  testing::Producer chunks("run", 1, 1);
  const auto of_others = [] {
    rusage own{};
    ::getrusage(RUSAGE_THREAD, &own);
    return ProcessorMicroseconds() - own.ru_utime.tv_usec -
           own.ru_stime.tv_usec -
           (own.ru_utime.tv_sec + own.ru_stime.tv_sec) * 1'000'000;
  };
  const int64_t before = of_others();
  const auto start = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration time{};
  while (time < std::chrono::milliseconds(500)) {
    for (int i = 0; i < 100; ++i) flood.Notify();
    time = std::chrono::steady_clock::now() - start;
  }
  const int64_t spent = of_others() - before;
  EXPECT_LT(spent, 100'000);
  // Its published chunks are consumed nevertheless.
  ASSERT_TRUE(flood.Publish(chunks.Chunk(0), 0));
  EXPECT_TRUE(flood.AwaitCommitted(1));
}

}  // namespace
}  // namespace msitd::shm
