/*
 * Loaded into a process with LD_PRELOAD, this library makes chosen file system calls below chosen
 * directories fail, wait or hang, as the control file says that JBODLAB_FAULT_RULES names.
 *
 * How to think about it. Each wrapper asks with one atomic load whether any rule names a class of its
 * call; if none does, that was all. If one does, `decide` finds out which file the call is about, looks
 * for rules on it, waits as they say, and the wrapper returns their errno or makes the real call.
 *
 * The control file is mapped and shared: by every process that uses it and with whoever sets the rules
 * (control.py; rules.py draws its layout). There are two banks of rules; the generation says which one
 * holds. The writer fills the other one and then publishes it with a single store, so that a reader
 * never meets half a rule: it copies one and takes the copy only if the generation is still the same.
 *
 * The file of a handle is asked of the kernel at each such call and never remembered: a handle can
 * be closed, replaced or its file renamed in ways that no wrapper sees, and the answer is wanted only
 * while a rule is armed. Connections are known by their ports: made ones are refused by that of the other
 * end, incoming ones by that which is listened on, unless they come from an address that marks them. There is no lock, no allocation and no output in here, except one line at the
 * start if the control file cannot be used. Linux and glibc, 64 bit.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { CREATE = 1, OPEN = 2, READ = 4, WRITE = 8, SYNC = 16, TRUNCATE = 32, RENAME = 64, REMOVE = 128,
       LIST = 256, STAT = 512, CONNECT = 1024, ACCEPT = 2048 }; /* as CallClass in rules.py */
enum { CLASS_BITS = 16, BANKS = 2, RULES = 16, COUNTERS = 64, PATH_BYTES = 1024 };
static const uint64_t SECOND = 1000000000, WAIT_MAX = 600 * SECOND, WAIT_STEP = SECOND / 200;
static const uint32_t MILLION = 1000000;

struct rule {
    uint32_t calls;                                   /* classes; 0 ends the bank */
    int32_t error;                                    /* 0: the call is made after all */
    uint64_t delay_ns, jitter_ns;
    uint64_t hang_until_ns, hang_ns;                  /* monotonic; 0: does not hang */
    uint64_t after, limit, seed;                      /* first spared; broken at most, 0: all */
    uint32_t every, chance;                           /* each n-th; so many of a million */
    uint32_t counter, directory_bytes;
    char name[48];                                    /* with * and ?; empty: any */
    uint64_t until_ns;                                /* monotonic, when the rule ends; 0: never */
    char directory[376];                              /* or ports, for connections */
};
struct counter { _Atomic uint64_t seen, broken, first_ns, last_ns; uint64_t unused[4]; };
struct control {
    char magic[8];
    _Atomic uint64_t state;                           /* generation << CLASS_BITS | classes of all rules */
    _Atomic uint64_t attached;
    uint64_t unused[5];                               /* the first: classes met, written by others */
    struct counter counters[COUNTERS];
    struct rule banks[BANKS][RULES];
};
_Static_assert(sizeof(struct rule) == 512 && sizeof(struct counter) == 64, "layout of rules.py");
_Static_assert(sizeof(void *) == 8, "64 bit only");

static const uint32_t MARK = 0x7f4a4244;              /* 127.74.66.68, as in rules.py */
static const int MARKED = -1;

/* What a call is about: one end of it, as two have a rename or a copy. */
struct place { unsigned classes; size_t length; char path[PATH_BYTES]; };

static struct control none;
static struct control *control = &none;

__attribute__((constructor)) static void attach(void)
{
    const char *path = getenv("JBODLAB_FAULT_RULES");
    struct stat found;
    if (!path)
        return;
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    void *page = MAP_FAILED;
    if (fd >= 0 && syscall(SYS_fstat, fd, &found) == 0 && found.st_size == sizeof *control)
        page = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (page == MAP_FAILED || memcmp(page, "JBODFLT2", 8) != 0) {
        dprintf(2, "jbodlab: no faults can be injected: %s is not a usable control file\n", path);
        return;
    }
    control = page;
    atomic_fetch_add(&control->attached, 1);
}

static uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

/* splitmix64: the same call of the same seed is always decided alike. */
static uint64_t mixed(uint64_t seed, uint64_t number)
{
    uint64_t value = seed + (number + 1) * 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* ---- Which file ------------------------------------------------------------------------------ */

static int locate_link(int fd, struct place *place)
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, place->path, sizeof place->path - 1);
    if (length <= 0 || place->path[0] != '/')
        return 0;
    static const char deleted[] = " (deleted)";
    size_t tail = sizeof deleted - 1;
    if ((size_t)length > tail && memcmp(place->path + length - tail, deleted, tail) == 0)
        length -= tail;
    place->path[length] = 0;
    place->length = length;
    return 1;
}

/* The file of a handle; 0 for what is neither file nor directory: sockets and pipes are never touched. */
static int locate_handle(int fd, struct place *place)
{
    struct stat found;
    if (syscall(SYS_fstat, fd, &found) != 0 || !(S_ISREG(found.st_mode) || S_ISDIR(found.st_mode)))
        return 0;
    return locate_link(fd, place);
}

static int locate_existing(int at, const char *path, int nofollow, struct place *place)
{
    int fd = syscall(SYS_openat, at, path, O_PATH | O_CLOEXEC | nofollow);
    if (fd < 0)
        return 0;
    int located = locate_link(fd, place);
    close(fd);
    return located;
}

/* The file that a path leads to, links followed as the call follows them (`nofollow`: 0 or O_NOFOLLOW).
 * Sets *exists if there is one; where there is none, or it cannot be reached, its folder and its name. */
static int locate_path(int at, const char *path, int nofollow, struct place *place, int *exists)
{
    if (!path)
        return 0;
    if (!*path)                                       /* AT_EMPTY_PATH */
        return *exists = locate_handle(at, place);
    if ((*exists = locate_existing(at, path, nofollow, place)))
        return 1;
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t name = end;
    while (name > 0 && path[name - 1] != '/')
        name--;
    if (end >= PATH_BYTES)
        return 0;
    char folder[PATH_BYTES] = ".";
    if (name)
        memcpy(folder, path, name), folder[name] = 0;
    if (locate_existing(at, folder, 0, place) && place->length + 1 + end - name < PATH_BYTES) {
        if (place->length > 1)
            place->path[place->length++] = '/';
        memcpy(place->path + place->length, path + name, end - name);
        place->length += end - name;
    } else if (path[0] == '/') {
        memcpy(place->path, path, place->length = end);
    } else {
        return 0;
    }
    place->path[place->length] = 0;
    return 1;
}

/* ---- Which rule ------------------------------------------------------------------------------ */

