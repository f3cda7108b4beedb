// A library for LD_PRELOAD that lets one call of the system fail, once: as SQLite's tests do, a
// test runs a command again and again, and lets its first, second, third … call of a kind fail.
//
//   SKALD_FAULT=KIND:N      the Nth call of this kind in main() fails: alloc, read, write, rename,
//                           mmap, open, stat, folder, sync, thread or net
//   SKALD_FAULT_COUNT=FILE  writes the numbers of calls of all kinds, a line each, when main() ends
//   SKALD_FAULT_LOG=FILE    names each sync and rename, in their order
//   SKALD_FAULT_LEAK=1      memory is lost, which LeakSanitizer must notice
//   SKALD_FAULT_NO_LOCKS=1  flock() fails, as on a file system without locks
//
// Messages on stderr are never disturbed. An allocation on behalf of another library than the C++
// one is passed over, and the next one fails: what sentencepiece does without memory is not tested.
// LeakSanitizer's library may be preloaded behind this one: memory is then LeakSanitizer's, which
// says at the end what was not given back.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum Kind { ALLOC, READ, WRITE, RENAME, MMAP, OPEN, STAT, FOLDER, SYNC, THREAD, NET, KINDS };
static const char* const kNames[KINDS] = {"alloc", "read",   "write", "rename", "mmap", "open",
                                          "stat",  "folder", "sync",  "thread", "net"};
static atomic_long counts[KINDS];
static atomic_int running;
static int fault_kind = -1;
static atomic_long fault_at;
static int log_file = -1, no_locks = 0;

static int is_foreign(const char* file) {
  static const char* const kForeign[] = {"sentencepiece", "protobuf", "libcurl",
                                         "libedit",       "libssl",   "libcrypto"};
  for (size_t i = 0; i < sizeof kForeign / sizeof *kForeign; ++i) {
    if (strstr(file, kForeign[i])) return 1;
  }
  return 0;
}

static int for_another_library(void) {
  void* frames[64];
  const int count = backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (!dladdr(frames[i], &info)) continue;
    if (info.dli_fname && is_foreign(info.dli_fname)) return 1;
    // libstdc++ lists folders in functions that are noexcept; LeakSanitizer asks where the stack of
    // a new thread is, and ends the program where it gets no answer.
    if (info.dli_sname && strstr(info.dli_sname, "directory_iterator")) return 1;
    if (info.dli_sname && strcmp(info.dli_sname, "pthread_getattr_np") == 0) return 1;
  }
  return 0;
}

static int fails(enum Kind kind, int error) {
  static _Thread_local int looking = 0;
  if (looking || !atomic_load(&running)) return 0;
  const long now = atomic_fetch_add(&counts[kind], 1) + 1;
  if ((int)kind != fault_kind || now != atomic_load(&fault_at)) return 0;
  if (kind == ALLOC) {
    looking = 1;
    const int foreign = for_another_library();
    looking = 0;
    if (foreign) {
      atomic_fetch_add(&fault_at, 1);
      return 0;
    }
  }
  errno = error;
  return 1;
}

#define REAL(name) ((__typeof__(&name))real(#name))
static void* real(const char* name) { return dlsym(RTLD_NEXT, name); }

static void note(const char* what, const char* path) {
  if (log_file < 0 || !atomic_load(&running)) return;
  const int saved = errno;
  dprintf(log_file, "%s %s\n", what, path);
  errno = saved;
}

static void note_file(const char* what, int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = '\0';
  note(what, path);
}

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
// LeakSanitizer's; dlsym() would allocate.
extern void* __interceptor_malloc(size_t) __attribute__((weak));
extern void* __interceptor_calloc(size_t, size_t) __attribute__((weak));
extern void* __interceptor_realloc(void*, size_t) __attribute__((weak));
extern void* __interceptor_memalign(size_t, size_t) __attribute__((weak));

#define NEXT(name) (__interceptor_##name ? __interceptor_##name : __libc_##name)

