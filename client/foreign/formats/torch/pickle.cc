// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/torch/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "client/foreign/formats/format_limits.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

constexpr uint8_t kProtocolMax = 5;

absl::Status BadPickle(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "pickle: {}", what);
}

absl::Status TooLarge(std::string_view what, uint64_t most) {
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "pickle: it has more than {} {}", most, what);
}

bool HasItems(PickleKind kind) { return kind >= PickleKind::kTuple; }

}  // namespace

// Runs the operations of a pickle over a stack.
class Pickle::Machine {
 public:
  Machine(Pickle& pickle, PickleGlobals globals)
      : pickle_(pickle), globals_(globals) {}

  absl::Status Run() {
    for (uint64_t ops = 0; !is_done_; ++ops) {
      if (ops == kPickleOpsMax) return TooLarge("operations", kPickleOpsMax);
      uint8_t op = 0;
      MSITD_RETURN_IF_ERROR(TakeNumber(op));
      MSITD_RETURN_IF_ERROR(Step(op));
    }
    return absl::OkStatus();
  }

 private:
  using Values = std::vector<PickleValue>;

  // Each group of operations is tried in turn. A group that does not have `op`
  // returns nothing.
  absl::Status Step(uint8_t op) {
    std::optional<absl::Status> done = StepScalar(op);
    if (!done.has_value()) done = StepText(op);
    if (!done.has_value()) done = StepContainer(op);
    return done.has_value() ? *done : StepOther(op);
  }

  std::optional<absl::Status> StepScalar(uint8_t op) {
    switch (op) {
      case 'N':
        return Push({.kind = PickleKind::kNone});
      case 0x88:
        return Push({.kind = PickleKind::kBool, .bits = 1});
      case 0x89:
        return Push({.kind = PickleKind::kBool, .bits = 0});
      case 'J':
        return PushInteger<int32_t>();
      case 'K':
        return PushInteger<uint8_t>();
      case 'M':
        return PushInteger<uint16_t>();
      case 0x8a:
        return PushLong<uint8_t>();
      case 0x8b:
        return PushLong<uint32_t>();
      case 'G': {
        uint64_t bits = 0;
        MSITD_RETURN_IF_ERROR(TakeNumber(bits));
        // The only big-endian number of a pickle.
        bits = __builtin_bswap64(bits);
        return Push(
            {.kind = PickleKind::kReal, .bits = static_cast<int64_t>(bits)});
      }
      default:
        return std::nullopt;
    }
  }

  std::optional<absl::Status> StepText(uint8_t op) {
    switch (op) {
      case 0x8c:
        return PushText<uint8_t>(PickleKind::kText);
      case 'X':
        return PushText<uint32_t>(PickleKind::kText);
      case 0x8d:
        return PushText<uint64_t>(PickleKind::kText);
      // Texts of Python 2.
      case 'U':
        return PushText<uint8_t>(PickleKind::kText);
      case 'T':
        return PushText<uint32_t>(PickleKind::kText);
      case 'C':
        return PushText<uint8_t>(PickleKind::kBytes);
      case 'B':
        return PushText<uint32_t>(PickleKind::kBytes);
      case 0x8e:
      case 0x96:
        return PushText<uint64_t>(PickleKind::kBytes);
      default:
        return std::nullopt;
    }
  }

  std::optional<absl::Status> StepContainer(uint8_t op) {
    switch (op) {
      case ']':
        return PushObject(PickleKind::kList, {});
      case ')':
        return PushObject(PickleKind::kTuple, {});
      case '}':
        return PushObject(PickleKind::kDict, {});
      case 0x8f:
        return PushObject(PickleKind::kSet, {});
      case 't':
        return PushMarked(PickleKind::kTuple);
      case 0x91:
        return PushMarked(PickleKind::kSet);
      case 0x85:
      case 0x86:
      case 0x87:
        return PushLast(PickleKind::kTuple, op - 0x84u);
      case 'a':
        return AppendLast(PickleKind::kList, 1);
      case 's':
        return AppendLast(PickleKind::kDict, 2);
      case 'e':
        return AppendMarked(PickleKind::kList);
      case 'u':
        return AppendMarked(PickleKind::kDict);
      case 0x90:
        return AppendMarked(PickleKind::kSet);
      default:
        return std::nullopt;
    }
  }

