// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/ingest/ingest_pipeline.h"
#include "daemon/shm/ingest_server.h"
#include "protos/status/mutex.h"
#include "tests/support/fake_store.h"
#include "tests/support/temp_dir.h"

namespace msitd::shm {

// An ingest server with a pipeline and a store in memory. The server can be
// stopped, which looks like a kill to its producers, and restarted on the same
// store.
class ServerTest : public ::testing::Test {
 protected:
  ServerTest() { options_.socket_path = directory_ / "ingest.sock"; }
  ~ServerTest() override { Stop(); }

  void Start() {
    pipeline_ = std::make_unique<ingest::IngestPipeline>(
        store_, store_, ingest::IngestOptions{});
    auto server = IngestServer::Start(options_, *pipeline_,
                                      [this](absl::AnyInvocable<void()> task) {
                                        MutexLock lock(mu_);
                                        tasks_.emplace_back(std::move(task));
                                        return absl::OkStatus();
                                      });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void Stop() {
    if (server_ != nullptr) {
      EXPECT_TRUE(
          pipeline_->Drain(std::chrono::steady_clock::time_point::max()).ok());
      server_->Stop();
      server_.reset();
    }
    pipeline_.reset();
    MutexLock lock(mu_);
    for (std::thread& task : tasks_) task.join();
    tasks_.clear();
  }

  const std::string& path() const { return options_.socket_path; }

  // Returns the number of tensors in the run.
  uint64_t TensorCount(const std::string& run) {
    const auto found = store_.GetRun(run);
    return found.ok() ? found->counters.tensor_count : 0;
  }

  testing::TempDir directory_;
  testing::FakeStore store_;
  IngestServerOptions options_;
  std::unique_ptr<ingest::IngestPipeline> pipeline_;
  std::unique_ptr<IngestServer> server_;

 private:
  Mutex mu_;
  std::vector<std::thread> tasks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::shm
