// SPDX-License-Identifier: Apache-2.0
// fchmodat supports AT_SYMLINK_NOFOLLOW since glibc 2.32, and fails before.
// This one works in the same way as that of glibc.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// Changes the mode of an open file, even if it was opened with O_PATH.
static int ChangeMode(int fd, mode_t mode) {
  struct stat status;
  if (fstat(fd, &status) != 0) return -1;
  if (S_ISLNK(status.st_mode)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const int result = chmod(path, mode);
  if (result != 0 && errno == ENOENT) errno = EOPNOTSUPP;  // no /proc
  return result;
}

__attribute__((visibility("hidden"))) int fchmodat(int folder, const char* path,
                                                   mode_t mode, int flags) {
  if (flags == 0) return (int)syscall(SYS_fchmodat, folder, path, mode);
  if (flags != AT_SYMLINK_NOFOLLOW) {
    errno = EINVAL;
    return -1;
  }
  const int fd = openat(folder, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  const int result = ChangeMode(fd, mode);
  const int error = errno;
  close(fd);
  errno = error;
  return result;
}
