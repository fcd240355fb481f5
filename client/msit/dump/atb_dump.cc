// SPDX-License-Identifier: Apache-2.0
#include "client/msit/dump/atb_dump.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include "absl/strings/ascii.h"
#include "client/msit/dump/elf_symbols.h"
#include "client/msit/table/output_file.h"
#include "protos/base/digits.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr char kToolkitVariable[] = "ASCEND_TOOLKIT_HOME";
constexpr char kToolkitDefault[] = "/usr/local/Ascend/ascend-toolkit/latest";
constexpr char kAtbVariable[] = "ATB_HOME_PATH";
constexpr char kProbeFolder[] = "tools/ait_backend/dump";

// Returns whether `text` consists of parts separated by `separator`, each of
// which satisfies `is`.
template <typename Is>
bool IsListOf(std::string_view text, char separator, Is is) {
  for (;;) {
    const size_t end = text.find(separator);
    if (!is(text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

bool Has(const std::vector<std::string>& types, std::string_view type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

const char* Flag(bool is_set) { return is_set ? "1" : "0"; }

std::optional<std::string> IfAny(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return text;
}

// Returns the number that the probe assigns to the level, which differs from
// Python's.
std::string ProbeLogLevel(const std::string& word) {
  static const std::map<std::string, std::string> kLevels = {
      {"debug", "0"}, {"info", "1"},  {"warning", "2"},
      {"error", "3"}, {"fatal", "4"}, {"critical", "5"}};
  const auto found = kLevels.find(word);
  return found == kLevels.end() ? "1" : found->second;
}

std::string FromEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::string> ToolkitFolder() {
  const char* const set = std::getenv(kToolkitVariable);
  std::string folder = set == nullptr ? kToolkitDefault : set;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return MakeStatus(absl::StatusCode::kNotFound,
                      "the CANN toolkit is not in \"{}\": install it and set "
                      "{}; to record a PyTorch model without it, use the "
                      "Python package msitd",
                      folder, kToolkitVariable);
  }
  return folder;
}

// Returns whether ATB was built with the C++11 ABI of libstdc++.
absl::StatusOr<bool> AtbHasNewAbi(Logger& log) {
  const std::string home = FromEnvironment(kAtbVariable);
  const std::string library = home + "/lib/libatb.so";
  std::error_code error;
  if (home.empty() || !std::filesystem::exists(library, error)) {
    return MakeStatus(absl::StatusCode::kNotFound,
                      "ATB is not in \"{}\": set {} to the folder that has "
                      "lib/libatb.so",
                      home, kAtbVariable);
  }
  const auto has = HasDynamicSymbol(library, {"Probe", "cxx11"});
  if (has.ok()) return *has;
  log.Warning(fmt::format("{}; assuming that it is built with the old ABI",
                          Message(has.status())));
  return false;
}

absl::StatusOr<std::string> FindProbe(Logger& log) {
  MSITD_ASSIGN_OR_RETURN(const std::string toolkit, ToolkitFolder());
  MSITD_ASSIGN_OR_RETURN(const bool has_new_abi, AtbHasNewAbi(log));
  log.Info(fmt::format("Info detected from ATB so is_use_cxx11: {}",
                       has_new_abi ? "True" : "False"));
  std::string probe = fmt::format("{}/{}/libatb_probe_abi{}.so", toolkit,
                                  kProbeFolder, has_new_abi ? 1 : 0);
  struct stat status = {};
  if (stat(probe.c_str(), &status) != 0) return ErrnoStatus(errno, probe);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return MakeStatus(
        absl::StatusCode::kPermissionDenied,
        "{} is not loaded: it is writable for users other than its owner",
        probe);
  }
  // These two characters separate names in LD_PRELOAD.
  if (probe.find_first_of(": ") != std::string::npos) {
    return MakeStatus(
        absl::StatusCode::kInvalidArgument,
        "{} cannot be preloaded: its name contains a space or colon", probe);
  }
  return probe;
}

absl::Status CheckConfig(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return MakeStatus(absl::StatusCode::kNotFound, "{}: no such file", path);
  }
  if (access(path.c_str(), R_OK) != 0) return ErrnoStatus(errno, path);
  return absl::OkStatus();
}

}  // namespace

std::string CheckIds(const std::string& text) {
  const bool is_right =
      text.empty() || IsListOf(text, ',', [](std::string_view id) {
        return IsListOf(id, '_', IsDigits);
      });
  return is_right ? "" : text + " is not a list of ids such as 2,3_1";
}

std::string CheckRange(const std::string& text) {
  return text.empty() || IsListOf(text, ',', IsDigits)
             ? ""
             : text + " is not a list of numbers such as 0,10";
}

std::string CheckNumber(const std::string& text) {
  constexpr size_t kDigitsMax = 9;
  return IsDigits(text) && text.size() <= kDigitsMax
             ? ""
             : text + " is not a number of at least 0";
}

void AddDeterminism(const std::string& seed, ask::Environment& environment) {
  environment["LCCL_DETERMINISTIC"] = "1";
  environment["HCCL_DETERMINISTIC"] = "true";
  environment["ATB_MATMUL_SHUFFLE_K_ENABLE"] = "0";
  environment["ATB_LLM_LCOC_ENABLE"] = "0";
  environment["PYTHONHASHSEED"] = seed;
}

ask::Environment AtbEnvironment(const AtbDumpOptions& options) {
  std::vector<std::string> types = options.types;
  const bool makes_onnx = Has(types, "onnx");
  if (makes_onnx) types.insert(types.end(), {"model", "op"});
  const std::string output = AbsolutePath(options.output);
  const std::string pid = fmt::format("{}", getpid());
  const bool splits_time = options.time == 3;

  ask::Environment out;
  if (!options.config.empty()) {
    out["ATB_DUMP_CONFIG"] = AbsolutePath(options.config);
  }
  out["ATB_SAVE_TENSOR"] = options.saves_descriptions_only ? "2" : "1";
  out["ATB_SAVE_TENSOR_IN_BEFORE_OUT_AFTER"] = Flag(splits_time);
  out["ATB_SAVE_TENSOR_TIME"] =
      splits_time ? "1" : fmt::format("{}", options.time);
  out["ATB_SAVE_TENSOR_IDS"] = IfAny(options.ids);
  out["ATB_SAVE_TENSOR_RUNNER"] = IfAny(absl::AsciiStrToLower(options.ops));
  out["ATB_TIMESTAMP"] = UtcTimeStamp().insert(8, 1, '_');
  out["ATB_OUTPUT_DIR"] = output.ends_with('/') ? output : output + "/";
  out["ATB_DUMP_TYPE"] = fmt::format("{}", fmt::join(types, "|"));
  out["ATB_SAVE_TENSOR_STATISTICS"] =
      Has(types, "stats") && Has(types, "tensor")
          ? std::optional<std::string>("1")
          : std::nullopt;
  out["ATB_DUMP_SUB_PROC_INFO_SAVE_PATH"] =
      makes_onnx ? std::optional<std::string>(output + "/" + pid)
                 : std::nullopt;
  out["ATB_SAVE_CHILD"] = Flag(options.saves_children);
  out["ATB_SAVE_TENSOR_RANGE"] = options.range;
  out["ATB_SAVE_TILING"] = Flag(options.saves_tiling);
  out["ATB_SAVE_TENSOR_PART"] = fmt::format("{}", options.part);
  out["ATB_SAVE_CPU_PROFILING"] = Flag(Has(types, "cpu_profiling"));
  out["ATB_SAVE_SYMLINK"] = Flag(options.links_equal_files);
  out["ATB_CUR_PID"] = pid;
  out["ATB_DEVICE_ID"] = IfAny(options.device);
  out["ATB_AIT_LOG_LEVEL"] = ProbeLogLevel(options.log_level);
  if (!options.seed.empty()) AddDeterminism(options.seed, out);
  return out;
}

absl::StatusOr<int> DumpAtb(const AtbDumpOptions& options, Logger& log) {
  log.Warning("Please ensure that your execution command is secure.");
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> words,
                         SplitCommand(options.command));
  MSITD_RETURN_IF_ERROR(CheckRoom(options.output));
  if (!options.config.empty()) {
    MSITD_RETURN_IF_ERROR(CheckConfig(options.config));
  }
  MSITD_ASSIGN_OR_RETURN(const std::string probe, FindProbe(log));
  ask::Environment environment = AtbEnvironment(options);
  const auto& processes = environment["ATB_DUMP_SUB_PROC_INFO_SAVE_PATH"];
  if (processes.has_value()) {
    std::error_code error;
    std::filesystem::create_directories(*processes, error);
    if (error) return ErrnoStatus(error.value(), "make " + *processes);
    log.Warning(
        "The topology of the model remains JSON and is not converted to ONNX");
  }
  log.Info(fmt::format("Append save_tensor_so_path: {} to LD_PRELOAD", probe));
  Preload(probe, environment);
  MSITD_ASSIGN_OR_RETURN(const int exit_code,
                         ask::RunCommand(words, environment));
  if (processes.has_value()) {
    // The file in which the processes record what they have written. The
    // original reads it.
    std::error_code error;
    std::filesystem::remove_all(*processes, error);
  }
  if (exit_code != 0) {
    log.Error(fmt::format("The command exited with {}", exit_code));
  }
  return exit_code;
}

}  // namespace msitd::msit_command
