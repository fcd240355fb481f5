// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msitd::watch {

// Properties that distinguish a file from earlier versions of it and from other
// files.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t mtime_ns = 0;
  // The time of the last change by the system clock, which programs cannot set.
  // Not compared.
  int64_t ctime_ns = 0;
  uint64_t inode = 0;

  friend bool operator==(const FileStamp& a, const FileStamp& b) {
    return a.bytes == b.bytes && a.mtime_ns == b.mtime_ns && a.inode == b.inode;
  }
};

// Whether a file is complete according to its own header.
enum class Length : uint8_t {
  kWhole,    // Everything that its header announces is present.
  kMore,     // Bytes are missing.
  kUnknown,  // The header does not specify the length.
  kLater,    // Another file must arrive first; the file is probed again.
};

// Examines files. Tests use an implementation without files.
class FileProber {
 public:
  virtual ~FileProber() = default;

  // Returns false if there is no such file.
  virtual bool Stat(const std::string& path, FileStamp* stamp) = 0;
  // Reads the header. `reason` receives the reason why the file is not
  // complete.
  virtual Length Probe(const std::string& path, std::string* reason) = 0;
};

struct WholeFile {
  std::string path;
  FileStamp stamp;
  // Files of a folder were seen in this order.
  uint64_t number = 0;
  // The time when the file was found to be complete.
  std::chrono::steady_clock::time_point time = {};
  // Reported by an event, so it did not exist before the watch.
  bool is_new = false;
  // False if it is treated as complete only because the watch ends.
  bool has_rested = false;
};

// Tracks files that were seen but are not known to be complete, and reports
// when they are. Paths have the form that the caller uses.
//
//   seen -Written/Closed-> pending -probed-> complete (removed)
//                            ^ |             gone     (removed)
//                            '-' incomplete, too recent, or later
//
// A file is complete when its header indicates this and its writer has closed
// it, or it has not changed for `settle`. If the header does not specify the
// length, the file is complete when it has not changed for `quiet`. Times are
// from a steady clock that the caller reads. Thread-compatible.
class FileStates {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Timing {
    std::chrono::milliseconds settle{300};
    std::chrono::milliseconds quiet{1000};
    // The interval between two probes of a file that is incomplete.
    std::chrono::milliseconds recheck{1000};
  };

  // Files beyond this number are not tracked. See TakeFull.
  static constexpr size_t kPendingMax = size_t{1} << 20;

  // Borrows `prober`.
  FileStates(Timing timing, FileProber& prober)
      : timing_(timing), prober_(prober) {}

  // Reports that a file exists and may still be written. `is_new`: see
  // WholeFile.
  void Written(const std::string& path, bool is_new, Time now);
  // Reports that the writer closed the file.
  void Closed(const std::string& path, Time now);
  void Gone(const std::string& path);

  // Probes up to `count` files that are due, and appends those that are
  // complete. With `is_end`, probes all files and does not wait for `quiet`.
  void TakeWhole(Time now, size_t count, bool is_end,
                 std::vector<WholeFile>* out);

  // Returns true if a file in the folder of `file` was seen before it and may
  // become complete soon.
  bool HasEarlier(const WholeFile& file) const;

  // The time of the next probe; Time::max() if none is due.
  Time next_look() const;
  // Files that may become complete without another event: neither empty nor
  // incomplete.
  size_t hopeful_count() const { return states_.size() - stuck_count_; }
  size_t pending_count() const { return states_.size(); }
  // Returns true if files were rejected since the last call.
  bool TakeFull() { return std::exchange(is_full_, false); }

  // Calls `visit` with each pending file and the reason why it is not complete.
  void ForEach(
      const std::function<void(const std::string& path,
                               const std::string& reason)>& visit) const;

 private:
  struct State {
    FileStamp stamp;
    bool has_stamp = false;
    uint64_t number = 0;
    bool is_closed = false;
    bool is_new = false;
    // In `settling_`.
    bool is_settling = false;
    // Bytes are missing.
    bool is_stuck = false;
    // Whether `stamp` was probed.
    bool is_probed = false;
    // See WholeFile.
    bool has_rested = false;
    Length length = Length::kUnknown;
    std::string reason;
    // The time when the stamp was first seen.
    Time since;
    Time due;
  };

  State* Find(const std::string& path, Time now);
  void SetDue(const std::string& path, State& state, Time due);
  void SetStuck(State& state, bool is_stuck);
  void SetSettling(const std::string& path, State& state, bool is_settling);
  // Returns true if the file is complete. Otherwise, `next` receives the time
  // of the next probe.
  bool Look(const std::string& path, State& state, Time now, bool is_end,
            Time* next);
  void Drop(const std::string& path);

  const Timing timing_;
  FileProber& prober_;
  std::unordered_map<std::string, State> states_;
  std::set<std::pair<Time, std::string>> due_;
  // Numbers of files that may become complete soon, by folder.
  std::unordered_map<std::string, std::set<uint64_t>> settling_;
  uint64_t next_number_ = 1;
  size_t stuck_count_ = 0;
  bool is_full_ = false;
};

}  // namespace msitd::watch
