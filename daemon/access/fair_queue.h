// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msitd::access {

// A queue in which callers take turns.
//
// FairShares bounds how many jobs a caller has waiting, which does not help a
// caller whose one job waits for thirty jobs of another. Here every caller has
// a line of its own. The next job is that of the caller with the fewest jobs
// under way; of several such callers, the one whose last job was taken longest
// ago. So a caller waits for at most one job of each other caller, and the jobs
// of one caller keep their order.
//
// T is cheap to copy and comparable, such as a shared pointer.
// Thread-compatible. The number of jobs is bounded by the owner of the queue.
template <typename T>
class FairQueue {
 public:
  void Push(std::string_view caller, T job) {
    Line& line = lines_.try_emplace(std::string(caller)).first->second;
    line.waiting.push_back(std::move(job));
    ++size_;
  }

  // Takes the next job, which counts as under way until Finish; nothing if the
  // queue is empty.
  std::optional<T> Pop() {
    const auto next = Next(lines_);
    if (next == lines_.end()) return std::nullopt;
    Line& line = next->second;
    T job = std::move(line.waiting.front());
    line.waiting.pop_front();
    line.turn = ++last_turn_;
    ++line.under_way_count;
    --size_;
    return job;
  }

  // Called once for each job that Pop returned to this caller's name.
  void Finish(std::string_view caller) {
    const auto it = lines_.find(caller);
    if (it == lines_.end()) return;
    --it->second.under_way_count;
    EraseIfIdle(it);
  }

  // Takes a job out of the queue; false if it does not wait there.
  bool Remove(const T& job) {
    for (auto it = lines_.begin(); it != lines_.end(); ++it) {
      if (std::erase(it->second.waiting, job) == 0) continue;
      --size_;
      EraseIfIdle(it);
      return true;
    }
    return false;
  }

  // How many waiting jobs are taken before this one, as long as no more are
  // added; nothing if it does not wait.
  std::optional<size_t> CountBefore(const T& job) const {
    Lines lines = lines_;
    uint64_t turn = last_turn_;
    for (size_t count = 0; count < size_; ++count) {
      Line& line = Next(lines)->second;
      if (line.waiting.front() == job) return count;
      line.waiting.pop_front();
      line.turn = ++turn;
    }
    return std::nullopt;
  }

  // All jobs that wait, those of one caller in their order.
  std::vector<T> Waiting() const {
    std::vector<T> out;
    for (const auto& [caller, line] : lines_) {
      out.insert(out.end(), line.waiting.begin(), line.waiting.end());
    }
    return out;
  }

  // Takes all jobs out of the queue.
  std::vector<T> Clear() {
    std::vector<T> out = Waiting();
    for (auto& [caller, line] : lines_) line.waiting.clear();
    std::erase_if(lines_, [](const auto& entry) {
      return entry.second.under_way_count == 0;
    });
    size_ = 0;
    return out;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct Line {
    std::deque<T> waiting;
    size_t under_way_count = 0;
    uint64_t turn = 0;  // When its last job was taken; 0: never.
  };
  // Callers that have a job in the queue or under way.
  using Lines = std::map<std::string, Line, std::less<>>;

  template <typename Map>
  static auto Next(Map& lines) {
    auto best = lines.end();
    for (auto it = lines.begin(); it != lines.end(); ++it) {
      if (it->second.waiting.empty()) continue;
      if (best == lines.end() ||
          std::pair(it->second.under_way_count, it->second.turn) <
              std::pair(best->second.under_way_count, best->second.turn)) {
        best = it;
      }
    }
    return best;
  }

  void EraseIfIdle(typename Lines::iterator it) {
    if (it->second.waiting.empty() && it->second.under_way_count == 0) {
      lines_.erase(it);
    }
  }

  Lines lines_;
  size_t size_ = 0;
  uint64_t last_turn_ = 0;
};

}  // namespace msitd::access
