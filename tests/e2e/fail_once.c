// LD_PRELOADed: one call of one process of a run fails, once. The environment says which:
//   FAIL_ONCE_PROCESS  words of its command line, with commas between them
//   FAIL_ONCE_CALL     the function
//   FAIL_ONCE_FILE     how the name of the file ends, or of what a descriptor leads to
//   FAIL_ONCE_ERROR    errno
//   FAIL_ONCE_TOKEN    a file that is there until it has happened
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *call, *file, *token;
static int error;

static int is_meant(const char* words) {
  char line[4096], one[256];
  FILE* stream = fopen("/proc/self/cmdline", "r");
  size_t size = stream ? fread(line, 1, sizeof line - 1, stream) : 0;
  if (stream) fclose(stream);
  line[size] = 0;
  for (size_t i = 0; i < size; ++i)
    if (!line[i]) line[i] = ' ';
  for (; *words; words += strlen(one) + (words[strlen(one)] == ',')) {
    snprintf(one, sizeof one, "%.*s", (int)strcspn(words, ","), words);
    if (!strstr(line, one)) return 0;
  }
  return 1;
}

__attribute__((constructor)) static void begin(void) {
  const char* process = getenv("FAIL_ONCE_PROCESS");
  if (!process || !is_meant(process)) return;
  file = getenv("FAIL_ONCE_FILE");
  token = getenv("FAIL_ONCE_TOKEN");
  error = atoi(getenv("FAIL_ONCE_ERROR"));
  call = getenv("FAIL_ONCE_CALL");
}

static int fails(const char* name, const char* path) {
  if (!call || strcmp(call, name)) return 0;
  const size_t length = strlen(path), end = strlen(file);
  if (length < end || strcmp(path + length - end, file)) return 0;
  if (unlink(token)) return 0;
  call = NULL;
  errno = error;
  return 1;
}

static int fails_of(const char* name, int descriptor) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = call ? readlink(link, path, sizeof path - 1) : 0;
  path[size > 0 ? size : 0] = 0;
  return fails(name, path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
  va_end(more);
  return fails("open", path) ? -1 : REAL(open)(path, flags, mode);
}
int stat(const char* path, struct stat* status) {
  return fails("stat", path) ? -1 : REAL(stat)(path, status);
}
int fstat(int descriptor, struct stat* status) {
  return fails_of("fstat", descriptor) ? -1 : REAL(fstat)(descriptor, status);
}
int renameat(int from, const char* old_name, int to, const char* name) {
  return fails("renameat", name) ? -1 : REAL(renameat)(from, old_name, to, name);
}
int fsync(int descriptor) {
  return fails_of("fsync", descriptor) ? -1 : REAL(fsync)(descriptor);
}
ssize_t write(int descriptor, const void* bytes, size_t size) {
  return fails_of("write", descriptor) ? -1 : REAL(write)(descriptor, bytes, size);
}
ssize_t pread(int descriptor, void* bytes, size_t size, off_t offset) {
  return fails_of("pread", descriptor) ? -1 : REAL(pread)(descriptor, bytes, size, offset);
}
ssize_t sendmsg(int descriptor, const struct msghdr* message, int flags) {
  return fails("sendmsg", "") ? -1 : REAL(sendmsg)(descriptor, message, flags);
}
