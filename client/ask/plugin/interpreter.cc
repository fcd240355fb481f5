// SPDX-License-Identifier: Apache-2.0
#include "client/ask/plugin/interpreter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "client/ask/plugin/plugin_script.h"
#include "client/ask/text/text.h"
#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/compute/number/element.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

constexpr std::string_view kMagic = "mpr1";
constexpr uint32_t kNoValue = 0;
constexpr uint32_t kValue = 1;
constexpr uint32_t kRefused = 2;
constexpr uint32_t kUnusable = 3;
constexpr uint32_t kArrays = 4;

constexpr char kBadArray[] = "its answer has an invalid array";
constexpr size_t kDTypeNameBytes = 16;
constexpr size_t kKeptNameBytes = 64;

// The descriptor of the socket in the child.
constexpr int kChildSocket = 3;
// Descriptors of this process are above all descriptors that the child gets.
constexpr int kDescriptorMin = 10;

// Larger buffers mean fewer switches between the two processes.
constexpr int kSocketBufferBytes = 1 << 20;

// The number of elements that are converted at a time.
constexpr size_t kElementsAtOnce = 8192;

// The longest time until an interrupt is noticed while no data arrives.
constexpr std::chrono::milliseconds kInterruptPoll(100);

// The time that a process gets to end after it has closed its socket.
constexpr std::chrono::milliseconds kEndGrace(1000);
constexpr std::chrono::milliseconds kEndPoll(10);

// Numbers are copied as they are, since both ends are on one machine. The
// header promises little-endian.
static_assert(std::endian::native == std::endian::little);

template <typename T>
void Append(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T Take(const char*& at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  at += sizeof(value);
  return value;
}

// Returns the type as which elements are sent: `dtype` if numpy has it.
DType SentAs(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  switch (info.kind) {
    case DTypeKind::kInteger:
      return compute::StoredAs(dtype) == dtype ? dtype : DType::kFloat32;
    case DTypeKind::kFloat:
      return info.numpy.starts_with('f') ? dtype : DType::kFloat32;
    case DTypeKind::kComplex:
      return info.numpy.starts_with('c') ? dtype : DType::kComplex64;
    default:
      return dtype;
  }
}

uint64_t SentBytes(DType dtype, std::string_view bytes) {
  const DType sent = SentAs(dtype);
  return sent == dtype
             ? bytes.size()
             : bytes.size() / ElementBytes(dtype) * ElementBytes(sent);
}

void AppendName(DType dtype, std::string& out) {
  const std::string_view name = DTypeName(dtype);
  MSITD_CHECK(name.size() <= kDTypeNameBytes);
  out.append(name);
  out.append(kDTypeNameBytes - name.size(), '\0');
}

std::string_view TakeName(const char*& at, size_t size) {
  const std::string_view padded(at, size);
  at += size;
  return padded.substr(0, padded.find('\0'));
}

std::string_view KindName(FunctionKind kind) {
  switch (kind) {
    case FunctionKind::kMetric:
      return "metric";
    case FunctionKind::kMsitMetric:
      return "msit";
    case FunctionKind::kKeep:
      return "keep";
  }
  return "";
}

std::string Seconds(std::chrono::milliseconds time) {
  return fmt::format("{}", std::chrono::duration<double>(time).count());
}

// The initial state of the child: descriptors, signals and process group.
class SpawnPlan {
 public:
  explicit SpawnPlan(int socket) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, socket, kChildSocket);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    // Output of a plug-in must not mix with the data of msitctl.
    posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t by_default;
    sigemptyset(&by_default);
    sigaddset(&by_default, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &by_default);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK |
                                               POSIX_SPAWN_SETSIGDEF |
                                               POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  // Returns the result of posix_spawnp.
  int Spawn(std::vector<std::string>& arguments, pid_t& pid) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    return posix_spawnp(&pid, argv[0], &actions_, &attributes_, argv.data(),
                        environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

std::string AnswerText(std::string_view text) {
  std::string out = Printable(text);
  if (out.size() <= kAnswerTextBytesMax) return out;
  size_t end = kAnswerTextBytesMax;
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0) == 0x80) {
    --end;
  }
  out.resize(end);
  return out;
}

