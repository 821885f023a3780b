// A reader of one file through libnfs, as small as it can be: random records, so many under way, for so long. Prints what it read.
// Debian's fio has no engine for NFS. Declared here is what it uses of libnfs 4 (nfsc/libnfs.h), so that the library alone is needed.
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct nfs_context;
struct nfsfh;
struct nfs_url { char *server, *path, *file; };
typedef void (*nfs_cb)(int status, struct nfs_context *nfs, void *data, void *own);
struct nfs_context *nfs_init_context(void);
struct nfs_url *nfs_parse_url_full(struct nfs_context *nfs, const char *url);
int nfs_mount(struct nfs_context *nfs, const char *server, const char *path);
int nfs_open(struct nfs_context *nfs, const char *path, int flags, struct nfsfh **file);
int nfs_pread_async(struct nfs_context *nfs, struct nfsfh *file, uint64_t offset, uint64_t count, nfs_cb done, void *own);
int nfs_get_fd(struct nfs_context *nfs);
int nfs_which_events(struct nfs_context *nfs);
int nfs_service(struct nfs_context *nfs, int events);
char *nfs_get_error(struct nfs_context *nfs);

static struct nfsfh *file;
static uint64_t records, record, finished, under_way, seed = 1;
static struct timespec end;
static int over;

static void fail(struct nfs_context *nfs, const char *what) {
    fprintf(stderr, "%s: %s\n", what, nfs_get_error(nfs));
    exit(1);
}

static void next(struct nfs_context *nfs);

static void done(int status, struct nfs_context *nfs, void *data, void *own) {
    (void)data;
    (void)own;
    under_way--;
    if (status != (int)record) fail(nfs, "a read");
    finished++;
    if (!over) next(nfs);
}

static void next(struct nfs_context *nfs) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    if (nfs_pread_async(nfs, file, seed % records * record, record, done, NULL)) fail(nfs, "submitting a read");
    under_way++;
}

int main(int count, char **words) {
    if (count != 6) return fprintf(stderr, "usage: %s URL SIZE RECORD DEPTH SECONDS\n", words[0]), 2;
    record = strtoull(words[3], NULL, 10), records = strtoull(words[2], NULL, 10) / record;
    struct nfs_context *nfs = nfs_init_context();
    struct nfs_url *url = nfs_parse_url_full(nfs, words[1]);
    if (!url || nfs_mount(nfs, url->server, url->path)) fail(nfs, "mounting");
    if (nfs_open(nfs, url->file, O_RDONLY, &file)) fail(nfs, "opening");
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += atol(words[5]);
    for (long depth = atol(words[4]); depth > 0; depth--) next(nfs);
    while (under_way > 0) {
        struct pollfd ready = {.fd = nfs_get_fd(nfs), .events = nfs_which_events(nfs)};
        if (poll(&ready, 1, 1000) < 0 || nfs_service(nfs, ready.revents)) fail(nfs, "waiting");
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        over = now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec);
    }
    return printf("%llu\n", (unsigned long long)finished), 0;
}
