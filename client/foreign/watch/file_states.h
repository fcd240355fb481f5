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

// What tells a file from what it was before, and from another one.
struct FileStamp {
  uint64_t bytes = 0;
  int64_t mtime_ns = 0;
  // Of the last change of the file, by the clock of the system; nobody can set
  // it. Not compared.
  int64_t ctime_ns = 0;
  uint64_t inode = 0;

  friend bool operator==(const FileStamp& a, const FileStamp& b) {
    return a.bytes == b.bytes && a.mtime_ns == b.mtime_ns && a.inode == b.inode;
  }
};

// What a file says of its own length.
enum class Length : uint8_t {
  kWhole,    // All that its head announces is there.
  kMore,     // More has to come.
  kUnknown,  // It does not say.
  kLater,    // Something else has to come first; it is asked again.
};

// Looks at files; tests have one without files.
class FileProber {
 public:
  virtual ~FileProber() = default;

  // False if there is no such file.
  virtual bool Stat(const std::string& path, FileStamp* stamp) = 0;
  // Reads the head. `reason` gets why it is not whole.
  virtual Length Probe(const std::string& path, std::string* reason) = 0;
};

struct WholeFile {
  std::string path;
  FileStamp stamp;
  // Files of a folder were seen in this order.
  uint64_t number = 0;
  // When it was found to be whole.
  std::chrono::steady_clock::time_point time = {};
  // An event told of it: it was not there before the watch.
  bool is_new = false;
  // False if it is taken for whole only because the watch ends.
  bool has_rested = false;
};

// Knows the files that were seen and are not known to be whole, and says when
// they are. Paths are as the caller has them.
//
//   seen -Written/Closed-> pending -looked at-> whole (let go of)
//                            ^ |                gone  (let go of)
//                            '-' more to come, too young, or later
//
// A file is whole when its writer has closed it, or it has not changed for
// `settle`, and its head says so; or, if the head does not say, when it has not
// changed for `quiet`. Times are of a steady clock that the caller reads.
// Thread-compatible.
class FileStates {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Timing {
    std::chrono::milliseconds settle{300};
    std::chrono::milliseconds quiet{1000};
    // Between two looks at a file to which more has to come.
    std::chrono::milliseconds recheck{1000};
  };

  // More than so many are not kept. See is_full.
  static constexpr size_t kPendingMax = size_t{1} << 20;

  // Borrows `prober`.
  FileStates(Timing timing, FileProber& prober)
      : timing_(timing), prober_(prober) {}

  // The file is there, and may still be written. `is_new`: see WholeFile.
  void Written(const std::string& path, bool is_new, Time now);
  // Its writer closed it.
  void Closed(const std::string& path, Time now);
  void Gone(const std::string& path);

  // Looks at up to `count` files whose time has come, and appends those that
  // are whole. With `is_end`, at all files, and takes the quiet ones at once.
  void TakeWhole(Time now, size_t count, bool is_end,
                 std::vector<WholeFile>* out);

  // True if a file of the folder of `file` was seen before it and may become
  // whole soon.
  bool HasEarlier(const WholeFile& file) const;

  // When the next look is due; Time::max() if none is.
  Time next_look() const;
  // Files that may become whole without another event: neither empty nor
  // waiting for more.
  size_t hopeful_count() const { return states_.size() - stuck_count_; }
  size_t pending_count() const { return states_.size(); }
  // True if files were turned away. It stays until TakeFull.
  bool TakeFull() { return std::exchange(is_full_, false); }

  // Calls `visit` with each pending file and why it is not whole.
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
    // More has to come.
    bool is_stuck = false;
    // Of `stamp`.
    bool is_probed = false;
    // See WholeFile.
    bool has_rested = false;
    Length length = Length::kUnknown;
    std::string reason;
    // When the stamp was seen first.
    Time since;
    Time due;
  };

  State* Find(const std::string& path, Time now);
  void SetDue(const std::string& path, State& state, Time due);
  void SetStuck(State& state, bool is_stuck);
  void SetSettling(const std::string& path, State& state, bool is_settling);
  // Returns true if it is whole. `next` gets when to look again otherwise.
  bool Look(const std::string& path, State& state, Time now, bool is_end,
            Time* next);
  void Drop(const std::string& path);

  const Timing timing_;
  FileProber& prober_;
  std::unordered_map<std::string, State> states_;
  std::set<std::pair<Time, std::string>> due_;
  // Numbers of files that may become whole soon, by their folder.
  std::unordered_map<std::string, std::set<uint64_t>> settling_;
  uint64_t next_number_ = 1;
  size_t stuck_count_ = 0;
  bool is_full_ = false;
};

}  // namespace msitd::watch