void* malloc(size_t n) { return fails(ALLOC, ENOMEM) ? NULL : NEXT(malloc)(n); }
void* calloc(size_t n, size_t m) { return fails(ALLOC, ENOMEM) ? NULL : NEXT(calloc)(n, m); }
void* realloc(void* p, size_t n) { return fails(ALLOC, ENOMEM) ? NULL : NEXT(realloc)(p, n); }
void* memalign(size_t a, size_t n) { return fails(ALLOC, ENOMEM) ? NULL : NEXT(memalign)(a, n); }
void* aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
int posix_memalign(void** p, size_t a, size_t n) {
  *p = memalign(a, n);
  return *p ? 0 : ENOMEM;
}

// LeakSanitizer's operators new do not call malloc(). These are those of the C++ library, by their
// names for the linker, and so is the function that throws std::bad_alloc.
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));
static void* or_throw(void* p) {
  if (!p) _ZSt17__throw_bad_allocv();
  return p;
}
void* _Znwm(size_t n) { return or_throw(malloc(n ? n : 1)); }
void* _Znam(size_t n) { return or_throw(malloc(n ? n : 1)); }
void* _ZnwmSt11align_val_t(size_t n, size_t a) { return or_throw(memalign(a, n ? n : 1)); }
void* _ZnamSt11align_val_t(size_t n, size_t a) { return or_throw(memalign(a, n ? n : 1)); }
void* _ZnwmRKSt9nothrow_t(size_t n, const void* tag) { return (void)tag, malloc(n ? n : 1); }
void* _ZnamRKSt9nothrow_t(size_t n, const void* tag) { return (void)tag, malloc(n ? n : 1); }

ssize_t read(int fd, void* to, size_t n) { return fails(READ, EIO) ? -1 : REAL(read)(fd, to, n); }
ssize_t readv(int fd, const struct iovec* v, int n) {
  return fails(READ, EIO) ? -1 : REAL(readv)(fd, v, n);
}
ssize_t pread(int fd, void* to, size_t n, off_t at) {
  return fails(READ, EIO) ? -1 : REAL(pread)(fd, to, n, at);
}
ssize_t pread64(int fd, void* to, size_t n, off64_t at) {
  return fails(READ, EIO) ? -1 : REAL(pread64)(fd, to, n, at);
}
ssize_t write(int fd, const void* from, size_t n) {
  return fd != 2 && fails(WRITE, ENOSPC) ? -1 : REAL(write)(fd, from, n);
}
ssize_t writev(int fd, const struct iovec* v, int n) {
  return fd != 2 && fails(WRITE, ENOSPC) ? -1 : REAL(writev)(fd, v, n);
}
ssize_t pwrite(int fd, const void* from, size_t n, off_t at) {
  return fails(WRITE, ENOSPC) ? -1 : REAL(pwrite)(fd, from, n, at);
}
ssize_t pwrite64(int fd, const void* from, size_t n, off64_t at) {
  return fails(WRITE, ENOSPC) ? -1 : REAL(pwrite64)(fd, from, n, at);
}

