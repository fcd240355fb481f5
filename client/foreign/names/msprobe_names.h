// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protos/base/tensor_key.h"

// The names that msprobe gives to the values that it records, and the
// corresponding keys of msitd. Conversion works in both directions, without
// loss.
//
//   entry                         part           (op, io)
//   Functional.linear.1.forward   input, kwargs  (Functional.linear, input)
//                                 output         (..., output)
//   Module.fc.Linear.forward.1    parameters     (Module.fc.Linear, weight)
//   Functional.linear.1.backward  input          (..., grad_output)
//                                 output         (..., grad_input)
//   Module.fc.Linear.parameters_grad.1           (..., grad_weight)
//   loss.1.debug                                 (loss, state)
//
// The call is 1 in all of them. The hooks of msprobe call gradients of outputs
// the input of backward.
namespace msitd::names {

// The part of an entry to which a value belongs, as in the names of files.
enum class MsprobePart : uint8_t {
  kInput,       // A positional argument; in backward, a gradient of an output.
  kKwargs,      // A keyword argument.
  kOutput,      // In backward, a gradient of an input.
  kParameters,  // The parameters of a module.
  kWhole,       // For entries without parts: parameters_grad and debug.
};

// Returns "input", "kwargs", "output", "parameters" or "".
std::string_view MsprobePartName(MsprobePart part);

// The kind of an entry.
enum class MsprobeEntry : uint8_t { kForward, kBackward, kGradients, kDebug };

// Returns nothing if no release of msprobe writes the name.
std::optional<MsprobeEntry> MsprobeEntryOf(std::string_view name);

// The documents of a rank and step, and the folder of its tensors.
inline constexpr std::string_view kMsprobeDump = "dump.json";
inline constexpr std::string_view kMsprobeDebug = "debug.json";
inline constexpr std::string_view kMsprobeStack = "stack.json";
inline constexpr std::string_view kMsprobeConstruct = "construct.json";
inline constexpr std::string_view kMsprobeTensors = "dump_tensor_data";

// A key of dump.json before its `data`. msitd writes it, with the value of
// order_label.h, for a run whose order of execution is not known. Otherwise,
// entries are in that order.
inline constexpr std::string_view kMsprobeOrder = "order";

struct MsprobeName {
  std::string entry;
  MsprobePart part = MsprobePart::kInput;
  // Positions and names, joined by dots: `0`, `1.3`, `mask`. Empty for a value
  // that is the whole part.
  std::string keys;

  friend bool operator==(const MsprobeName&, const MsprobeName&) = default;
};

struct MsprobeKey {
  std::string op;
  int32_t call = 0;
  Io io = Io::kUnspecified;
  std::string index;

  friend bool operator==(const MsprobeKey&, const MsprobeKey&) = default;
};

// Returns the key in msitd; nothing if no release of msprobe writes the name.
// Accepts the names of all releases.
std::optional<MsprobeKey> KeyOfMsprobe(const MsprobeName& name);

// The inverse of KeyOfMsprobe for names of the current release. Returns nothing
// if none of them has this key.
std::optional<MsprobeName> MsprobeNameOf(const MsprobeKey& key);

// Returns the key in msitd of a leaf: its name is that of its file without the
// suffix, or one by which msprobe compares values without a file, in which
// keyword arguments are inputs. Returns nothing if no release of msprobe writes
// the name.
std::optional<MsprobeKey> KeyOfMsprobeLeaf(std::string_view leaf);

// Returns the name of the file of a tensor, without its suffix.
std::string MsprobeFileName(const MsprobeName& name);

}  // namespace msitd::names
