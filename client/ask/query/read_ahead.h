// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/ask/query/byte_sink.h"
#include "client/ask/query/outcome.h"
#include "client/ask/query/tensor_bytes.h"

namespace msitd::ask {

class Connection;

// Reads the bytes of many tensors, one after another. Small tensors that were
// announced are read in a stream of many instead of one call each. Memory: one
// or two messages, and the names that are expected. Thread-compatible.
class ReadAhead {
 public:
  // A larger tensor is read by its own call.
  static constexpr int64_t kSmallBytesMax = int64_t{1} << 20;
  // Most names of one stream, and their bytes.
  static constexpr size_t kStreamNamesMax = 1000;
  static constexpr size_t kStreamNameBytesMax = size_t{48} << 10;

  // Borrows `connection`.
  explicit ReadAhead(Connection& connection);
  ~ReadAhead();

  // Announces the tensors that will be read next, in about this order. Replaces
  // the previous list. Tensors that are not read, or were not announced, only
  // cost time.
  void Expect(std::vector<WantedBytes> tensors);

  // Like ReadTensorBytes, which is used for every tensor that a stream does not
  // deliver.
  Outcome Read(const WantedBytes& wanted, const ByteSink& sink);

 private:
  class Stream;

  // Returns the bytes of expected_[index], valid until the next call. Null if
  // no stream delivers them, for example because it arrives after a later one.
  const std::string* Find(size_t index);

  Connection& connection_;
  // Only small tensors.
  std::vector<WantedBytes> expected_;
  // Indexes into expected_ by name.
  std::unordered_map<std::string_view, size_t> by_name_;
  std::unique_ptr<Stream> stream_;
  // The daemon is too old to support such streams.
  bool has_no_streams_ = false;
};

}  // namespace msitd::ask
