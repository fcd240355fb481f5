// SPDX-License-Identifier: Apache-2.0
// The functions of libsystemd that msitd calls. Systems that are not started by
// systemd have no such library, so it is loaded only if systemd has started the
// process.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define HIDDEN __attribute__((visibility("hidden")))

static void* library;

static void LoadLibrary(void) {
  if (getenv("NOTIFY_SOCKET") == NULL && getenv("LISTEN_FDS") == NULL &&
      getenv("WATCHDOG_USEC") == NULL) {
    return;
  }
  library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "msitd: systemd is not notified: %s\n", dlerror());
  }
}

// Finds a function in libsystemd, or returns null.
static void* Find(const char* name) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, LoadLibrary);
  return library == NULL ? NULL : dlsym(library, name);
}

HIDDEN int sd_notify(int unset_environment, const char* state) {
  int (*call)(int, const char*);
  *(void**)&call = Find("sd_notify");
  return call == NULL ? 0 : call(unset_environment, state);
}

HIDDEN int sd_notifyf(int unset_environment, const char* format, ...) {
  char state[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(state, sizeof state, format, arguments);
  va_end(arguments);
  return sd_notify(unset_environment, state);
}

HIDDEN int sd_watchdog_enabled(int unset_environment, uint64_t* usec) {
  int (*call)(int, uint64_t*);
  *(void**)&call = Find("sd_watchdog_enabled");
  return call == NULL ? 0 : call(unset_environment, usec);
}

HIDDEN int sd_listen_fds(int unset_environment) {
  int (*call)(int);
  *(void**)&call = Find("sd_listen_fds");
  return call == NULL ? 0 : call(unset_environment);
}

HIDDEN int sd_is_socket_unix(int fd, int type, int listening, const char* path,
                             size_t length) {
  int (*call)(int, int, int, const char*, size_t);
  *(void**)&call = Find("sd_is_socket_unix");
  return call == NULL ? 0 : call(fd, type, listening, path, length);
}
