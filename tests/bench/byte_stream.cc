// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/byte_stream.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/slice.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "tests/bench/bench_daemon.h"

namespace msitd::bench {
namespace {

class SinkStream final : public grpc::ServerGenericBidiReactor {
 public:
  SinkStream() { StartRead(&message_); }

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      StartRead(&message_);
    } else {
      Finish(grpc::Status::OK);
    }
  }
  void OnDone() override { delete this; }

  grpc::ByteBuffer message_;
};

class SinkService final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* /*context*/) override {
    return new SinkStream;
  }
};

class SourceStream final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  SourceStream(const std::shared_ptr<grpc::Channel>& channel,
               const std::string& message, int64_t count)
      : rest_(count) {
    const grpc::Slice slice(message.data(), message.size(),
                            grpc::Slice::STATIC_SLICE);
    message_ = grpc::ByteBuffer(&slice, 1);
    grpc::GenericStub stub(channel);
    stub.PrepareBidiStreamingCall(&context_, "/bench.Sink/Write",
                                  grpc::StubOptions(), this);
    StartRead(&answer_);
    WriteNext();
    StartCall();
  }

  grpc::Status Await() {
    std::unique_lock lock(mu_);
    while (!is_done_) done_.wait(lock);
    return status_;
  }

 private:
  void WriteNext() {
    if (rest_-- > 0) {
      StartWrite(&message_);
    } else {
      StartWritesDone();
    }
  }
  void OnWriteDone(bool ok) override {
    if (ok) WriteNext();
  }
  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mu_);
    status_ = status;
    is_done_ = true;
    done_.notify_all();
  }

  grpc::ClientContext context_;
  grpc::ByteBuffer message_;
  grpc::ByteBuffer answer_;
  int64_t rest_;
  std::mutex mu_;
  std::condition_variable done_;
  bool is_done_ = false;
  grpc::Status status_;
};

}  // namespace

ByteSinkProcess::ByteSinkProcess() {
  int ends[2];
  if (::pipe(ends) != 0) Fail("no pipe");
  pid_ = ::fork();
  if (pid_ < 0) Fail("no process");
  if (pid_ == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execl("/proc/self/exe", "bench", "--sink", nullptr);
    ::_exit(1);
  }
  ::close(ends[1]);
  char port[16] = {};
  if (::read(ends[0], port, sizeof(port) - 1) <= 0) Fail("no sink");
  ::close(ends[0]);
  channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(std::atoi(port)),
                                 grpc::InsecureChannelCredentials());
}

ByteSinkProcess::~ByteSinkProcess() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

int RunByteSink() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  SinkService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.SetMaxReceiveMessageSize(-1);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("%d\n", port);
  std::fflush(stdout);
  server->Wait();
  return 0;
}

void SendBytes(const std::shared_ptr<grpc::Channel>& channel,
               const std::string& message, int64_t count) {
  SourceStream stream(channel, message, count);
  if (!stream.Await().ok()) Fail("the stream broke");
}

}  // namespace msitd::bench
