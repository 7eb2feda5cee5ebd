/*
 * The calls that shim.c wraps, each with the class of rules it belongs to and the file it is about.
 *
 * They are what CPython 3.11 to 3.13, uvloop, grpc and a JVM call (their undefined symbols in `nm -D`), and
 * the twins of these: with and without 64, `__xstat` for what was built with a glibc before 2.33,
 * `__open_2` for what was built with _FORTIFY_SOURCE; and the two ends of a connection. Closing and
 * locking never reach a disk, and readdir goes on from libc's buffer once a directory was opened: they
 * are left alone.
 */

/* libc's own function. Programs built for an old glibc call names that are hidden from plain dlsym. */
static void *libc_function(const char *name)
{
    static const char *const oldest[] = {"GLIBC_2.2.5", "GLIBC_2.4", "GLIBC_2.17"};
    void *found = dlsym(RTLD_NEXT, name);
    for (size_t i = 0; !found && i < sizeof oldest / sizeof *oldest; i++)
        found = dlvsym(RTLD_NEXT, name, oldest[i]);
    return found;
}

/* The constructor finds each function before there are threads and signal handlers; a library that was
 * initialised even earlier may call before that. */
#define NEXT(type, name, parameters)                                                                    \
    static type(*next_##name) parameters;                                                               \
    __attribute__((constructor)) static void find_##name(void) { next_##name = libc_function(#name); }
#define FOUND(name) (next_##name || (find_##name(), next_##name) || (errno = ENOSYS, 0))

#define CALL(type, failure, name, parameters, arguments, classes, broken)                               \
    NEXT(type, name, parameters)                                                                        \
    type name parameters                                                                                \
    {                                                                                                   \
        return !FOUND(name) || (ARMED(classes) && (broken)) ? failure : next_##name arguments;          \
    }
#define BY_HANDLE(type, name, parameters, arguments, class, fd)                                         \
    CALL(type, -1, name, parameters, arguments, class, broken_handle(class, fd))
#define BY_PATH(name, parameters, arguments, class, at, path, nofollow)                                 \
    CALL(int, -1, name, parameters, arguments, class, broken_path(class, at, path, nofollow))
#define BY_NAME(name, parameters, arguments, class, at, path) /* of a link itself */                    \
    BY_PATH(name, parameters, arguments, class, at, path, O_NOFOLLOW)
#define RENAME_CALL(name, parameters, arguments, at, to_at)                                             \
    CALL(int, -1, name, parameters, arguments, RENAME, broken_rename(at, from, to_at, to))
#define COPY_CALL(name, parameters, arguments)                                                          \
    CALL(ssize_t, -1, name, parameters, arguments, READ | WRITE, broken_copy(source, target))
#define OPENING (CREATE | OPEN | LIST | TRUNCATE)
#define OPEN_CALL(name, parameters, arguments, at, flags)                                               \
    CALL(int, -1, name, parameters, arguments, OPENING, broken_open(at, path, flags))
#define OPEN_WITH_MODE(name, parameters, arguments, at)                                                 \
    NEXT(int, name, parameters)                                                                         \
    int name parameters                                                                                 \
    {                                                                                                   \
        mode_t mode = 0;                                                                                \
        if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                                    \
            va_list rest;                                                                               \
            va_start(rest, flags);                                                                      \
            mode = va_arg(rest, mode_t);                                                                \
            va_end(rest);                                                                               \
        }                                                                                               \
        return !FOUND(name) || (ARMED(OPENING) && broken_open(at, path, flags)) ? -1                    \
                                                                            : next_##name arguments;    \
    }
#define NOFOLLOW(flags) ((flags) & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0)

