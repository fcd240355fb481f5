// SPDX-License-Identifier: Apache-2.0
// The functions of glibc after 2.28 that the programs, or Debian's static
// libraries in them, call. A program that is linked against the stubs of
// stub_glibc.py and this file also runs with 2.28.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

// Returns a function of the running glibc that 2.28 does not have, or null.
static void* FindNewer(const char* name) { return dlsym(RTLD_DEFAULT, name); }

// Since 2.32. True lets libstdc++ omit atomic operations, which is only an
// optimization.
HIDDEN char __libc_single_threaded = 0;

// Since 2.33. Until then, these were inline functions that called the following
// ones with the version of the structure.
struct stat;
extern int __xstat(int version, const char* path, struct stat* status);
extern int __fxstat(int version, int fd, struct stat* status);
extern int __lxstat(int version, const char* path, struct stat* status);
extern int __fxstatat(int version, int folder, const char* path,
                      struct stat* status, int flags);
#ifdef __x86_64__
enum { kStatVersion = 1 };
#else
enum { kStatVersion = 0 };
#endif

HIDDEN int stat(const char* path, struct stat* status) {
  return __xstat(kStatVersion, path, status);
}
HIDDEN int fstat(int fd, struct stat* status) {
  return __fxstat(kStatVersion, fd, status);
}
HIDDEN int lstat(const char* path, struct stat* status) {
  return __lxstat(kStatVersion, path, status);
}
HIDDEN int fstatat(int folder, const char* path, struct stat* status,
                   int flags) {
  return __fxstatat(kStatVersion, folder, path, status, flags);
}
// On machines of 64 bits, the structure is the same.
HIDDEN int stat64(const char* path, struct stat* status) {
  return __xstat(kStatVersion, path, status);
}
HIDDEN int fstat64(int fd, struct stat* status) {
  return __fxstat(kStatVersion, fd, status);
}
HIDDEN int lstat64(const char* path, struct stat* status) {
  return __lxstat(kStatVersion, path, status);
}

HIDDEN int fstatat64(int folder, const char* path, struct stat* status,
                     int flags) {
  return __fxstatat(kStatVersion, folder, path, status, flags);
}

// Since 2.30.
HIDDEN pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

// Since 2.34. The system call does not update the thread's id in glibc, so the
// child may call only functions that a signal handler may call.
HIDDEN pid_t _Fork(void) {
  pid_t (*newer)(void);
  *(void**)&newer = FindNewer("_Fork");
  if (newer != NULL) return newer();
  return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

// Since 2.36. Like those of glibc, they end the process if the kernel has no
// random bytes.
HIDDEN void arc4random_buf(void* bytes, size_t size) {
  const size_t kMost = 256;  // of a call of getentropy
  for (size_t done = 0; done < size;) {
    const size_t part = size - done < kMost ? size - done : kMost;
    if (getentropy((char*)bytes + done, part) != 0) abort();
    done += part;
  }
}
HIDDEN uint32_t arc4random(void) {
  uint32_t value;
  arc4random_buf(&value, sizeof value);
  return value;
}

// Since 2.30. Without it, a wait until a time of the monotonic clock becomes a
// wait until the same time of the wall clock, as in libstdc++ before GCC 10: it
// lasts longer if the wall clock is set back during the wait.
typedef int ClockWait(pthread_cond_t*, pthread_mutex_t*, clockid_t,
                      const struct timespec*);

HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition,
                                  pthread_mutex_t* mutex, clockid_t clock,
                                  const struct timespec* deadline) {
  // 1 until the first call has searched. Several may search at the same time.
  static ClockWait* found = (ClockWait*)1;
  ClockWait* newer = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (newer == (ClockWait*)1) {
    *(void**)&newer = FindNewer("pthread_cond_clockwait");
    __atomic_store_n(&found, newer, __ATOMIC_RELAXED);
  }
  if (newer != NULL) return newer(condition, mutex, clock, deadline);

  struct timespec until = *deadline;
  if (clock != CLOCK_REALTIME) {
    struct timespec now, wall;
    clock_gettime(clock, &now);
    clock_gettime(CLOCK_REALTIME, &wall);
    until.tv_sec += wall.tv_sec - now.tv_sec;
    until.tv_nsec += wall.tv_nsec - now.tv_nsec;
    if (until.tv_nsec < 0) {
      until.tv_nsec += 1000000000;
      --until.tv_sec;
    } else if (until.tv_nsec >= 1000000000) {
      until.tv_nsec -= 1000000000;
      ++until.tv_sec;
    }
  }
  return pthread_cond_timedwait(condition, mutex, &until);
}
