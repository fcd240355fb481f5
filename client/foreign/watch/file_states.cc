// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/watch/file_states.h"

#include "client/foreign/watch/path_name.h"

namespace msitd::watch {

FileStates::State* FileStates::Find(const std::string& path, Time now) {
  const auto at = states_.find(path);
  if (at != states_.end()) return &at->second;
  if (states_.size() >= kPendingMax) {
    is_full_ = true;
    return nullptr;
  }
  State& state = states_[path];
  state.number = next_number_++;
  SetSettling(path, state, true);
  state.since = now;
  state.due = now;
  due_.emplace(now, path);
  return &state;
}

void FileStates::SetDue(const std::string& path, State& state, Time due) {
  due_.erase({state.due, path});
  state.due = due;
  due_.emplace(due, path);
}

void FileStates::SetStuck(State& state, bool is_stuck) {
  if (state.is_stuck == is_stuck) return;
  state.is_stuck = is_stuck;
  if (is_stuck) {
    ++stuck_count_;
  } else {
    --stuck_count_;
  }
}

void FileStates::SetSettling(const std::string& path, State& state,
                             bool is_settling) {
  if (state.is_settling == is_settling) return;
  state.is_settling = is_settling;
  const std::string folder = SplitName(path).first;
  if (is_settling) {
    settling_[folder].insert(state.number);
    return;
  }
  const auto at = settling_.find(folder);
  at->second.erase(state.number);
  if (at->second.empty()) settling_.erase(at);
}

bool FileStates::HasEarlier(const WholeFile& file) const {
  const auto at = settling_.find(SplitName(file.path).first);
  return at != settling_.end() && *at->second.begin() < file.number;
}

void FileStates::Written(const std::string& path, bool is_new, Time now) {
  State* const state = Find(path, now);
  if (state == nullptr) return;
  state->is_new = state->is_new || is_new;
  SetDue(path, *state, now);
}

void FileStates::Closed(const std::string& path, Time now) {
  State* const state = Find(path, now);
  if (state == nullptr) return;
  state->is_closed = true;
  state->is_new = true;
  SetStuck(*state, false);
  SetDue(path, *state, now);
}

void FileStates::Gone(const std::string& path) { Drop(path); }

void FileStates::Drop(const std::string& path) {
  const auto at = states_.find(path);
  if (at == states_.end()) return;
  SetStuck(at->second, false);
  SetSettling(path, at->second, false);
  due_.erase({at->second.due, path});
  states_.erase(at);
}

bool FileStates::Look(const std::string& path, State& state, Time now,
                      bool is_end, Time* next) {
  FileStamp stamp;
  if (!prober_.Stat(path, &stamp)) return false;
  if (!state.has_stamp || !(stamp == state.stamp)) {
    // A closed file that is written again will be closed again.
    if (state.has_stamp && state.stamp.inode != stamp.inode) {
      state.is_closed = false;
    }
    state.since = now;
    state.has_stamp = true;
    state.is_probed = false;
    SetStuck(state, false);
  }
  state.stamp = stamp;
  *next = now + timing_.recheck;
  const auto age = now - state.since;
  if (stamp.bytes == 0) {
    state.reason = "it is empty";
    if (age >= timing_.settle) SetSettling(path, state, false);
    SetStuck(state, age >= timing_.quiet);
    return false;
  }
  const bool is_settled = state.is_closed || age >= timing_.settle;
  if (!is_settled && !is_end) {
    *next = state.since + timing_.settle;
    return false;
  }
  if (!std::exchange(state.is_probed, true)) {
    state.length = prober_.Probe(path, &state.reason);
  }
  state.has_rested =
      state.length == Length::kWhole ? is_settled : age >= timing_.quiet;
  if (state.length == Length::kWhole) return true;
  // Later files do not wait for a file that may take long.
  SetSettling(path, state, false);
  const bool is_later = state.length == Length::kLater;
  SetStuck(state, state.length == Length::kMore || is_later);
  if (is_later) state.is_probed = false;
  if (state.is_stuck) return false;
  if (is_end || age >= timing_.quiet) return true;
  *next = state.since + timing_.quiet;
  return false;
}

void FileStates::TakeWhole(Time now, size_t count, bool is_end,
                           std::vector<WholeFile>* out) {
  std::vector<std::string> paths;
  for (const auto& [due, path] : due_) {
    if ((due > now && !is_end) || paths.size() == count) break;
    paths.push_back(path);
  }
  for (const std::string& path : paths) {
    State& state = states_.at(path);
    Time next = Time::min();
    const bool is_whole = Look(path, state, now, is_end, &next);
    if (is_whole)
      out->push_back({.path = path,
                      .stamp = state.stamp,
                      .number = state.number,
                      .time = now,
                      .is_new = state.is_new,
                      .has_rested = state.has_rested});
    if (is_whole || next == Time::min()) {
      Drop(path);
    } else {
      SetDue(path, state, next);
    }
  }
}

FileStates::Time FileStates::next_look() const {
  return due_.empty() ? Time::max() : due_.begin()->first;
}

void FileStates::ForEach(
    const std::function<void(const std::string&, const std::string&)>& visit)
    const {
  for (const auto& [path, state] : states_) visit(path, state.reason);
}

}  // namespace msitd::watch
