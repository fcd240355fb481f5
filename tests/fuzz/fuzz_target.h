// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

// Gives one input to the code under test. Ends the process if a promise is
// broken; returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace msitd::fuzz {

// Returns the inputs that mutations start from: what the code gets from peers
// who keep to the documents. Every target defines its own.
std::vector<std::string> Seeds();

// Reads an input from its beginning. Behind its end it reads zeros and nothing.
class Input {
 public:
  Input(const uint8_t* data, size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  std::string_view Take(size_t bytes) {
    const std::string_view out = rest_.substr(0, bytes);
    rest_.remove_prefix(out.size());
    return out;
  }

  template <typename Number>
  Number Get() {
    Number value = 0;
    const std::string_view bytes = Take(sizeof(value));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

 private:
  std::string_view rest_;
};

// Returns the bytes of a number or a struct, to build inputs.
template <typename T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace msitd::fuzz