static int matches_name(const char *pattern, const char *name)
{
    const char *star = NULL, *resume = NULL;
    while (*name) {
        if (*pattern == '*')
            star = ++pattern, resume = name;
        else if (*pattern == '?' || *pattern == *name)
            pattern++, name++;
        else if (star)
            pattern = star, name = ++resume;
        else
            return 0;
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

static int concerns(const struct rule *rule, const struct place *place)
{
    size_t length = rule->directory_bytes;
    if (!(rule->calls & place->classes) || place->length < length)
        return 0;
    if (memcmp(place->path, rule->directory, length) != 0 ||
        (place->path[length] != 0 && place->path[length] != '/'))
        return 0;
    return !rule->name[0] || matches_name(rule->name, strrchr(place->path, '/') + 1);
}

/* Counts a call that a rule concerns; returns whether it is to be broken. */
static int chosen(const struct rule *rule, uint64_t now, uint64_t *number)
{
    struct counter *counter = &control->counters[rule->counter % COUNTERS];
    *number = atomic_fetch_add(&counter->seen, 1);
    if (*number < rule->after || (*number - rule->after) % (rule->every ? rule->every : 1) != 0)
        return 0;
    if (mixed(rule->seed, *number) % MILLION >= rule->chance)
        return 0;
    if (!rule->error && !rule->delay_ns && !rule->jitter_ns && now >= rule->hang_until_ns)
        return 0;                                     /* a hang that is over */
    uint64_t before = atomic_load(&counter->broken), never = 0;
    do {
        if (rule->limit && before >= rule->limit)
            return 0;
    } while (!atomic_compare_exchange_weak(&counter->broken, &before, before + 1));
    atomic_compare_exchange_strong(&counter->first_ns, &never, now);
    atomic_store(&counter->last_ns, now);
    return 1;
}

/* Waits until then; 0 if the rules were changed or healed meanwhile. */
static int wait_until(uint64_t end, uint64_t state)
{
    while (atomic_load(&control->state) == state) {
        uint64_t now = monotonic_ns();
        if (now >= end)
            return 1;
        uint64_t left = end - now < WAIT_STEP ? end - now : WAIT_STEP;
        nanosleep(&(struct timespec){.tv_nsec = left}, NULL);
    }
    return 0;
}

/* Does to a call what the rules say; returns the errno to fail with, or 0. A call that waits while the
 * rules change is judged again by the new ones: it goes on waiting, from when it began, if they say so. */
static int verdict(const struct place *places, int count)
{
    uint64_t begun = monotonic_ns(), counted = 0, broken = 0, numbers[COUNTERS];
again:;
    uint64_t state = atomic_load(&control->state), due = begun;
    const struct rule *bank = control->banks[(state >> CLASS_BITS) % BANKS];
    for (int i = 0; i < RULES; i++) {
        struct rule rule = bank[i];
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load(&control->state) != state)
            goto again;
        if (!rule.calls)
            break;
        if (rule.until_ns && begun >= rule.until_ns)
            continue;
        if (!concerns(&rule, &places[0]) && !(count > 1 && concerns(&rule, &places[1])))
            continue;
        uint64_t *number = &numbers[rule.counter % COUNTERS], bit = 1ull << rule.counter % COUNTERS;
        if (!(counted & bit) && chosen(&rule, begun, number))
            broken |= bit;
        counted |= bit;
        if (!(broken & bit))
            continue;
        uint64_t limit = begun + WAIT_MAX;
        if (rule.until_ns && rule.until_ns < limit)
            limit = rule.until_ns;
        uint64_t hang_until = rule.hang_until_ns < limit ? rule.hang_until_ns : limit;
        due += rule.delay_ns + (rule.jitter_ns ? mixed(~rule.seed, *number) % rule.jitter_ns : 0);
        if (!wait_until(hang_until, state) || !wait_until(due < limit ? due : limit, state))
            goto again;
        if (rule.error)
            return rule.error;
    }
    return 0;
}

/* ---- Connections ------------------------------------------------------------------------------ */

static int port_of(const struct sockaddr *address)
{
    if (address && address->sa_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)address)->sin_port);
    if (address && address->sa_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return 0;
}

/* What the rules say about a connection: an errno, MARKED, or 0. */
static int about_port(unsigned class, uint16_t port)
{
    uint64_t now = monotonic_ns(), number;
again:;
    uint64_t state = atomic_load(&control->state);
    const struct rule *bank = control->banks[(state >> CLASS_BITS) % BANKS];
    for (int i = 0; port && i < RULES; i++) {
        struct rule rule = bank[i];
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load(&control->state) != state)
            goto again;
        if (!rule.calls)
            break;
        if (!(rule.calls & class) || (rule.until_ns && now >= rule.until_ns))
            continue;
        for (size_t at = 0; at + sizeof port <= rule.directory_bytes; at += sizeof port)
            if (memcmp(rule.directory + at, &port, sizeof port) == 0) {
                if (!rule.error)
                    return MARKED;
                if (chosen(&rule, now, &number))
                    return rule.error;
            }
    }
    return 0;
}

