// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/names/msprobe_names.h"

#include <algorithm>
#include <charconv>

#include "protos/base/digits.h"
#include "protos/base/limits.h"

namespace msitd::names {
namespace {

constexpr std::string_view kForward = "forward";
constexpr std::string_view kBackward = "backward";
constexpr std::string_view kGradients = "parameters_grad";
constexpr std::string_view kDebug = "debug";
// Modules of MindSpore are called cells.
constexpr std::string_view kModulePrefixes[] = {"Module.", "Cell."};

using EntryKind = MsprobeEntry;

struct Entry {
  std::string_view op;
  int32_t call = 0;
  EntryKind kind = EntryKind::kForward;
};

bool IsModule(std::string_view op) {
  return std::any_of(
      std::begin(kModulePrefixes), std::end(kModulePrefixes),
      [op](std::string_view prefix) { return op.starts_with(prefix); });
}

// Removes and returns the last component of `rest`; empty if it has only one.
std::string_view CutLast(std::string_view& rest) {
  const size_t dot = rest.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view last = rest.substr(dot + 1);
  rest = rest.substr(0, dot);
  return last;
}

std::optional<int32_t> CountOf(std::string_view text) {
  int32_t count = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_whole =
      error == std::errc() && end == text.data() + text.size();
  // Without a sign and leading zeros, so that it can be written again.
  const bool is_plain =
      !text.empty() && text[0] != '-' && (text.size() == 1 || text[0] != '0');
  if (!is_whole || !is_plain || count > kCallMax) return std::nullopt;
  return count;
}

std::optional<EntryKind> KindOf(std::string_view word) {
  if (word == kForward) return EntryKind::kForward;
  if (word == kBackward) return EntryKind::kBackward;
  if (word == kGradients) return EntryKind::kGradients;
  return std::nullopt;
}

// Parses `op.kind.count` of a module.
std::optional<Entry> ParseModule(std::string_view name) {
  Entry entry;
  std::string_view rest = name;
  std::string_view last = CutLast(rest);
  if (last == kGradients) {
    entry.kind = EntryKind::kGradients;
  } else {
    const auto count = CountOf(last);
    const auto kind = KindOf(CutLast(rest));
    if (!count || !kind) return std::nullopt;
    entry.call = *count;
    entry.kind = *kind;
  }
  // `Module.` by itself names no module.
  if (!IsModule(rest)) return std::nullopt;
  entry.op = rest;
  return entry;
}

// Parses `op.count.kind` of any other op.
std::optional<Entry> ParseApi(std::string_view name) {
  Entry entry;
  std::string_view rest = name;
  const std::string_view last = CutLast(rest);
  if (last == kDebug) {
    entry.kind = EntryKind::kDebug;
  } else {
    const auto kind = KindOf(last);
    if (!kind || *kind == EntryKind::kGradients) return std::nullopt;
    entry.kind = *kind;
  }
  const auto count = CountOf(CutLast(rest));
  if (!count || rest.empty()) return std::nullopt;
  if (entry.kind != EntryKind::kDebug && IsModule(rest)) return std::nullopt;
  entry.call = *count;
  entry.op = rest;
  return entry;
}

std::optional<Entry> ParseEntry(std::string_view name) {
  auto entry = ParseApi(name);
  return entry ? entry : ParseModule(name);
}

std::optional<Io> IoOf(EntryKind kind, MsprobePart part) {
  const bool is_whole = part == MsprobePart::kWhole;
  switch (kind) {
    case EntryKind::kForward:
      if (part == MsprobePart::kOutput) return Io::kOutput;
      if (part == MsprobePart::kParameters) return Io::kWeight;
      if (!is_whole) return Io::kInput;
      break;
    case EntryKind::kBackward:
      if (part == MsprobePart::kInput) return Io::kGradOutput;
      if (part == MsprobePart::kOutput) return Io::kGradInput;
      break;
    case EntryKind::kGradients:
      if (is_whole) return Io::kGradWeight;
      break;
    case EntryKind::kDebug:
      if (is_whole) return Io::kState;
      break;
  }
  return std::nullopt;
}

// Returns true for the keys of a positional argument. No keyword begins with a
// digit.
bool IsPosition(std::string_view keys) {
  const std::string_view first = keys.substr(0, keys.find('.'));
  return first.empty() || IsDigits(first);
}

struct EntryPart {
  EntryKind kind;
  MsprobePart part;
};

std::optional<EntryPart> PartOf(Io io, std::string_view index) {
  switch (io) {
    case Io::kInput:
      return EntryPart{EntryKind::kForward, IsPosition(index)
                                                ? MsprobePart::kInput
                                                : MsprobePart::kKwargs};
    case Io::kOutput:
      return EntryPart{EntryKind::kForward, MsprobePart::kOutput};
    case Io::kWeight:
      return EntryPart{EntryKind::kForward, MsprobePart::kParameters};
    case Io::kGradOutput:
      return EntryPart{EntryKind::kBackward, MsprobePart::kInput};
    case Io::kGradInput:
      return EntryPart{EntryKind::kBackward, MsprobePart::kOutput};
    case Io::kGradWeight:
      return EntryPart{EntryKind::kGradients, MsprobePart::kWhole};
    case Io::kState:
      return EntryPart{EntryKind::kDebug, MsprobePart::kWhole};
    case Io::kUnspecified:
      break;
  }
  return std::nullopt;
}

std::string Join(std::string_view first, std::string_view second) {
  std::string out(first);
  if (!second.empty()) out.append(".").append(second);
  return out;
}

std::string LeafName(const MsprobeName& name, std::string_view part) {
  return Join(Join(name.entry, part), name.keys);
}

}  // namespace

std::optional<MsprobeEntry> MsprobeEntryOf(std::string_view name) {
  const auto entry = ParseEntry(name);
  if (!entry) return std::nullopt;
  return entry->kind;
}

std::string_view MsprobePartName(MsprobePart part) {
  switch (part) {
    case MsprobePart::kInput:
      return "input";
    case MsprobePart::kKwargs:
      return "kwargs";
    case MsprobePart::kOutput:
      return "output";
    case MsprobePart::kParameters:
      return "parameters";
    case MsprobePart::kWhole:
      break;
  }
  return "";
}

std::optional<MsprobeKey> KeyOfMsprobe(const MsprobeName& name) {
  const auto entry = ParseEntry(name.entry);
  if (!entry) return std::nullopt;
  const auto io = IoOf(entry->kind, name.part);
  if (!io) return std::nullopt;
  // A keyword that has the form of a position could not be distinguished from
  // one.
  if (*io == Io::kInput &&
      IsPosition(name.keys) != (name.part == MsprobePart::kInput)) {
    return std::nullopt;
  }
  return MsprobeKey{std::string(entry->op), entry->call, *io, name.keys};
}

std::optional<MsprobeKey> KeyOfMsprobeLeaf(std::string_view leaf) {
  constexpr MsprobePart kParts[] = {MsprobePart::kInput, MsprobePart::kKwargs,
                                    MsprobePart::kOutput,
                                    MsprobePart::kParameters};
  if (MsprobeEntryOf(leaf) == EntryKind::kDebug) {
    return KeyOfMsprobe({std::string(leaf), MsprobePart::kWhole, ""});
  }
  // Names of modules may also contain such words, so the last entry is used.
  for (size_t end = leaf.rfind('.'); end != std::string_view::npos && end > 0;
       end = leaf.rfind('.', end - 1)) {
    const std::string_view entry = leaf.substr(0, end);
    const auto kind = MsprobeEntryOf(entry);
    if (!kind) continue;
    std::string_view keys = leaf.substr(end + 1);
    if (*kind == EntryKind::kGradients || *kind == EntryKind::kDebug) {
      return KeyOfMsprobe(
          {std::string(entry), MsprobePart::kWhole, std::string(keys)});
    }
    const std::string_view word = keys.substr(0, keys.find('.'));
    keys.remove_prefix(std::min(word.size() + 1, keys.size()));
    for (MsprobePart part : kParts) {
      if (MsprobePartName(part) != word) continue;
      // Without a file, keyword arguments are inputs.
      if (part == MsprobePart::kInput && !IsPosition(keys)) {
        part = MsprobePart::kKwargs;
      }
      return KeyOfMsprobe({std::string(entry), part, std::string(keys)});
    }
  }
  return std::nullopt;
}

std::optional<MsprobeName> MsprobeNameOf(const MsprobeKey& key) {
  const auto part = PartOf(key.io, key.index);
  if (!part || key.op.empty() || key.call < 0) return std::nullopt;
  const std::string count = std::to_string(key.call);
  MsprobeName out{key.op, part->part, key.index};
  if (part->kind == EntryKind::kDebug) {
    out.entry = Join(Join(key.op, count), kDebug);
  } else if (part->kind == EntryKind::kGradients) {
    if (!IsModule(key.op)) return std::nullopt;
    out.entry = Join(Join(key.op, kGradients), count);
  } else {
    const std::string_view word =
        part->kind == EntryKind::kForward ? kForward : kBackward;
    out.entry = IsModule(key.op) ? Join(Join(key.op, word), count)
                                 : Join(Join(key.op, count), word);
  }
  return out;
}

std::string MsprobeFileName(const MsprobeName& name) {
  return LeafName(name, MsprobePartName(name.part));
}

}  // namespace msitd::names