  absl::Status StepOther(uint8_t op) {
    switch (op) {
      case 0x80:
        return TakeProtocol();
      case 0x95:
        return Skip(sizeof(uint64_t));
      case '.':
        return Finish();
      case '(':
        marks_.push_back(stack_.size());
        return absl::OkStatus();
      case '0':
        return Drop();
      case '1':
        return DropMarked();
      case 'c':
        return PushGlobalLines();
      case 0x93:
        return PushGlobalTexts();
      case 'R':
      case 0x81:
        return PushCall();
      case 'b':
        return SetState();
      case 'Q':
        return PushLast(PickleKind::kPersistent, 1);
      case 'h':
        return PushRemembered<uint8_t>();
      case 'j':
        return PushRemembered<uint32_t>();
      case 'q':
        return Remember<uint8_t>();
      case 'r':
        return Remember<uint32_t>();
      case 0x94:
        return RememberAs(memo_.size());
      default:
        return MakeStatus(absl::StatusCode::kUnimplemented,
                          "pickle: tensors need no operation {:#04x}", op);
    }
  }

  template <typename Number>
  absl::Status TakeNumber(Number& number) {
    if (pickle_.bytes_.size() - at_ < sizeof(number)) {
      return absl::DataLossError("pickle: it is truncated");
    }
    std::memcpy(&number, pickle_.bytes_.data() + at_, sizeof(number));
    at_ += sizeof(number);
    return absl::OkStatus();
  }

  absl::Status Skip(uint64_t bytes) {
    if (pickle_.bytes_.size() - at_ < bytes) {
      return absl::DataLossError("pickle: it is truncated");
    }
    at_ += bytes;
    return absl::OkStatus();
  }

  absl::Status TakeProtocol() {
    uint8_t protocol = 0;
    MSITD_RETURN_IF_ERROR(TakeNumber(protocol));
    if (protocol > kProtocolMax) return BadPickle("the protocol is unknown");
    return absl::OkStatus();
  }

  // Returns the number of values above the last mark.
  size_t Free() const {
    return stack_.size() - (marks_.empty() ? 0 : marks_.back());
  }

  absl::Status Push(PickleValue value) {
    if (stack_.size() == kPickleItemsMax) {
      return TooLarge("items", kPickleItemsMax);
    }
    stack_.push_back(value);
    return absl::OkStatus();
  }

  absl::Status Drop() {
    if (Free() == 0) return BadPickle("a value is missing");
    stack_.pop_back();
    return absl::OkStatus();
  }

  // A short pickle could copy the values that it refers to again and again.
  absl::Status CountItems(uint64_t count) {
    item_count_ += count;
    if (item_count_ > kPickleItemsMax)
      return TooLarge("items", kPickleItemsMax);
    return absl::OkStatus();
  }

  absl::Status PushObject(PickleKind kind, Values items) {
    auto& objects = pickle_.objects_;
    if (objects.size() == kPickleObjectsMax) {
      return TooLarge("objects", kPickleObjectsMax);
    }
    MSITD_RETURN_IF_ERROR(CountItems(items.size()));
    objects.push_back(std::move(items));
    return Push(
        {.kind = kind, .bits = static_cast<int64_t>(objects.size() - 1)});
  }

  template <typename Number>
  absl::Status PushInteger() {
    Number number = 0;
    MSITD_RETURN_IF_ERROR(TakeNumber(number));
    return Push({.kind = PickleKind::kInteger, .bits = number});
  }

  template <typename Length>
  absl::Status PushLong() {
    Length length = 0;
    MSITD_RETURN_IF_ERROR(TakeNumber(length));
    const size_t begin = at_;
    MSITD_RETURN_IF_ERROR(Skip(length));
    if (length > sizeof(int64_t))
      return Push({.kind = PickleKind::kHugeInteger});
    int64_t number = 0;
    const bool is_negative =
        length > 0 && (pickle_.bytes_[begin + length - 1] & 0x80) != 0;
    if (is_negative) number = -1;
    std::memcpy(&number, pickle_.bytes_.data() + begin, length);
    return Push({.kind = PickleKind::kInteger, .bits = number});
  }

  template <typename Length>
  absl::Status PushText(PickleKind kind) {
    Length length = 0;
    MSITD_RETURN_IF_ERROR(TakeNumber(length));
    const size_t begin = at_;
    MSITD_RETURN_IF_ERROR(Skip(length));
    return Push({.kind = kind,
                 .length = static_cast<uint32_t>(length),
                 .bits = static_cast<int64_t>(begin)});
  }

