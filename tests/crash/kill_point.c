// SPDX-License-Identifier: Apache-2.0
// Kills the process into which it is preloaded at a chosen system call.
//
// MSITD_KILL_FILE names a file of sizeof(struct control), which is mapped as
// shared memory. Another process that maps the file chooses the call, also
// while this process runs. kill_point.py uses the same order of fields.
#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum call {
  CALL_WRITE = 1,
  CALL_READ,
  CALL_SYNC,
  CALL_RESERVE,
  CALL_PUNCH,
  CALL_TRUNCATE,
  CALL_RENAME,
  CALL_UNLINK,
  CALL_SEND
};

enum phase { PHASE_BEFORE = 1, PHASE_TORN, PHASE_AFTER };

struct control {
  // The other fields are read only while this is 1. Set to 0 when the chosen
  // call is made.
  uint32_t is_armed;
  uint32_t call;
  uint32_t phase;
  // For PHASE_AFTER: time for which the process continues to run, in
  // microseconds.
  uint32_t delay_us;
  // Number of matching calls up to and including the one that kills.
  int32_t remaining;
  uint32_t has_fired;
  // Pattern of the path of the file, as for fnmatch(3). Sockets have paths
  // `socket:[N]`.
  char pattern[64];
};

enum { kPageBytes = 4096, kPiecesMax = 128 };

static struct control* control;

__attribute__((constructor)) static void map_control(void) {
  const char* path = getenv("MSITD_KILL_FILE");
  if (path == NULL) return;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) abort();
  void* memory =
      mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) abort();
  control = memory;
}

static void* real(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function == NULL) abort();
  return function;
}

static int is_due_at(const char* path) {
  if (fnmatch(control->pattern, path, 0) != 0) return 0;
  return __atomic_fetch_sub(&control->remaining, 1, __ATOMIC_ACQ_REL) == 1;
}

// Acquire: the other fields were written before is_armed.
static int is_armed(enum call call) {
  return control != NULL &&
         __atomic_load_n(&control->is_armed, __ATOMIC_ACQUIRE) == 1 &&
         control->call == (uint32_t)call;
}

static int is_due(enum call call, int fd) {
  if (!is_armed(call)) return 0;
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = '\0';
  return is_due_at(path);
}

static void end_process(void) {
  kill(getpid(), SIGKILL);
  while (1) pause();
}

static void* end_later(void* unused) {
  (void)unused;
  const struct timespec delay = {control->delay_us / 1000000,
                                 control->delay_us % 1000000 * 1000L};
  nanosleep(&delay, NULL);
  end_process();
  return NULL;
}

static void fire(void) {
  __atomic_store_n(&control->has_fired, 1, __ATOMIC_RELEASE);
  __atomic_store_n(&control->is_armed, 0, __ATOMIC_RELEASE);
  if (control->phase == PHASE_AFTER && control->delay_us != 0) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, end_later, NULL) == 0) {
      pthread_detach(thread);
      return;
    }
  }
  end_process();
}

static void before(int due) {
  if (due && control->phase == PHASE_BEFORE) fire();
}

static void after(int due) {
  if (due && control->phase == PHASE_AFTER) fire();
}

// Returns how many of `size` bytes a torn write leaves: half, rounded to whole
// pages if there are any, as O_DIRECT requires.
static size_t torn_bytes(size_t size) {
  return size < kPageBytes ? size / 2 : size / 2 / kPageBytes * kPageBytes;
}

