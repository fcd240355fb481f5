// SPDX-License-Identifier: Apache-2.0
// libmsit_acl.so: a preloaded library that takes the place of libascendcl.so
// and forwards every call. It is also loaded into every child process of the
// job. It therefore needs only the C library, and does nothing before CANN is
// used.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/foreign/acl/acl_dump.h"
#include "client/foreign/acl/dump_config.h"
#include "client/foreign/acl/feed_abi.h"

namespace {

using msitd::acl::AclDumpCallback;
using msitd::acl::AclDumpChunk;
using msitd::acl::FeedFunctions;
using msitd::acl::kAclErrorFeatureUnsupported;
using msitd::acl::kAclSuccess;

constexpr char kCannLibrary[] = "libascendcl.so";
constexpr int32_t kAclErrorRepeatInitialize = 100002;

enum class Mode { kUnknown, kOff, kStream, kFiles };

// The state of this process, guarded by g_mutex except for `feed`, which is set
// once. CANN may call its own functions, which are those of this library, so
// the mutex is recursive.
struct State {
  Mode mode;
  const FeedFunctions* feed;
  bool is_registered;
  int32_t register_answer;
  // Whether the shim or the host enabled dumps, or whether the host disabled
  // them.
  bool is_dump_ours;
  bool is_dump_hosts;
  bool has_said_why;
};
pthread_mutex_t g_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
State g_state;
// The callback that the host registered. Independent of other data, so relaxed
// memory order suffices.
AclDumpCallback g_host_callback;

class Locked {
 public:
  Locked() { pthread_mutex_lock(&g_mutex); }
  ~Locked() { pthread_mutex_unlock(&g_mutex); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

const char* Variable(const char* name) {
  const char* const value = getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// Prints the first error only, because later ones follow from it. Requires
// g_mutex.
void SayWhy(const char* what, const char* why) {
  if (g_state.has_said_why) return;
  g_state.has_said_why = true;
  dprintf(STDERR_FILENO, "libmsit_acl: nothing is dumped: %s%s%s\n", what,
          why == nullptr ? "" : ": ", why == nullptr ? "" : why);
}

// Returns the CANN library that the process has loaded, or otherwise that of
// the toolkit.
void* Cann() {
  static void* library = nullptr;
  void* found = __atomic_load_n(&library, __ATOMIC_RELAXED);
  if (found != nullptr) return found;
  found = dlopen(kCannLibrary, RTLD_LAZY | RTLD_NOLOAD);
  const char* const home = getenv("ASCEND_TOOLKIT_HOME");
  if (found == nullptr && home != nullptr) {
    char path[4096];
    const int length =
        snprintf(path, sizeof(path), "%s/lib64/%s", home, kCannLibrary);
    if (length > 0 && static_cast<size_t>(length) < sizeof(path)) {
      found = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    }
  }
  __atomic_store_n(&library, found, __ATOMIC_RELAXED);
  return found;
}

// Returns null if CANN has no such function.
void* Find(const char* name) {
  void* const next = dlsym(RTLD_NEXT, name);
  if (next != nullptr) return next;
  void* const library = Cann();
  return library == nullptr ? nullptr : dlsym(library, name);
}

template <typename Function>
Function As(void* found) {
  return reinterpret_cast<Function>(found);
}

int32_t OnChunk(const AclDumpChunk* chunk, int32_t length) {
  const FeedFunctions* const feed =
      __atomic_load_n(&g_state.feed, __ATOMIC_ACQUIRE);
  if (feed != nullptr) feed->take(chunk, length);
  const AclDumpCallback host =
      __atomic_load_n(&g_host_callback, __ATOMIC_RELAXED);
  return host == nullptr ? kAclSuccess : host(chunk, length);
}

// Requires g_mutex.
const FeedFunctions* LoadFeed() {
  Dl_info here;
  if (dladdr(reinterpret_cast<void*>(&OnChunk), &here) == 0 ||
      here.dli_fname == nullptr) {
    SayWhy("the shim cannot determine its own path", nullptr);
    return nullptr;
  }
  const char* const slash = strrchr(here.dli_fname, '/');
  const auto folder =
      slash == nullptr ? 0 : static_cast<int>(slash + 1 - here.dli_fname);
  char path[4096];
  snprintf(path, sizeof(path), "%.*s%s", folder, here.dli_fname,
           msitd::acl::kFeedLibraryName);
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    SayWhy(path, dlerror());
    return nullptr;
  }
  const auto get = As<msitd::acl::FeedFunctionsGetter>(
      dlsym(library, msitd::acl::kFeedFunctionsName));
  if (get == nullptr) {
    SayWhy(path, "it has a different version");
    return nullptr;
  }
  return get();
}

void OnForkInChild() {
  g_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  g_state = State();
}

// Requires g_mutex.
Mode FindMode() {
  if (Variable("MSITD_RUN") == nullptr) {
    return Variable("MSITD_ACL_DUMP_PATH") == nullptr ? Mode::kOff
                                                      : Mode::kFiles;
  }
  static bool knows_forks = false;
  if (!knows_forks) {
    knows_forks = pthread_atfork(nullptr, nullptr, &OnForkInChild) == 0;
  }
  const FeedFunctions* const feed = LoadFeed();
  if (feed == nullptr || feed->start() != 0) return Mode::kOff;
  __atomic_store_n(&g_state.feed, feed, __ATOMIC_RELEASE);
  return Mode::kStream;
}

// Registers the callback, if this is required and has not been done. CANN
// requires it before dumps are enabled and before models are loaded.
void Attach() {
  const Locked lock;
  if (g_state.mode == Mode::kUnknown) g_state.mode = FindMode();
  if (g_state.mode != Mode::kStream || g_state.is_registered) return;
  using Register = int32_t (*)(AclDumpCallback, int32_t);
  const auto real = As<Register>(Find("acldumpRegCallback"));
  if (real == nullptr) {
    SayWhy("this CANN has no acldumpRegCallback", nullptr);
    return;
  }
  // The call may fail before aclInit, so it is repeated later.
  g_state.register_answer = real(&OnChunk, 0);
  g_state.is_registered = g_state.register_answer == kAclSuccess;
}

// Prints the error that a function of CANN returned. Requires g_mutex.
void SayAnswer(const char* function, int32_t answer) {
  char code[32];
  snprintf(code, sizeof(code), "error %d", answer);
  SayWhy(function, code);
}

// Returns true if the shim has to configure the dump. MindIE and TorchAir may
// configure it themselves.
bool SetsDump() {
  if (g_state.mode == Mode::kFiles) return true;
  const char* const who = Variable("MSITD_ACL_DUMP");
  return g_state.is_registered &&
         Variable("MINDIE_RT_DUMP_CONFIG_PATH") == nullptr &&
         (who == nullptr || strcmp(who, "host") != 0);
}

// Enables dumps in CANN as the environment specifies, once CANN is initialised.
// Requires g_mutex.
void SwitchDumpOn() {
  using Init = int32_t (*)();
  using Set = int32_t (*)(const char*);
  const auto init = As<Init>(Find("aclmdlInitDump"));
  const auto set = As<Set>(Find("aclmdlSetDump"));
  if (init == nullptr || set == nullptr) {
    return SayWhy("this CANN has no aclmdlSetDump", nullptr);
  }
  const char* path = Variable("MSITD_ACL_DUMP_PATH");
  // CANN writes nothing to this path while the callback receives the dumps.
  if (path == nullptr) path = msitd::acl::TemporaryFolder();
  char file[4096];
  if (!msitd::acl::WriteDumpConfig(
          {path, Variable("MSITD_ACL_MODEL"), Variable("MSITD_ACL_OPS")}, file,
          sizeof(file))) {
    return SayWhy("the configuration cannot be written", strerror(errno));
  }
  int32_t answer = init();
  const bool is_on = answer == kAclSuccess;
  if (is_on) answer = set(file);
  unlink(file);
  if (is_on) g_state.is_dump_ours = true;
  if (answer == kAclSuccess) return;
  SayAnswer(is_on ? "aclmdlSetDump" : "aclmdlInitDump", answer);
  // The shim does not try again.
  g_state.is_dump_hosts = true;
}

void AttachToRunning() {
  Attach();
  const Locked lock;
  if (g_state.register_answer != kAclSuccess) {
    SayAnswer("acldumpRegCallback", g_state.register_answer);
  }
  if (g_state.is_dump_ours || g_state.is_dump_hosts || !SetsDump()) return;
  SwitchDumpOn();
}

// Delivers the data that has arrived.
void Flush() {
  const FeedFunctions* const feed =
      __atomic_load_n(&g_state.feed, __ATOMIC_ACQUIRE);
  if (feed != nullptr) feed->flush();
}

}  // namespace

// Finds the CANN function that the wrapper replaces. Its address does not
// change, so this is done once.
#define MSITD_REAL(name)                                            \
  static decltype(&name) found = nullptr;                           \
  decltype(&name) real = __atomic_load_n(&found, __ATOMIC_RELAXED); \
  if (real == nullptr) {                                            \
    real = As<decltype(&name)>(Find(#name));                        \
    if (real == nullptr) return kAclErrorFeatureUnsupported;        \
    __atomic_store_n(&found, real, __ATOMIC_RELAXED);               \
  }

#pragma GCC visibility push(default)
extern "C" {

int32_t aclInit(const char* config) {
  MSITD_REAL(aclInit)
  Attach();
  const int32_t answer = real(config);
  if (answer == kAclSuccess || answer == kAclErrorRepeatInitialize) {
    AttachToRunning();
  }
  return answer;
}

int32_t aclFinalize() {
  MSITD_REAL(aclFinalize)
  const int32_t answer = real();
  Flush();
  const Locked lock;
  // CANN has discarded its settings.
  if (answer == kAclSuccess) {
    g_state.is_registered = false;
    g_state.is_dump_ours = false;
    g_state.is_dump_hosts = false;
  }
  return answer;
}

int32_t aclrtSetDevice(int32_t device) {
  MSITD_REAL(aclrtSetDevice)
  const int32_t answer = real(device);
  if (answer == kAclSuccess) AttachToRunning();
  return answer;
}

int32_t aclmdlInitDump() {
  MSITD_REAL(aclmdlInitDump)
  Attach();
  {
    const Locked lock;
    // Dumps are already enabled, and CANN would reject a second call.
    if (g_state.is_dump_ours) return kAclSuccess;
  }
  const int32_t answer = real();
  const Locked lock;
  if (answer == kAclSuccess) g_state.is_dump_hosts = true;
  return answer;
}

int32_t aclmdlSetDump(const char* path) {
  MSITD_REAL(aclmdlSetDump)
  Attach();
  return real(path);
}

int32_t aclmdlFinalizeDump() {
  MSITD_REAL(aclmdlFinalizeDump)
  const int32_t answer = real();
  Flush();
  const Locked lock;
  // The host has disabled dumps.
  if (answer == kAclSuccess) {
    g_state.is_dump_ours = false;
    g_state.is_dump_hosts = true;
  }
  return answer;
}

int32_t acldumpRegCallback(AclDumpCallback callback, int32_t flag) {
  MSITD_REAL(acldumpRegCallback)
  Attach();
  bool is_ours = false;
  {
    const Locked lock;
    is_ours = g_state.is_registered;
  }
  if (!is_ours) return real(callback, flag);
  __atomic_store_n(&g_host_callback, callback, __ATOMIC_RELAXED);
  return kAclSuccess;
}

#define MSITD_LOAD(name, parameters, arguments) \
  int32_t name parameters {                     \
    MSITD_REAL(name)                            \
    AttachToRunning();                          \
    return real arguments;                      \
  }

MSITD_LOAD(aclmdlLoadFromFile, (const char* path, uint32_t* id), (path, id))
MSITD_LOAD(aclmdlLoadFromMem, (const void* model, size_t size, uint32_t* id),
           (model, size, id))
MSITD_LOAD(aclmdlLoadFromFileWithMem,
           (const char* path, uint32_t* id, void* work, size_t work_size,
            void* weight, size_t weight_size),
           (path, id, work, work_size, weight, weight_size))
MSITD_LOAD(aclmdlLoadFromMemWithMem,
           (const void* model, size_t size, uint32_t* id, void* work,
            size_t work_size, void* weight, size_t weight_size),
           (model, size, id, work, work_size, weight, weight_size))
MSITD_LOAD(aclmdlLoadFromFileWithQ,
           (const char* path, uint32_t* id, const uint32_t* inputs,
            size_t input_count, const uint32_t* outputs, size_t output_count),
           (path, id, inputs, input_count, outputs, output_count))
MSITD_LOAD(aclmdlLoadFromMemWithQ,
           (const void* model, size_t size, uint32_t* id,
            const uint32_t* inputs, size_t input_count, const uint32_t* outputs,
            size_t output_count),
           (model, size, id, inputs, input_count, outputs, output_count))
MSITD_LOAD(aclmdlLoadWithConfig, (const void* config, uint32_t* id),
           (config, id))

}  // extern "C"
#pragma GCC visibility pop