  // Removes and returns the last `count` values of the stack.
  absl::StatusOr<Values> TakeLast(size_t count) {
    if (Free() < count) return BadPickle("a value is missing");
    const auto begin = stack_.end() - static_cast<ptrdiff_t>(count);
    Values values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return values;
  }

  absl::StatusOr<Values> TakeMarked() {
    if (marks_.empty()) return BadPickle("a mark is missing");
    MSITD_ASSIGN_OR_RETURN(Values values, TakeLast(Free()));
    marks_.pop_back();
    return values;
  }

  absl::Status DropMarked() { return TakeMarked().status(); }

  absl::Status PushLast(PickleKind kind, size_t count) {
    MSITD_ASSIGN_OR_RETURN(Values values, TakeLast(count));
    return PushObject(kind, std::move(values));
  }

  absl::Status PushMarked(PickleKind kind) {
    MSITD_ASSIGN_OR_RETURN(Values values, TakeMarked());
    return PushObject(kind, std::move(values));
  }

  // Adds values to the container at the top of the stack.
  absl::Status Append(PickleKind kind, const Values& values) {
    const bool is_object = Free() > 0 && IsObject(stack_.back());
    if (Free() == 0 || (!is_object && stack_.back().kind != kind)) {
      return BadPickle("a container is missing");
    }
    if (kind == PickleKind::kDict && values.size() % 2 != 0) {
      return BadPickle("a value of a dict is missing");
    }
    MSITD_RETURN_IF_ERROR(CountItems(values.size()));
    const int64_t number = stack_.back().bits;
    if (!is_object) {
      Values& items = pickle_.objects_[static_cast<size_t>(number)];
      items.insert(items.end(), values.begin(), values.end());
      return absl::OkStatus();
    }
    Contents& contents = pickle_.contents_[number];
    Values& items = kind == PickleKind::kDict ? contents.pairs : contents.items;
    items.insert(items.end(), values.begin(), values.end());
    return absl::OkStatus();
  }

  // Returns true for the result of a call of PickleUse::kObject.
  bool IsObject(PickleValue value) const {
    if (value.kind != PickleKind::kCall) return false;
    const PickleValue global = pickle_.Items(value)[0];
    return globals_(pickle_.ModuleOf(global), pickle_.NameOf(global)) ==
           PickleUse::kObject;
  }

  // Sets the attributes of an object. Tensors do not need theirs.
  absl::Status SetState() {
    MSITD_ASSIGN_OR_RETURN(const Values state, TakeLast(1));
    if (Free() > 0 && IsObject(stack_.back())) {
      MSITD_RETURN_IF_ERROR(CountItems(1));
      pickle_.contents_[stack_.back().bits].state = state[0];
    }
    return absl::OkStatus();
  }

  absl::Status AppendLast(PickleKind kind, size_t count) {
    MSITD_ASSIGN_OR_RETURN(const Values values, TakeLast(count));
    return Append(kind, values);
  }

  absl::Status AppendMarked(PickleKind kind) {
    MSITD_ASSIGN_OR_RETURN(const Values values, TakeMarked());
    return Append(kind, values);
  }

  absl::Status PushGlobal(PickleValue module, PickleValue name) {
    const std::string_view module_text = pickle_.Text(module);
    const std::string_view name_text = pickle_.Text(name);
    if (globals_(module_text, name_text) == PickleUse::kRefused) {
      return MakeStatus(absl::StatusCode::kUnimplemented,
                        "pickle: it names {}.{}, which is not supported",
                        module_text.substr(0, kShownNameBytesMax),
                        name_text.substr(0, kShownNameBytesMax));
    }
    return PushObject(PickleKind::kGlobal, {module, name});
  }

  absl::StatusOr<PickleValue> TakeLine() {
    const size_t begin = at_;
    const size_t end = pickle_.bytes_.find('\n', at_);
    if (end == std::string::npos) return BadPickle("a line has no end");
    at_ = end + 1;
    return PickleValue{.kind = PickleKind::kText,
                       .length = static_cast<uint32_t>(end - begin),
                       .bits = static_cast<int64_t>(begin)};
  }

  absl::Status PushGlobalLines() {
    MSITD_ASSIGN_OR_RETURN(const PickleValue module, TakeLine());
    MSITD_ASSIGN_OR_RETURN(const PickleValue name, TakeLine());
    return PushGlobal(module, name);
  }

  absl::Status PushGlobalTexts() {
    MSITD_ASSIGN_OR_RETURN(const Values texts, TakeLast(2));
    if (texts[0].kind != PickleKind::kText ||
        texts[1].kind != PickleKind::kText) {
      return BadPickle("a global has no name");
    }
    return PushGlobal(texts[0], texts[1]);
  }

