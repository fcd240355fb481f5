// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "protos/base/summary.h"

namespace msitd::chunk {

// The XXH3-128 hash of bytes that come piece by piece: HashBytes of all of
// them. Thread-compatible.
class PiecewiseHash {
 public:
  PiecewiseHash();
  ~PiecewiseHash();
  PiecewiseHash(const PiecewiseHash&) = delete;
  PiecewiseHash& operator=(const PiecewiseHash&) = delete;

  void Add(std::string_view piece);

  // Of what was added so far.
  ContentHash Get() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace msitd::chunk