bool IsKeptName(std::string_view name) {
  return !name.empty() && name.size() <= kKeptNameBytes &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
             ".-") == std::string_view::npos;
}

struct Interpreter::Reply {
  uint32_t kind = 0;
  double value = 0;
  std::string text;
  std::string shown;
};

absl::StatusOr<std::unique_ptr<Interpreter>> Interpreter::Start(
    const InterpreterOptions& options, StopCheck is_stopped) {
  std::unique_ptr<Interpreter> out(
      new Interpreter(options, std::move(is_stopped)));
  MSITD_RETURN_IF_ERROR(out->Spawn());
  out->SetLimit(options.start_limit);
  MSITD_ASSIGN_OR_RETURN(const Reply reply, out->ReadReply());
  if (reply.kind == kRefused) {
    return absl::InvalidArgumentError(reply.text);
  }
  if (reply.kind == kUnusable) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition, "{}: {}",
                      options.python, reply.text);
  }
  return out;
}

Interpreter::~Interpreter() { Kill(); }

absl::Status Interpreter::Spawn() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoStatus(errno, "socketpair");
  }
  socket_ = UniqueFd(ends[0]);
  const UniqueFd low(ends[1]);
  const UniqueFd child(fcntl(low.get(), F_DUPFD_CLOEXEC, kDescriptorMin));
  if (!child.valid()) return ErrnoStatus(errno, "dup");
  for (const int end : {socket_.get(), child.get()}) {
    // The result is ignored: a smaller buffer also works.
    setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kSocketBufferBytes,
               sizeof(kSocketBufferBytes));
  }
  std::vector<std::string> arguments = {
      options_.python,
      "-c",
      PluginScript(),
      options_.file,
      options_.function,
      options_.arrays,
      Seconds(options_.call_limit),
      Seconds(options_.start_limit),
      std::string(KindName(options_.kind)),
      std::to_string(options_.memory_bytes_max),
      std::to_string(options_.kept_bytes_max)};
  const int error = SpawnPlan(child.get()).Spawn(arguments, pid_);
  if (error == 0) return absl::OkStatus();
  pid_ = -1;
  return MakeStatus(absl::StatusCode::kFailedPrecondition,
                    "{} cannot be started: {}", options_.python,
                    std::generic_category().message(error));
}

absl::StatusOr<PairAnswer> Interpreter::Measure(const TensorPairBytes& pair) {
  std::string header;
  Append(SentBytes(pair.golden_dtype, pair.golden), header);
  Append(SentBytes(pair.target_dtype, pair.target), header);
  AppendName(SentAs(pair.golden_dtype), header);
  AppendName(SentAs(pair.target_dtype), header);
  const std::string shapes =
      fmt::format("{}{}{}", fmt::join(pair.golden_shape, ","), '\0',
                  fmt::join(pair.target_shape, ","));
  Append(static_cast<uint32_t>(shapes.size()), header);
  header += shapes;
  SetLimit(options_.call_limit);
  MSITD_RETURN_IF_ERROR(Send(header));
  MSITD_RETURN_IF_ERROR(SendElements(pair.golden_dtype, pair.golden));
  MSITD_RETURN_IF_ERROR(SendElements(pair.target_dtype, pair.target));
  MSITD_ASSIGN_OR_RETURN(Reply reply, ReadReply());
  if (reply.kind > kValue) {
    return absl::DataLossError("its answer has an unknown kind");
  }
  return PairAnswer{reply.kind == kValue, reply.value, std::move(reply.text),
                    std::move(reply.shown)};
}

