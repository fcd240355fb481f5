// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/formats/byte_source.h"
#include "protos/status/status.h"

namespace msitd::formats {

// Receives the parts of a JSON file. Each function but the last one returns
// whether parsing continues.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;

  virtual bool Open(bool is_object) = 0;
  virtual bool CloseObject() = 0;
  virtual bool CloseList() = 0;
  virtual bool Key(std::string& key) = 0;
  virtual bool Text(std::string& text) = 0;
  virtual bool OtherValue() = 0;
  // Returns why parsing did not continue.
  virtual absl::Status status() const = 0;
};

// Parses a file to its end. Errors, which begin with `name`: DATA_LOSS if it
// ends too early, INVALID_ARGUMENT if it is not JSON. That of `events` if it
// stops.
absl::Status ParseJson(const ByteSource& bytes, const std::string& name,
                       JsonEvents& events);

// An object or list that is open while JSON is parsed.
struct JsonLevel {
  bool is_object = false;
  std::string key;     // The current one, in an object.
  int64_t index = -1;  // The current one, in a list.
};

// Follows the path to each value of a JSON file while it is parsed, because a
// tree of the whole file would need a multiple of its size. A derived class
// overrides `Key`, which has to set the key of the last level, `Text` and
// `CloseObject`. `Level` is derived from JsonLevel. Thread-compatible.
template <typename Level>
class JsonWalk : public JsonEvents {
 public:
  // Errors: those of ParseJson; RESOURCE_EXHAUSTED if the file has too many
  // levels; that of Stop().
  absl::Status Parse(const ByteSource& bytes) {
    return ParseJson(bytes, name_, *this);
  }

  bool Open(bool is_object) final {
    Count();
    if (levels_.size() == depth_max_) {
      return Stop(MakeStatus(absl::StatusCode::kResourceExhausted,
                             "{}: it has more than {} values in one another",
                             name_, depth_max_));
    }
    levels_.emplace_back().is_object = is_object;
    return true;
  }
  bool CloseList() final {
    levels_.pop_back();
    return true;
  }
  bool OtherValue() final {
    Count();
    return true;
  }
  absl::Status status() const final { return status_; }

 protected:
  // `name` is that of the format, for errors.
  JsonWalk(std::string name, size_t depth_max)
      : name_(std::move(name)), depth_max_(depth_max) {}

  // Ends parsing with this error. Returns false.
  bool Stop(absl::Status why) {
    if (status_.ok()) status_ = std::move(why);
    return false;
  }
  // Counts a value of a list.
  void Count() {
    if (!levels_.empty() && !levels_.back().is_object) ++levels_.back().index;
  }
  // Removes the last level and returns it.
  Level Close() {
    Level out = std::move(levels_.back());
    levels_.pop_back();
    return out;
  }

  std::vector<Level>& levels() { return levels_; }
  const std::vector<Level>& levels() const { return levels_; }

 private:
  const std::string name_;
  const size_t depth_max_;
  std::vector<Level> levels_;
  absl::Status status_;
};

}  // namespace msitd::formats
