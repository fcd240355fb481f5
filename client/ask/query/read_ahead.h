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

// Reads the bytes of many tensors, one after the other. Small ones that were
// told of before come many in a stream instead of a call each. Memory is that
// of a message or two, and of the names that are expected. Thread-compatible.
class ReadAhead {
 public:
  // A larger tensor is read by a call of its own.
  static constexpr int64_t kSmallBytesMax = int64_t{1} << 20;
  // Most names of one stream, and their bytes.
  static constexpr size_t kStreamNamesMax = 1000;
  static constexpr size_t kStreamNameBytesMax = size_t{48} << 10;

  // Borrows `connection`.
  explicit ReadAhead(Connection& connection);
  ~ReadAhead();

  // Says what will be read next, in about this order; replaces what was said
  // before. What is not read after all, or was not told, costs time alone.
  void Expect(std::vector<WantedBytes> tensors);

  // As ReadTensorBytes, which has the last word on whatever a stream does not
  // bring.
  Outcome Read(const WantedBytes& wanted, const ByteSink& sink);

 private:
  class Stream;

  // Returns the bytes of expected_[index], valid until the next call; null if
  // no stream brings them, such as when it comes behind a later one.
  const std::string* Find(size_t index);

  Connection& connection_;
  // Small tensors alone.
  std::vector<WantedBytes> expected_;
  // Places in expected_ by their names.
  std::unordered_map<std::string_view, size_t> by_name_;
  std::unique_ptr<Stream> stream_;
  // The daemon is older than such streams.
  bool has_no_streams_ = false;
};

}  // namespace msitd::ask
