// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "daemon/archive/archive_jobs.h"
#include "daemon/compare/job/bounded_comparisons.h"
#include "daemon/ingest/buffer_pool.h"
#include "daemon/ingest/ingest_pipeline.h"
#include "daemon/metrics/metric_page.h"
#include "daemon/service/call/task_pool.h"
#include "storage/face/types.h"
#include "storage/face/upkeep.h"

namespace msitd::server {

// Builds the metrics page from the counters of the parts of the daemon, which
// must outlive it. Thread-safe.
class NodeMetrics {
 public:
  struct Parts {
    storage::Upkeep& store;
    ingest::IngestPipeline& pipeline;
    ingest::BufferPool& buffers;
    service::CallPools pools;
    int64_t streams_max = 0;
    // All functions may be called on any thread.
    std::function<int64_t()> active_comparisons;
    std::function<compare::BoundedComparisons::Stats()> stored_comparisons;
    std::function<std::string()> retention_error;
    std::function<std::string()> verify_error;
    std::function<archive::ArchiveCounts()> archives;
    // The value of retain_disk_free_bytes.
    std::function<int64_t()> disk_free_min_bytes;
    // 0 without TLS.
    std::function<int64_t()> certificate_last_s;
  };

  explicit NodeMetrics(Parts parts) : parts_(std::move(parts)) {}

  // Returns the current page, about 15 KiB. Does not access the disk.
  std::string Text() const;

 private:
  void AddIngest(metrics::MetricPage& page) const;
  void AddCalls(metrics::MetricPage& page) const;
  void AddStore(const storage::StoreStats& store,
                metrics::MetricPage& page) const;

  const Parts parts_;
  const std::chrono::system_clock::time_point start_ =
      std::chrono::system_clock::now();
};

}  // namespace msitd::server