absl::StatusOr<KeepAnswer> Interpreter::Keep(const TensorKey& key, DType dtype,
                                             const std::vector<int64_t>& shape,
                                             std::string_view bytes) {
  std::string place;
  for (const std::string_view text :
       {std::string_view(key.device), std::string_view(key.op), IoName(key.io),
        std::string_view(key.index), DTypeName(dtype)}) {
    place.append(text).append(1, '\0');
  }
  for (const int64_t number :
       {int64_t{key.rank}, key.token, int64_t{key.call}}) {
    place.append(std::to_string(number)).append(1, '\0');
  }
  place += fmt::format("{}", fmt::join(shape, ","));
  std::string header;
  Append(SentBytes(dtype, bytes), header);
  Append(static_cast<uint32_t>(place.size()), header);
  AppendName(SentAs(dtype), header);
  SetLimit(options_.call_limit);
  MSITD_RETURN_IF_ERROR(Send(header + place));
  MSITD_RETURN_IF_ERROR(SendElements(dtype, bytes));
  MSITD_ASSIGN_OR_RETURN(Reply reply, ReadReply());
  KeepAnswer answer;
  if (reply.kind == kArrays) {
    MSITD_RETURN_IF_ERROR(ReadArrays(answer.arrays));
  } else if (reply.kind == kNoValue) {
    answer.problem = reply.text.empty() ? "it failed" : std::move(reply.text);
  } else {
    return absl::DataLossError("its answer has an unknown kind");
  }
  return answer;
}

absl::Status Interpreter::ReadArrays(std::vector<KeptArray>& out) {
  char head[sizeof(uint32_t)];
  MSITD_RETURN_IF_ERROR(Receive(head, sizeof(head)));
  const char* at = head;
  const auto count = Take<uint32_t>(at);
  if (count > kKeptArraysMax) {
    return absl::DataLossError("its answer has too many arrays");
  }
  out.resize(count);
  std::vector<uint64_t> sizes;
  uint64_t left = options_.kept_bytes_max;
  for (KeptArray& array : out) {
    MSITD_ASSIGN_OR_RETURN(const uint64_t size, ReadArrayHead(array, left));
    left -= size;
    sizes.push_back(size);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].bytes.resize(sizes[i]);
    MSITD_RETURN_IF_ERROR(Receive(out[i].bytes.data(), sizes[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Interpreter::ReadArrayHead(KeptArray& out,
                                                    uint64_t left) {
  char head[kKeptNameBytes + kDTypeNameBytes + sizeof(uint32_t) +
            sizeof(uint64_t)];
  MSITD_RETURN_IF_ERROR(Receive(head, sizeof(head)));
  const char* at = head;
  out.name = TakeName(at, kKeptNameBytes);
  const auto dtype = ParseDType(TakeName(at, kDTypeNameBytes));
  const auto dim_count = Take<uint32_t>(at);
  const auto bytes = Take<uint64_t>(at);
  if (!IsKeptName(out.name) || !dtype || dim_count > kDimsMax || bytes > left) {
    return absl::DataLossError(kBadArray);
  }
  out.dtype = *dtype;
  std::string dims(dim_count * sizeof(uint64_t), '\0');
  MSITD_RETURN_IF_ERROR(Receive(dims.data(), dims.size()));
  const char* dim_at = dims.data();
  unsigned __int128 wanted = ElementBytes(*dtype);
  for (uint32_t i = 0; i < dim_count; ++i) {
    const auto dim = Take<uint64_t>(dim_at);
    wanted *= dim;
    // An array without elements must not have large dimensions either.
    if (dim > kTensorBytesMax || wanted > kTensorBytesMax) {
      return absl::DataLossError(kBadArray);
    }
    out.shape.push_back(static_cast<int64_t>(dim));
  }
  if (wanted != bytes) return absl::DataLossError(kBadArray);
  return bytes;
}

void Interpreter::SetLimit(std::chrono::milliseconds limit) {
  limit_ = limit;
  deadline_ = Clock::now() + limit;
}

absl::StatusOr<Interpreter::Reply> Interpreter::ReadReply() {
  char head[20];
  MSITD_RETURN_IF_ERROR(Receive(head, sizeof(head)));
  const char* at = head;
  const std::string_view magic(at, kMagic.size());
  at += kMagic.size();
  Reply reply;
  reply.kind = Take<uint32_t>(at);
  const auto text_bytes = Take<uint32_t>(at);
  reply.value = Take<double>(at);
  if (magic != kMagic || text_bytes > kAnswerTextBytesMax) {
    return absl::DataLossError("its answer cannot be read");
  }
  reply.text.resize(text_bytes);
  MSITD_RETURN_IF_ERROR(Receive(reply.text.data(), text_bytes));
  const size_t line_end = options_.kind == FunctionKind::kMsitMetric
                              ? reply.text.find('\n')
                              : std::string::npos;
  if (line_end != std::string::npos) {
    reply.shown = AnswerText(reply.text.substr(0, line_end));
    reply.text.erase(0, line_end + 1);
  }
  reply.text = AnswerText(reply.text);
  return reply;
}

absl::Status Interpreter::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(),
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return Ended();
    } else if (errno != EAGAIN && errno != EINTR) {
      return ErrnoStatus(errno, "send to the interpreter");
    }
    if (!bytes.empty()) MSITD_RETURN_IF_ERROR(Await(POLLOUT));
  }
  return absl::OkStatus();
}

absl::Status Interpreter::SendElements(DType dtype, std::string_view bytes) {
  if (SentAs(dtype) == dtype) return Send(bytes);
  const DType component = compute::ComponentOf(dtype);
  const size_t size = ElementBytes(component);
  std::array<double, kElementsAtOnce> values;
  std::array<float, kElementsAtOnce> sent;
  while (bytes.size() >= size) {
    const size_t count = std::min(bytes.size() / size, kElementsAtOnce);
    compute::ToDouble(component,
                      reinterpret_cast<const std::byte*>(bytes.data()), count,
                      values.data());
    std::transform(values.begin(), values.begin() + count, sent.begin(),
                   [](double value) { return static_cast<float>(value); });
    MSITD_RETURN_IF_ERROR(Send(
        {reinterpret_cast<const char*>(sent.data()), count * sizeof(float)}));
    bytes.remove_prefix(count * size);
  }
  return absl::OkStatus();
}

absl::Status Interpreter::Receive(char* out, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got =
        recv(socket_.get(), out + done, size - done, MSG_DONTWAIT);
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (got == 0 || errno == ECONNRESET) {
      return Ended();
    } else if (errno != EAGAIN && errno != EINTR) {
      return ErrnoStatus(errno, "receive from the interpreter");
    } else {
      MSITD_RETURN_IF_ERROR(Await(POLLIN));
    }
  }
  return absl::OkStatus();
}

