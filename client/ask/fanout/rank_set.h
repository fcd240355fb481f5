// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <string>
#include <vector>

#include "msitd/v1/filter.pb.h"

namespace msitd::ask {

// Ranks as ascending ranges with gaps between them: a world of any size takes
// little room. Any ranges of a daemon make one.
class RankSet {
 public:
  using Ranges = google::protobuf::RepeatedPtrField<v1::RankRange>;

  RankSet() = default;
  explicit RankSet(const Ranges& ranges);

  bool empty() const { return ranges_.empty(); }
  int64_t size() const;
  // -1 if it is empty.
  int64_t first() const { return empty() ? -1 : ranges_.front().first; }

  RankSet Union(const RankSet& other) const;
  RankSet Minus(const RankSet& other) const;
  RankSet Intersection(const RankSet& other) const;

  void Write(Ranges& out) const;
  // Every rank by itself; at most `limit`, which is 0 or more.
  std::vector<int32_t> Ranks(int64_t limit) const;
  // `0-3,7`.
  std::string Text() const;

  friend bool operator==(const RankSet&, const RankSet&) = default;

 private:
  struct Range {
    int64_t first;
    int64_t last;
    friend bool operator==(const Range&, const Range&) = default;
  };

  std::vector<Range> ranges_;
};

}  // namespace msitd::ask