int rename(const char* from, const char* to) {
  note("rename", to);
  return fails(RENAME, EACCES) ? -1 : REAL(rename)(from, to);
}
int renameat2(int a, const char* from, int b, const char* to, unsigned flags) {
  note("rename", to);
  return fails(RENAME, EACCES) ? -1 : REAL(renameat2)(a, from, b, to, flags);
}
void* mmap(void* p, size_t n, int prot, int flags, int fd, off_t at) {
  return fails(MMAP, ENOMEM) ? MAP_FAILED : REAL(mmap)(p, n, prot, flags, fd, at);
}
void* mmap64(void* p, size_t n, int prot, int flags, int fd, off64_t at) {
  return fails(MMAP, ENOMEM) ? MAP_FAILED : REAL(mmap64)(p, n, prot, flags, fd, at);
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return fails(OPEN, EMFILE) ? -1 : REAL(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  return fails(OPEN, EMFILE) ? -1 : REAL(open64)(path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  return fails(OPEN, EMFILE) ? NULL : REAL(fopen)(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  return fails(OPEN, EMFILE) ? NULL : REAL(fopen64)(path, mode);
}

int fsync(int fd) {
  note_file("sync", fd);
  return fails(SYNC, EIO) ? -1 : REAL(fsync)(fd);
}
int fdatasync(int fd) {
  note_file("sync", fd);
  return fails(SYNC, EIO) ? -1 : REAL(fdatasync)(fd);
}
int ftruncate(int fd, off_t n) { return fails(SYNC, EIO) ? -1 : REAL(ftruncate)(fd, n); }
int ftruncate64(int fd, off64_t n) { return fails(SYNC, EIO) ? -1 : REAL(ftruncate64)(fd, n); }

int stat(const char* path, struct stat* to) {
  return fails(STAT, EACCES) ? -1 : REAL(stat)(path, to);
}
int stat64(const char* path, struct stat64* to) {
  return fails(STAT, EACCES) ? -1 : REAL(stat64)(path, to);
}
int lstat(const char* path, struct stat* to) {
  return fails(STAT, EACCES) ? -1 : REAL(lstat)(path, to);
}
int lstat64(const char* path, struct stat64* to) {
  return fails(STAT, EACCES) ? -1 : REAL(lstat64)(path, to);
}
int fstat(int fd, struct stat* to) { return fails(STAT, EIO) ? -1 : REAL(fstat)(fd, to); }
int fstat64(int fd, struct stat64* to) { return fails(STAT, EIO) ? -1 : REAL(fstat64)(fd, to); }

DIR* opendir(const char* path) { return fails(FOLDER, EMFILE) ? NULL : REAL(opendir)(path); }
int mkdir(const char* path, mode_t mode) {
  return fails(FOLDER, ENOSPC) ? -1 : REAL(mkdir)(path, mode);
}
int unlink(const char* path) { return fails(FOLDER, EACCES) ? -1 : REAL(unlink)(path); }
int remove(const char* path) { return fails(FOLDER, EACCES) ? -1 : REAL(remove)(path); }
int symlink(const char* to, const char* path) {
  return fails(FOLDER, ENOSPC) ? -1 : REAL(symlink)(to, path);
}

int socket(int domain, int type, int protocol) {
  return fails(NET, EMFILE) ? -1 : REAL(socket)(domain, type, protocol);
}
int connect(int fd, const struct sockaddr* to, socklen_t n) {
  return fails(NET, ECONNREFUSED) ? -1 : REAL(connect)(fd, to, n);
}
ssize_t send(int fd, const void* from, size_t n, int flags) {
  return fails(NET, ECONNRESET) ? -1 : REAL(send)(fd, from, n, flags);
}
ssize_t recv(int fd, void* to, size_t n, int flags) {
  return fails(NET, ECONNRESET) ? -1 : REAL(recv)(fd, to, n, flags);
}

int flock(int fd, int operation) {
  if (no_locks) {
    errno = ENOLCK;
    return -1;
  }
  return REAL(flock)(fd, operation);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*),
                   void* argument) {
  if (fails(THREAD, EAGAIN)) return EAGAIN;
  return REAL(pthread_create)(thread, attributes, work, argument);
}

static int (*real_main)(int, char**, char**);

static int wrapped_main(int argc, char** argv, char** environment) {
  const char* fault = getenv("SKALD_FAULT");
  for (int i = 0; fault && i < KINDS; ++i) {
    const size_t length = strlen(kNames[i]);
    if (strncmp(fault, kNames[i], length) == 0 && fault[length] == ':') {
      fault_kind = i;
      atomic_store(&fault_at, atol(fault + length + 1));
    }
  }
  no_locks = getenv("SKALD_FAULT_NO_LOCKS") != NULL;
  if (getenv("SKALD_FAULT_LOG")) {
    log_file =
        REAL(open)(getenv("SKALD_FAULT_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  if (getenv("SKALD_FAULT_LEAK")) {
    void* volatile lost = malloc(1000);
    lost = NULL;
    (void)lost;
  }
  void* frame;
  backtrace(&frame, 1);  // loads what it needs
  atomic_store(&running, 1);
  const int code = real_main(argc, argv, environment);
  atomic_store(&running, 0);
  FILE* file = getenv("SKALD_FAULT_COUNT") ? REAL(fopen)(getenv("SKALD_FAULT_COUNT"), "w") : NULL;
  for (int i = 0; file && i < KINDS; ++i) {
    fprintf(file, "%s %ld\n", kNames[i], atomic_load(&counts[i]));
  }
  if (file) fclose(file);
  return code;
}

typedef int (*Start)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void),
                     void (*)(void), void*);

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void* stack_end) {
  real_main = main;
  return ((Start)real("__libc_start_main"))(wrapped_main, argc, argv, init, fini, rtld_fini,
                                            stack_end);
}
