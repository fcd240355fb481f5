// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Python's pickles, read as data: nothing that they name is ever called.
namespace msitd::formats {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInteger,
  kReal,
  kText,
  kBytes,
  kHugeInteger,  // Its value is not kept.
  kGlobal,       // A function or a class: what module_of and name_of return.
  kTuple,
  kList,
  kDict,  // Items: key, value, key, value, ...
  kSet,
  kCall,        // Items: the global, then its arguments.
  kPersistent,  // One item: what the file keeps elsewhere, as it refers to it.
};

// A value of a pickle. What is in it belongs to the pickle.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  // Of a text or bytes.
  uint32_t length = 0;
  // A bool or an integer, the bits of a real, where a text begins, or the
  // number of an object.
  int64_t bits = 0;
};

// What a pickle may make of a global.
enum class PickleUse : uint8_t {
  kRefused,
  kCalled,  // Comes as a call with its arguments.
  kDict,    // Comes as a dict.
};

// Says what may become of the global `name` of `module`.
using PickleGlobals = PickleUse (*)(std::string_view module,
                                    std::string_view name);

// One pickle, protocol 2 to 5. Has the operations that containers, texts,
// numbers and calls need, and no others. Thread-compatible.
class Pickle {
 public:
  // UNIMPLEMENTED for a global that is refused, with its name, and for an
  // operation that is not known; INVALID_ARGUMENT for what is no pickle;
  // RESOURCE_EXHAUSTED beyond a limit of format_limits.h.
  static absl::StatusOr<Pickle> Read(std::string bytes, PickleGlobals globals);

  PickleValue root() const { return root_; }

  // Items of a container, a call or a persistent value; none of others.
  std::span<const PickleValue> Items(PickleValue value) const;
  // Of a text or bytes; empty for others.
  std::string_view Text(PickleValue value) const;
  // Of a global; empty for others.
  std::string_view ModuleOf(PickleValue value) const;
  std::string_view NameOf(PickleValue value) const;
  static double Real(PickleValue value);

 private:
  class Machine;

  Pickle() = default;

  // Texts lie in it.
  std::string bytes_;
  // A global has two texts: module and name.
  std::vector<std::vector<PickleValue>> objects_;
  PickleValue root_;
};

}  // namespace msitd::formats