#define CHECKED(call_kind, due_on, type, name, parameters, arguments) \
  type name parameters {                                              \
    static type(*next) parameters;                                    \
    if (next == NULL) next = (type(*) parameters)real(#name);         \
    const int due = is_due(call_kind, due_on);                        \
    before(due);                                                      \
    const type result = next arguments;                               \
    after(due);                                                       \
    return result;                                                    \
  }

CHECKED(CALL_SYNC, fd, int, fsync, (int fd), (fd))
CHECKED(CALL_SYNC, fd, int, fdatasync, (int fd), (fd))
CHECKED(CALL_TRUNCATE, fd, int, ftruncate, (int fd, off_t size), (fd, size))
CHECKED(CALL_TRUNCATE, fd, int, ftruncate64, (int fd, off64_t size), (fd, size))
CHECKED((mode & FALLOC_FL_PUNCH_HOLE) != 0 ? CALL_PUNCH : CALL_RESERVE, fd, int,
        fallocate, (int fd, int mode, off_t at, off_t size),
        (fd, mode, at, size))
CHECKED((mode & FALLOC_FL_PUNCH_HOLE) != 0 ? CALL_PUNCH : CALL_RESERVE, fd, int,
        fallocate64, (int fd, int mode, off64_t at, off64_t size),
        (fd, mode, at, size))
CHECKED(CALL_READ, fd, ssize_t, pread,
        (int fd, void* out, size_t size, off_t at), (fd, out, size, at))
CHECKED(CALL_READ, fd, ssize_t, pread64,
        (int fd, void* out, size_t size, off64_t at), (fd, out, size, at))
CHECKED(CALL_SEND, fd, ssize_t, sendmsg,
        (int fd, const struct msghdr* message, int flags), (fd, message, flags))

#define CHECKED_PATH(call_kind, name, parameters, path, arguments) \
  int name parameters {                                            \
    static int(*next) parameters;                                  \
    if (next == NULL) next = (int(*) parameters)real(#name);       \
    const int due = is_armed(call_kind) && is_due_at(path);        \
    before(due);                                                   \
    const int result = next arguments;                             \
    after(due);                                                    \
    return result;                                                 \
  }

CHECKED_PATH(CALL_RENAME, rename, (const char* from, const char* to), to,
             (from, to))
CHECKED_PATH(CALL_UNLINK, unlink, (const char* path), path, (path))

#define CHECKED_WRITE(name, parameters, torn_arguments, arguments) \
  ssize_t name parameters {                                        \
    static ssize_t(*next) parameters;                              \
    if (next == NULL) next = (ssize_t(*) parameters)real(#name);   \
    const int due = is_due(CALL_WRITE, fd);                        \
    before(due);                                                   \
    if (due && control->phase == PHASE_TORN) {                     \
      if (next torn_arguments >= 0) fire();                        \
    }                                                              \
    const ssize_t result = next arguments;                         \
    after(due);                                                    \
    return result;                                                 \
  }

CHECKED_WRITE(write, (int fd, const void* data, size_t size),
              (fd, data, torn_bytes(size)), (fd, data, size))
CHECKED_WRITE(pwrite, (int fd, const void* data, size_t size, off_t at),
              (fd, data, torn_bytes(size), at), (fd, data, size, at))
CHECKED_WRITE(pwrite64, (int fd, const void* data, size_t size, off64_t at),
              (fd, data, torn_bytes(size), at), (fd, data, size, at))

// Stores the pieces that a torn write leaves in `torn`; returns their number.
static int tear(const struct iovec* pieces, int count, struct iovec* torn) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += pieces[i].iov_len;
  size_t left = torn_bytes(size);
  int kept = 0;
  while (kept < count && kept < kPiecesMax && left > 0) {
    torn[kept] = pieces[kept];
    if (torn[kept].iov_len > left) torn[kept].iov_len = left;
    left -= torn[kept].iov_len;
    ++kept;
  }
  return kept;
}

#define CHECKED_VECTOR(name, offset_type)                                      \
  ssize_t name(int fd, const struct iovec* pieces, int count,                  \
               offset_type at) {                                               \
    static ssize_t (*next)(int, const struct iovec*, int, offset_type);        \
    if (next == NULL) {                                                        \
      next =                                                                   \
          (ssize_t(*)(int, const struct iovec*, int, offset_type))real(#name); \
    }                                                                          \
    const int due = is_due(CALL_WRITE, fd);                                    \
    before(due);                                                               \
    if (due && control->phase == PHASE_TORN) {                                 \
      struct iovec torn[kPiecesMax];                                           \
      const int kept = tear(pieces, count, torn);                              \
      if (kept == 0 || next(fd, torn, kept, at) >= 0) fire();                  \
    }                                                                          \
    const ssize_t result = next(fd, pieces, count, at);                        \
    after(due);                                                                \
    return result;                                                             \
  }

CHECKED_VECTOR(pwritev, off_t)
CHECKED_VECTOR(pwritev64, off64_t)