  // The items of a dict in a list of pairs, as Python 2 wrote an OrderedDict.
  absl::StatusOr<Values> PairsOf(std::span<const PickleValue> arguments) const {
    Values pairs;
    if (arguments.empty()) return pairs;
    for (const PickleValue pair : pickle_.Items(arguments[0])) {
      const auto items = pickle_.Items(pair);
      if (items.size() != 2) return BadPickle("a dict has no pairs");
      pairs.insert(pairs.end(), items.begin(), items.end());
    }
    return pairs;
  }

  absl::Status PushCall() {
    MSITD_ASSIGN_OR_RETURN(const Values values, TakeLast(2));
    if (values[0].kind != PickleKind::kGlobal ||
        values[1].kind != PickleKind::kTuple) {
      return BadPickle("it calls a value that is not a global");
    }
    const auto arguments = pickle_.Items(values[1]);
    const PickleUse use =
        globals_(pickle_.ModuleOf(values[0]), pickle_.NameOf(values[0]));
    if (use == PickleUse::kDict) {
      MSITD_ASSIGN_OR_RETURN(Values pairs, PairsOf(arguments));
      return PushObject(PickleKind::kDict, std::move(pairs));
    }
    Values items = {values[0]};
    items.insert(items.end(), arguments.begin(), arguments.end());
    return PushObject(PickleKind::kCall, std::move(items));
  }

  template <typename Index>
  absl::Status PushRemembered() {
    Index index = 0;
    MSITD_RETURN_IF_ERROR(TakeNumber(index));
    if (index >= memo_.size())
      return BadPickle("it refers to a value that does not exist");
    return Push(memo_[index]);
  }

  template <typename Index>
  absl::Status Remember() {
    Index index = 0;
    MSITD_RETURN_IF_ERROR(TakeNumber(index));
    return RememberAs(index);
  }

  absl::Status RememberAs(uint64_t index) {
    if (Free() == 0) return BadPickle("a value is missing");
    if (index >= kPickleMemoMax) return TooLarge("references", kPickleMemoMax);
    if (index >= memo_.size()) memo_.resize(index + 1);
    memo_[index] = stack_.back();
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (stack_.size() != 1 || !marks_.empty()) {
      return BadPickle("it does not end with one value");
    }
    pickle_.root_ = stack_.back();
    is_done_ = true;
    return absl::OkStatus();
  }

  Pickle& pickle_;
  const PickleGlobals globals_;
  size_t at_ = 0;
  uint64_t item_count_ = 0;
  bool is_done_ = false;
  Values stack_;
  std::vector<size_t> marks_;
  Values memo_;
};

absl::StatusOr<Pickle> Pickle::Read(std::string bytes, PickleGlobals globals) {
  if (bytes.size() > kHeadBytesMax) return TooLarge("bytes", kHeadBytesMax);
  Pickle pickle;
  pickle.bytes_ = std::move(bytes);
  Machine machine(pickle, globals);
  MSITD_RETURN_IF_ERROR(machine.Run());
  return pickle;
}

std::span<const PickleValue> Pickle::Items(PickleValue value) const {
  if (!HasItems(value.kind)) return {};
  return objects_[static_cast<size_t>(value.bits)];
}

const Pickle::Contents* Pickle::ContentsOf(PickleValue value) const {
  if (value.kind != PickleKind::kCall) return nullptr;
  const auto found = contents_.find(value.bits);
  return found == contents_.end() ? nullptr : &found->second;
}

std::string_view Pickle::Text(PickleValue value) const {
  const bool is_text =
      value.kind == PickleKind::kText || value.kind == PickleKind::kBytes;
  if (!is_text) return {};
  return std::string_view(bytes_).substr(static_cast<size_t>(value.bits),
                                         value.length);
}

std::string_view Pickle::ModuleOf(PickleValue value) const {
  if (value.kind != PickleKind::kGlobal) return {};
  return Text(objects_[static_cast<size_t>(value.bits)][0]);
}

std::string_view Pickle::NameOf(PickleValue value) const {
  if (value.kind != PickleKind::kGlobal) return {};
  return Text(objects_[static_cast<size_t>(value.bits)][1]);
}

double Pickle::Real(PickleValue value) {
  return value.kind == PickleKind::kReal ? std::bit_cast<double>(value.bits)
                                         : 0;
}

}  // namespace msitd::formats
