// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/target_names.h"

#include <utility>

namespace msitd::compare {
namespace {

// A device is neither empty nor contains NUL, so that the names differ from
// those without a device.
std::string OnDevice(std::string name, std::string_view device) {
  name += '\0';
  name += device;
  return name;
}

std::string OnAnyDevice(std::string name) { return OnDevice(name, ""); }

}  // namespace

std::string PairName(std::string_view op, const TensorKey& key) {
  return PairName(op, key, key.call);
}

std::string PairName(std::string_view op, const TensorKey& key, int32_t call) {
  std::string out;
  out.reserve(op.size() + key.index.size() + 32);
  out += op;
  out += '\0';
  out += std::to_string(call);
  out += '\0';
  out += IoName(key.io);
  out += '\0';
  out += key.index;
  return out;
}

void TargetNames::Add(std::string name, const LogicalTensor& target,
                      size_t index) {
  if (with_device_ && target.assembly == nullptr) {
    queues_[OnAnyDevice(name)].targets.push_back(index);
    name = OnDevice(std::move(name), target.key.device);
  }
  queues_[std::move(name)].targets.push_back(index);
}

std::optional<size_t> TargetNames::Take(std::string name,
                                        const LogicalTensor& golden,
                                        const Partners& partners) {
  if (!with_device_) return TakeFrom(name, partners);
  const std::string preferred =
      golden.assembly == nullptr ? OnDevice(name, golden.key.device) : name;
  if (const auto found = TakeFrom(preferred, partners)) return found;
  return TakeFrom(golden.assembly == nullptr ? name : OnAnyDevice(name),
                  partners);
}

std::optional<size_t> TargetNames::TakeFrom(const std::string& name,
                                            const Partners& partners) {
  const auto found = queues_.find(name);
  if (found == queues_.end()) return std::nullopt;
  Queue& queue = found->second;
  while (queue.next < queue.targets.size() &&
         !partners.IsTargetFree(queue.targets[queue.next])) {
    ++queue.next;
  }
  if (queue.next == queue.targets.size()) return std::nullopt;
  return queue.targets[queue.next++];
}

}  // namespace msitd::compare
