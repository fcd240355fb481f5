// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

// A gRPC stream to a process that discards the messages: an upper bound for the
// throughput of the machine's network.
namespace msitd::bench {

// A process that runs this program with the argument `--sink`, which calls
// RunByteSink.
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

// Prints a loopback port and accepts streams on it until the process is killed.
int RunByteSink();

// Sends `message` `count` times in one stream, without copying it, and waits
// until the sink has received the last one.
void SendBytes(const std::shared_ptr<grpc::Channel>& channel,
               const std::string& message, int64_t count);

}  // namespace msitd::bench
