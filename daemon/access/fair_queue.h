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
// FairShares limits how many jobs a caller may have waiting, but that does not
// help a caller whose single job waits for thirty jobs of another caller. Here
// every caller has its own line. The next job belongs to the caller with the
// fewest jobs in progress; among several such callers, to the one whose last
// job was taken the longest time ago. A caller therefore waits for at most one
// job of each other caller, and the jobs of one caller stay in order.
//
// T must be comparable and cheap to copy, such as a shared pointer.
// Thread-compatible. The owner of the queue bounds the number of jobs.
template <typename T>
class FairQueue {
 public:
  void Push(std::string_view caller, T job) {
    Line& line = lines_.try_emplace(std::string(caller)).first->second;
    line.waiting.push_back(std::move(job));
    ++size_;
  }

  // Removes and returns the next job, which counts as in progress until Finish
  // is called. Returns nullopt if the queue is empty.
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

  // Must be called once for each job of this caller that Pop returned.
  void Finish(std::string_view caller) {
    const auto it = lines_.find(caller);
    if (it == lines_.end()) return;
    --it->second.under_way_count;
    EraseIfIdle(it);
  }

  // Removes a job from the queue. Returns false if the job is not waiting.
  bool Remove(const T& job) {
    for (auto it = lines_.begin(); it != lines_.end(); ++it) {
      if (std::erase(it->second.waiting, job) == 0) continue;
      --size_;
      EraseIfIdle(it);
      return true;
    }
    return false;
  }

  // Returns how many waiting jobs are ahead of this one, assuming that no more
  // jobs are added. Returns nullopt if the job is not waiting.
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

  // Returns all waiting jobs. The jobs of each caller are in order.
  std::vector<T> Waiting() const {
    std::vector<T> out;
    for (const auto& [caller, line] : lines_) {
      out.insert(out.end(), line.waiting.begin(), line.waiting.end());
    }
    return out;
  }

  // Removes and returns all waiting jobs.
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
  // Callers that have a job waiting or in progress.
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
