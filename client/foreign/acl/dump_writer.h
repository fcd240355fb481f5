// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "client/foreign/acl/reporter.h"
#include "client/foreign/acl/settings.h"
#include "client/foreign/acl/slice_table.h"
#include "client/foreign/fill/file_feed.h"
#include "client/foreign/trees/file_name.h"
#include "client/foreign/trees/ge/ge_place.h"
#include "client/foreign/trees/ge/ge_task.h"
#include "client/libmsit/core/client.h"
#include "protos/status/mutex.h"

namespace msitd::acl {

// Sends the files of a table as the same records that an import creates from
// them. Owns the thread that does this. All methods are thread-safe.
//
// Calls of an op are numbered in the order of time, as in an import. A file
// therefore waits for files of an earlier time, for kSettleTime or until memory
// gets short. A file that has begun and not ended keeps its number.
class DumpWriter {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kSettleTime{100};
  // The longest time that Flush and Stop take. Stop takes at most kHopelessTime
  // if the daemon accepted nothing during a Flush.
  static constexpr std::chrono::seconds kFlushTime{5};
  static constexpr std::chrono::seconds kHopelessTime{1};
  // Ranks of one process, and tokens of these ranks, whose calls are
  // remembered. Dumps of further ranks are lost.
  static constexpr size_t kRanksMax = 64;
  static constexpr size_t kTokensMax = 16;
  // Ops of all these tokens. Beyond this, calls are numbered from 0 again, and
  // the daemon counts the conflicts.
  static constexpr size_t kCallsMax = size_t{1} << 20;
  // Attempts for each step of the shutdown, which can fail for lack of memory.
  static constexpr int kTriesMax = 8;
  // Graphs that are distinguished.
  static constexpr size_t kGraphsMax = 4096;

  // Borrows everything but the settings. Throws what std::thread throws.
  DumpWriter(Settings settings, SliceTable& table, Reporter& reporter);
  // Requires that Stop has returned.
  ~DumpWriter();

  // Waits until the daemon has everything that has arrived so far.
  void Flush();
  // Sends what there is of unfinished files, ends the streams and reports the
  // result. Call it once.
  void Stop();

 private:
  struct Settling {
    DumpFile file;
    trees::GePlace place;
    trees::GeFileName name;
    Clock::time_point settled_at;
  };
  struct Earlier {
    bool operator()(const trees::GeFileName& a,
                    const trees::GeFileName& b) const {
      return trees::CompareGeTasks(a, 0, b, 0) < 0;
    }
  };
  struct Counts {
    uint64_t file_count = 0;
    uint64_t tensor_count = 0;
    // Files that lack bytes, files that could not be read, and tensors of other
    // files that could not be sent.
    uint64_t incomplete_count = 0;
    uint64_t bad_file_count = 0;
    // Files of ranks that have no stream.
    uint64_t unsent_file_count = 0;
    uint64_t bad_tensor_count = 0;
    // Tensors without bytes in the dump.
    uint64_t absent_tensor_count = 0;
    // Files whose call number differs from that of an import.
    uint64_t late_count = 0;
  };

  // All methods below run on the thread of this class.
  void Run() noexcept;
  // Runs a step. Returns false and reports the reason if it throws.
  template <typename Step>
  bool Try(Step step);
  // Repeats a step that throws, up to kTriesMax times in all.
  template <typename Step>
  void Insist(Step step);
  void RunUntilStopped();
  // A file for which there is no memory is released and counted.
  void Settle(DumpFile file);
  void TrySettle(DumpFile& file);
  void ReleaseSettled(bool all);
  // Sends the waiting files, and waits until the daemon has them. Returns false
  // if it does not have all of them by `deadline`.
  bool Deliver(Clock::time_point deadline);
  // Numbers the calls of files that have begun and are earlier than `item`,
  // whose op is `key`.
  void ReserveCalls(const Settling& item, const TensorKey& key,
                    trees::GeCalls& calls);
  void End();
  void Send(const Settling& item);
  absl::Status SendFile(const Settling& item);
  // Returns the location of its records in the run, without io and index.
  trees::TreeEntry EntryOf(const Settling& item);
  // Records the graph of a dump.
  void AddGraph(const trees::GePlace& place, const std::string& path);
  bool NamesGraphs(const trees::GePlace& place) const;
  // Returns the call numbers for a token of a rank.
  trees::GeCalls& CallsOf(int32_t rank, int64_t token);
  absl::Status SendTensors(const trees::TreeEntry& entry,
                           libmsit::Client& client);
  libmsit::Status Open(const trees::GePlace& place,
                       std::unique_ptr<libmsit::Client>& client);
  absl::StatusOr<libmsit::Client*> ClientOf(const trees::GePlace& place);
  // Counts lost files that have no stream as dropped, in the stream of some
  // rank.
  void CountLost();
  void SayResult();

  const Settings settings_;
  SliceTable& table_;
  Reporter& reporter_;

  fill::FileFeed feed_;
  std::multimap<trees::GeFileName, Settling, Earlier> settling_;
  // The graphs of each rank and device.
  std::map<std::pair<int32_t, std::string>,
           std::set<std::pair<std::string, std::string>>>
      graphs_;
  size_t graph_count_ = 0;
  std::map<std::pair<int32_t, int64_t>, trees::GeCalls> calls_;
  // Keyed by the paths of files that have begun. At most
  // SliceTable::kOpenFilesMax.
  std::map<std::string, int32_t> reserved_calls_;
  std::map<int32_t, std::unique_ptr<libmsit::Client>> clients_;
  Counts counts_;
  uint64_t reported_lost_count_ = 0;

  Mutex mu_;
  CondVar flushed_;
  uint64_t wanted_flush_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t done_flush_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool is_over_ ABSL_GUARDED_BY(mu_) = false;
  bool is_hopeless_ ABSL_GUARDED_BY(mu_) = false;
  // Nothing waits longer than this.
  Clock::time_point deadline_ ABSL_GUARDED_BY(mu_) = Clock::time_point::max();

  std::thread thread_;
};

}  // namespace msitd::acl
