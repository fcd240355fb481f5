// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "protos/base/summary.h"

namespace msitd::chunk {

// Computes the XXH3-128 hash of bytes that are added piece by piece, which is
// equal to HashBytes of all of them. Thread-compatible.
class PiecewiseHash {
 public:
  PiecewiseHash();
  ~PiecewiseHash();
  PiecewiseHash(const PiecewiseHash&) = delete;
  PiecewiseHash& operator=(const PiecewiseHash&) = delete;

  void Add(std::string_view piece);

  // Returns the hash of all bytes added so far.
  ContentHash Get() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace msitd::chunk
