// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

// A stream of messages over gRPC to a process that throws them away: the most
// that the network of the machine can do.
namespace msitd::bench {

// A process of this program with the argument `--sink`, which runs RunByteSink.
class ByteSinkProcess {
 public:
  ByteSinkProcess();
  ~ByteSinkProcess();
  ByteSinkProcess(const ByteSinkProcess&) = delete;
  ByteSinkProcess& operator=(const ByteSinkProcess&) = delete;

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  pid_t pid_ = -1;
  std::shared_ptr<grpc::Channel> channel_;
};

// Accepts streams on a loopback port, which it prints, until the process is
// killed.
int RunByteSink();

// Sends `message` `count` times in one stream, without copying it, and waits
// until the sink has the last one.
void SendBytes(const std::shared_ptr<grpc::Channel>& channel,
               const std::string& message, int64_t count);

}  // namespace msitd::bench
