// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

// A stream of messages over gRPC to a process that throws them away: what the
// network of the machine gives at best.
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

// Takes streams on a port of the loopback interface, which it prints, until
// the process is killed.
int RunByteSink();

// Sends `message`, which is not copied, `count` times in one stream and waits
// until the sink has had the last one.
void SendBytes(const std::shared_ptr<grpc::Channel>& channel,
               const std::string& message, int64_t count);

}  // namespace msitd::bench