/* What libc has twice, with the suffix 64 and without. */
#define TWINS(S, offset)                                                                                \
    OPEN_WITH_MODE(open##S, (const char *path, int flags, ...), (path, flags, mode), AT_FDCWD)          \
    OPEN_WITH_MODE(openat##S, (int at, const char *path, int flags, ...), (at, path, flags, mode), at)  \
    OPEN_CALL(__open##S##_2, (const char *path, int flags), (path, flags), AT_FDCWD, flags)             \
    OPEN_CALL(__openat##S##_2, (int at, const char *path, int flags), (at, path, flags), at, flags)     \
    OPEN_CALL(creat##S, (const char *path, mode_t mode), (path, mode), AT_FDCWD, O_CREAT | O_TRUNC)     \
    BY_HANDLE(ssize_t, pread##S, (int fd, void *data, size_t size, offset at), (fd, data, size, at),    \
              READ, fd)                                                                                 \
    BY_HANDLE(ssize_t, preadv##S, (int fd, const struct iovec *parts, int count, offset at),            \
              (fd, parts, count, at), READ, fd)                                                         \
    BY_HANDLE(ssize_t, pwrite##S, (int fd, const void *data, size_t size, offset at),                   \
              (fd, data, size, at), WRITE, fd)                                                          \
    BY_HANDLE(ssize_t, pwritev##S, (int fd, const struct iovec *parts, int count, offset at),           \
              (fd, parts, count, at), WRITE, fd)                                                        \
    BY_HANDLE(int, fallocate##S, (int fd, int mode, offset at, offset size), (fd, mode, at, size),      \
              WRITE, fd)                                                                                \
    CALL(int, errno, posix_fallocate##S, (int fd, offset at, offset size), (fd, at, size), WRITE,       \
         broken_handle(WRITE, fd)) /* which returns the error itself */                                 \
    COPY_CALL(sendfile##S, (int target, int source, offset *at, size_t size),                           \
              (target, source, at, size))                                                               \
    BY_HANDLE(int, ftruncate##S, (int fd, offset size), (fd, size), TRUNCATE, fd)                       \
    BY_PATH(truncate##S, (const char *path, offset size), (path, size), TRUNCATE, AT_FDCWD, path, 0)    \
    BY_PATH(stat##S, (const char *path, struct stat##S *found), (path, found), STAT,                    \
            AT_FDCWD, path, 0)                                                                          \
    BY_NAME(lstat##S, (const char *path, struct stat##S *found), (path, found), STAT, AT_FDCWD, path)   \
    BY_HANDLE(int, fstat##S, (int fd, struct stat##S *found), (fd, found), STAT, fd)                    \
    BY_PATH(fstatat##S, (int at, const char *path, struct stat##S *found, int flags),                   \
            (at, path, found, flags), STAT, at, path, NOFOLLOW(flags))                                  \
    BY_PATH(__xstat##S, (int version, const char *path, struct stat##S *found),                         \
            (version, path, found), STAT, AT_FDCWD, path, 0)                                            \
    BY_NAME(__lxstat##S, (int version, const char *path, struct stat##S *found),                        \
            (version, path, found), STAT, AT_FDCWD, path)                                               \
    BY_HANDLE(int, __fxstat##S, (int version, int fd, struct stat##S *found),                           \
              (version, fd, found), STAT, fd)                                                           \
    BY_PATH(__fxstatat##S, (int version, int at, const char *path, struct stat##S *found, int flags),   \
            (version, at, path, found, flags), STAT, at, path, NOFOLLOW(flags))                         \
    BY_PATH(statvfs##S, (const char *path, struct statvfs##S *found), (path, found), STAT,              \
            AT_FDCWD, path, 0)                                                                          \
    BY_HANDLE(int, fstatvfs##S, (int fd, struct statvfs##S *found), (fd, found), STAT, fd)
TWINS(, off_t)
TWINS(64, off64_t)
#define WITH_FLAGS(name, offset, class)                                                                 \
    BY_HANDLE(ssize_t, name, (int fd, const struct iovec *parts, int count, offset at, int flags),      \
              (fd, parts, count, at, flags), class, fd)
WITH_FLAGS(preadv2, off_t, READ)
WITH_FLAGS(preadv64v2, off64_t, READ)
WITH_FLAGS(pwritev2, off_t, WRITE)
WITH_FLAGS(pwritev64v2, off64_t, WRITE)

BY_NAME(mkdir, (const char *path, mode_t mode), (path, mode), CREATE, AT_FDCWD, path)
BY_NAME(mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), CREATE, at, path)
BY_NAME(symlink, (const char *from, const char *to), (from, to), CREATE, AT_FDCWD, to)
BY_NAME(symlinkat, (const char *from, int at, const char *to), (from, at, to), CREATE, at, to)
BY_NAME(link, (const char *from, const char *to), (from, to), CREATE, AT_FDCWD, to)
BY_NAME(linkat, (int at, const char *from, int to_at, const char *to, int flags),
        (at, from, to_at, to, flags), CREATE, to_at, to)

BY_HANDLE(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size), READ, fd)
BY_HANDLE(ssize_t, readv, (int fd, const struct iovec *parts, int count), (fd, parts, count), READ, fd)
BY_HANDLE(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), WRITE, fd)
BY_HANDLE(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count), WRITE, fd)
COPY_CALL(copy_file_range, (int source, off64_t *at, int target, off64_t *to, size_t size, unsigned flags),
          (source, at, target, to, size, flags))
COPY_CALL(splice, (int source, off64_t *at, int target, off64_t *to, size_t size, unsigned flags),
          (source, at, target, to, size, flags))

BY_HANDLE(int, fsync, (int fd), (fd), SYNC, fd)
BY_HANDLE(int, fdatasync, (int fd), (fd), SYNC, fd)
BY_HANDLE(int, syncfs, (int fd), (fd), SYNC, fd)
BY_HANDLE(int, sync_file_range, (int fd, off64_t at, off64_t size, unsigned flags), (fd, at, size, flags),
          SYNC, fd)

RENAME_CALL(rename, (const char *from, const char *to), (from, to), AT_FDCWD, AT_FDCWD)
RENAME_CALL(renameat, (int at, const char *from, int to_at, const char *to), (at, from, to_at, to), at, to_at)
RENAME_CALL(renameat2, (int at, const char *from, int to_at, const char *to, unsigned flags),
            (at, from, to_at, to, flags), at, to_at)

BY_NAME(unlink, (const char *path), (path), REMOVE, AT_FDCWD, path)
BY_NAME(unlinkat, (int at, const char *path, int flags), (at, path, flags), REMOVE, at, path)
BY_NAME(rmdir, (const char *path), (path), REMOVE, AT_FDCWD, path)
BY_NAME(remove, (const char *path), (path), REMOVE, AT_FDCWD, path)

CALL(DIR *, NULL, opendir, (const char *path), (path), LIST, broken_path(LIST, AT_FDCWD, path, 0))
CALL(DIR *, NULL, fdopendir, (int fd), (fd), LIST, broken_handle(LIST, fd))

BY_PATH(statx, (int at, const char *path, int flags, unsigned mask, struct statx *found),
        (at, path, flags, mask, found), STAT, at, path, NOFOLLOW(flags))
BY_PATH(access, (const char *path, int mode), (path, mode), STAT, AT_FDCWD, path, 0)
BY_PATH(faccessat, (int at, const char *path, int mode, int flags), (at, path, mode, flags), STAT, at, path,
        NOFOLLOW(flags))

NEXT(int, connect, (int fd, const struct sockaddr *address, socklen_t length))
int connect(int fd, const struct sockaddr *address, socklen_t length)
{
    int error = ARMED(CONNECT) ? refused(fd, address) : 0;
    if (error)
        errno = error;
    return error || !FOUND(connect) ? -1 : next_connect(fd, address, length);
}

/* One that is dropped was never there: the next one is waited for. */
#define ACCEPT_CALL(name, parameters, arguments)                                                        \
    NEXT(int, name, parameters)                                                                         \
    int name parameters                                                                                 \
    {                                                                                                   \
        socklen_t room = length ? *length : 0;                                                          \
        int accepted = -1;                                                                              \
        while (FOUND(name) && (accepted = next_##name arguments) >= 0 && ARMED(ACCEPT) &&               \
               dropped(accepted)) {                                                                     \
            if (length)                                                                                 \
                *length = room;                                                                         \
        }                                                                                               \
        return accepted;                                                                                \
    }
ACCEPT_CALL(accept, (int fd, struct sockaddr *restrict address, socklen_t *restrict length),
            (fd, address, length))
ACCEPT_CALL(accept4, (int fd, struct sockaddr *restrict address, socklen_t *restrict length, int flags),
            (fd, address, length, flags))