static void mark(int fd, int family)
{
    struct sockaddr_in short_one = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(MARK)};
    struct sockaddr_in6 long_one = {.sin6_family = AF_INET6};
    uint32_t address = htonl(MARK);
    memset(long_one.sin6_addr.s6_addr + 10, 0xff, 2);
    memcpy(long_one.sin6_addr.s6_addr + 12, &address, sizeof address);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){1}, sizeof(int));
    if (family == AF_INET)
        bind(fd, (struct sockaddr *)&short_one, sizeof short_one);
    else
        bind(fd, (struct sockaddr *)&long_one, sizeof long_one);
}

static int is_marked(const struct sockaddr_storage *peer)
{
    uint32_t address = htonl(MARK);
    if (peer->ss_family == AF_INET)
        return ((const struct sockaddr_in *)peer)->sin_addr.s_addr == address;
    return memcmp(((const struct sockaddr_in6 *)peer)->sin6_addr.s6_addr + 12, &address, sizeof address) == 0;
}

/* Returns the errno that a connection is refused with, or 0; marks it where the rules say so. */
static int refused(int fd, const struct sockaddr *address)
{
    int saved = errno, said = about_port(CONNECT, port_of(address));
    if (said == MARKED)
        mark(fd, address->sa_family);
    errno = saved;
    return said > 0 ? said : 0;
}

/* Drops a connection that has just been accepted, if the rules say so; returns whether it did. */
static int dropped(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t length = sizeof here, peer_length = sizeof there;
    int saved = errno;
    int is_inet = getsockname(fd, (struct sockaddr *)&here, &length) == 0 &&
                  getpeername(fd, (struct sockaddr *)&there, &peer_length) == 0;
    int port = is_inet ? port_of((struct sockaddr *)&here) : 0;
    int drops = port && !is_marked(&there) && about_port(ACCEPT, port) > 0;
    if (drops) {                                      /* with a reset, as a network that is gone */
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
        close(fd);
    }
    errno = saved;
    return drops;
}

/* ---- The ends of a call: each returns whether it is to fail, with errno set; else errno is kept -- */

#define ARMED(classes) (atomic_load_explicit(&control->state, memory_order_relaxed) & (classes))

static int settle(int error, int saved)
{
    errno = error ? error : saved;
    return error != 0;
}

static int broken_handle(unsigned classes, int fd)
{
    int saved = errno;
    struct place place = {.classes = classes};
    return settle(locate_handle(fd, &place) ? verdict(&place, 1) : 0, saved);
}

static int broken_path(unsigned classes, int at, const char *path, int nofollow)
{
    int saved = errno, exists;
    struct place place = {.classes = classes};
    return settle(locate_path(at, path, nofollow, &place, &exists) ? verdict(&place, 1) : 0, saved);
}

static int broken_copy(int source, int target)
{
    int saved = errno;
    struct place places[2] = {{.classes = READ}, {.classes = WRITE}};
    int first = locate_handle(source, &places[0]), second = locate_handle(target, &places[1]);
    int count = first + second;
    return settle(count ? verdict(first ? places : places + 1, count) : 0, saved);
}

static int broken_rename(int at, const char *from, int to_at, const char *to)
{
    int saved = errno, exists;
    struct place places[2] = {{.classes = RENAME}, {.classes = RENAME}};
    int first = locate_path(at, from, O_NOFOLLOW, &places[0], &exists);
    int second = locate_path(to_at, to, O_NOFOLLOW, &places[1], &exists);
    int count = first + second;
    return settle(count ? verdict(first ? places : places + 1, count) : 0, saved);
}

/* Opening creates only what is not there yet, truncates only what is, and opens a directory to list it. */
static int broken_open(int at, const char *path, int flags)
{
    int saved = errno, exists;
    struct place place;
    if ((flags & O_PATH) || !locate_path(at, path, flags & O_NOFOLLOW, &place, &exists))
        return settle(0, saved);
    if ((flags & O_TMPFILE) == O_TMPFILE || (!exists && (flags & O_CREAT)))
        place.classes = CREATE;
    else
        place.classes = (flags & O_DIRECTORY ? LIST : OPEN) | (flags & O_TRUNC ? TRUNCATE : 0);
    return settle(verdict(&place, 1), saved);
}

#include "calls.h"