absl::Status Interpreter::Await(short events) {
  while (true) {
    if (is_stopped_()) return absl::CancelledError("interrupted");
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline_ - Clock::now());
    if (left.count() <= 0) {
      return MakeStatus(absl::StatusCode::kDeadlineExceeded,
                        "no answer within {}s", Seconds(limit_));
    }
    pollfd fd = {socket_.get(), events, 0};
    const auto slice = std::min(left, kInterruptPoll);
    const int ready = poll(&fd, 1, static_cast<int>(slice.count()) + 1);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
  }
}

absl::Status Interpreter::Ended() {
  siginfo_t end = {};
  for (auto waited = std::chrono::milliseconds(0);
       end.si_pid == 0 && waited < kEndGrace; waited += kEndPoll) {
    // WNOWAIT leaves a zombie, so that the pid is not reused before Kill.
    waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT);
    if (end.si_pid == 0) std::this_thread::sleep_for(kEndPoll);
  }
  Kill();
  if (end.si_pid == 0) {
    return absl::UnavailableError("the interpreter closed its connection");
  }
  return end.si_code == CLD_EXITED
             ? MakeStatus(absl::StatusCode::kUnavailable,
                          "the interpreter ended with status {}", end.si_status)
             : MakeStatus(absl::StatusCode::kUnavailable,
                          "the interpreter was ended by signal {} ({})",
                          end.si_status, strsignal(end.si_status));
}

void Interpreter::Kill() {
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  // The child may have left its process group.
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace msitd::ask
