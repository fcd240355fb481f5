// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/ge/ge_task.h"

#include <tuple>

#include "client/foreign/trees/tree_folder.h"

namespace msitd::trees {
namespace {

// Returns the name of an op as CANN writes it in the name of a file.
std::string InFileName(std::string op) {
  for (char& c : op) {
    if (c == ' ' || c == '.' || c == '/' || c == '\\') c = '_';
  }
  return op;
}

}  // namespace

std::string GeOpOf(const std::string& in_container,
                   const std::string& in_name) {
  constexpr std::string_view kDebug = "Debug";
  if (in_container.empty()) return in_name;
  const std::string spelled = InFileName(in_container);
  const bool is_debug = in_name.size() == spelled.size() + kDebug.size() &&
                        in_name.ends_with(kDebug) &&
                        InFileName(in_name).starts_with(spelled);
  return is_debug ? in_container + std::string(kDebug) : in_container;
}

std::string GeOpInRun(const GePlace& place, const std::string& op,
                      bool has_graphs) {
  if (!has_graphs) return op;
  return JoinPath(JoinPath(place.model, place.model_id), op);
}

std::strong_ordering CompareGeTasks(const GeFileName& a, size_t a_folder,
                                    const GeFileName& b, size_t b_folder) {
  return std::tie(a.time, a_folder, a.op_name, a.op_type, a.task, a.stream,
                  a.slice) <=> std::tie(b.time, b_folder, b.op_name, b.op_type,
                                        b.task, b.stream, b.slice);
}

int32_t GeCalls::Next(const std::string& device, const std::string& op,
                      const GeFileName& name, size_t folder) {
  Last& last = calls_[{device, op}];
  const bool is_same_call = last.call >= 0 && name.form == GeForm::kArray &&
                            last.form == GeForm::kArray &&
                            name.time == last.time && name.task == last.task &&
                            name.slice == last.slice && folder == last.folder;
  const int32_t call = is_same_call ? last.call : last.call + 1;
  last = {call, name.form, name.time, name.task, name.slice, folder};
  return call;
}

bool GeCalls::IsLate(const std::string& device, const std::string& op,
                     const GeFileName& name) const {
  const auto last = calls_.find({device, op});
  return last != calls_.end() && name.time < last->second.time;
}

}  // namespace msitd::trees
