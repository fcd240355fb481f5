// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Python's pickles, read as data. Nothing that they name is ever called.
namespace msitd::formats {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInteger,
  kReal,
  kText,
  kBytes,
  kHugeInteger,  // Its value is not kept.
  kGlobal,       // A function or a class. See ModuleOf and NameOf.
  kTuple,
  kList,
  kDict,  // Items: key, value, key, value, ...
  kSet,
  kCall,        // Items: the global, then its arguments.
  kPersistent,  // One item: a reference to data that the file keeps elsewhere.
};

// A value of a pickle. The pickle owns its contents.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  // The length of a text or of bytes.
  uint32_t length = 0;
  // A bool or an integer, the bits of a real, the offset of a text, or the
  // number of an object.
  int64_t bits = 0;
};

// How a pickle may use a global.
enum class PickleUse : uint8_t {
  kRefused,
  kCalled,  // Represented as a call with its arguments.
  kDict,    // Represented as a dict.
  kObject,  // Represented as a call that also keeps the contents of its result.
};

// Returns how the global `name` of `module` may be used.
using PickleGlobals = PickleUse (*)(std::string_view module,
                                    std::string_view name);

// One pickle, protocol 2 to 5. Supports only the operations for containers,
// texts, numbers and calls. Thread-compatible.
class Pickle {
 public:
  // Errors: UNIMPLEMENTED with its name for a global that is rejected, and for
  // an unknown operation; INVALID_ARGUMENT if the bytes are not a pickle;
  // RESOURCE_EXHAUSTED beyond a limit of format_limits.h.
  static absl::StatusOr<Pickle> Read(std::string bytes, PickleGlobals globals);

  PickleValue root() const { return root_; }

  // The items of a container, a call or a persistent value; none for other
  // values.
  std::span<const PickleValue> Items(PickleValue value) const;
  // The contents that a pickle adds to the result of a call of kObject: the
  // items of a dict, those of a list, and its state, which is kNone if there is
  // none.
  struct Contents {
    std::vector<PickleValue> pairs;  // Key, value, key, value, ...
    std::vector<PickleValue> items;
    PickleValue state;
  };
  // Null for other values, and for results without contents.
  const Contents* ContentsOf(PickleValue value) const;
  // The content of a text or of bytes; empty for other values.
  std::string_view Text(PickleValue value) const;
  // The names of a global; empty for other values.
  std::string_view ModuleOf(PickleValue value) const;
  std::string_view NameOf(PickleValue value) const;
  static double Real(PickleValue value);

 private:
  class Machine;

  Pickle() = default;

  // Contains the texts.
  std::string bytes_;
  // A global has two texts: module and name.
  std::vector<std::vector<PickleValue>> objects_;
  // By the number of the object.
  std::unordered_map<int64_t, Contents> contents_;
  PickleValue root_;
};

}  // namespace msitd::formats
