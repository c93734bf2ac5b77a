/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files behind archive.h share; nobody else includes it.
 *
 * Data flow of a listing. zip.c and tar_list.c walk a directory and hand each entry to archive_add
 * (archive.c), which cleans the name, applies limits, opens inner archives (a recursion of depth
 * one) and appends the entry to the record log (archive_log.c): all entries in order, coded
 * compactly in memory. When the walk is over, archive_report.c reads the log again to find equal
 * names and hard-link targets, and a last time to call the caller's function. So the file is read
 * only once, and only its headers.
 */
#ifndef ARCHIVE_IMPL_H
#define ARCHIVE_IMPL_H

#include "archive.h"

enum {
    ARCHIVE_NAME_CAP = 65535,     /* bytes of any name held in memory */
    ARCHIVE_RATIO_FREE = 1 << 20, /* unpacked bytes below which no ratio is asked for */
    ARCHIVE_TAR_BLOCK = 512
};

/* ---- a range of a file ---- */

struct view {
    int fd;
    uint64_t start, bytes;
};

/* Reads exactly n bytes at `at` (relative to the view). SLIMSET_BAD_INPUT/truncated when the
 * view or the file is shorter. */
enum slimset_status view_read(const struct view *v, uint64_t at, void *out, size_t n,
                              struct slimset_error *err);

/* ---- the record log ---- */

enum record_flag {
    RECORD_DEFLATE = 1,
    RECORD_ZIP_LOCAL = 2,
    RECORD_CRC = 4,
    RECORD_SPOOL = 8,
    RECORD_INNER = 16,     /* a member of the container before it */
    RECORD_CONTAINER = 32, /* an inner archive that was opened */
    RECORD_LINK = 64,      /* a hard link; target is set */
    RECORD_RESTART = 128   /* the log's own */
};

struct record {
    const char *name;
    uint32_t name_bytes;
    uint32_t target_bytes;
    const char *target; /* RECORD_LINK: name of the file it stands for */
    uint8_t flags;
    uint8_t problem; /* enum slimset_reject */
    uint32_t crc32;
    uint64_t offset, packed_bytes, bytes;
    int64_t mtime_s;
};

struct log_chunk;

/* What the next record is coded against. */
struct log_base {
    uint64_t end; /* offset + packed_bytes of the record before */
    int64_t mtime_s;
    uint32_t name_bytes;
};

struct record_log {
    struct log_chunk *first, *last;
    uint64_t records, links, containers, bytes;
    uint64_t seed; /* hash over all names: the seed of the table of names */
    struct log_base base;
    bool restart; /* the next record stands for itself */
    char *name;   /* of the record before; ARCHIVE_NAME_CAP bytes */
};

struct log_mark {
    struct log_chunk *chunk;
    size_t at;
};

struct log_reader {
    struct log_chunk *chunk;
    size_t at;
    struct log_base base;
    char *name;
    uint8_t *problem; /* of the record last read, in the log: may be changed */
};

enum slimset_status log_init(struct record_log *l, struct slimset_error *err);
void log_fini(struct record_log *l);

/* Appends; strings are copied. SLIMSET_BAD_INPUT/too-large beyond 1 GiB of memory. */
enum slimset_status log_append(struct record_log *l, const struct record *r,
                               struct slimset_error *err);

/* A place to read from later; the next record is coded without looking back. */
struct log_mark log_mark_here(struct record_log *l);

/* Reads from a mark, or from the start (NULL). r.name is valid until the next read. */
enum slimset_status log_reader_init(struct log_reader *rd, const struct record_log *l,
                                    const struct log_mark *mark, struct slimset_error *err);
void log_reader_fini(struct log_reader *rd);
bool log_read(struct log_reader *rd, struct record *r);

/* ---- after the walk (archive_report.c) ---- */

struct lister;

/* Settles equal names and hard links and calls fn for every member. */
enum slimset_status archive_report(struct lister *l, archive_member_fn *fn, void *arg,
                                   struct slimset_error *err);

/* ---- the walk ---- */

struct lister {
    struct archive_limits limits;
    int spool_fd;
    struct archive_result *result;
    struct record_log log;
    uint64_t total_bytes; /* unpacked, of members without a problem */
    char *name, *target;  /* scratch for clean names, ARCHIVE_NAME_CAP bytes each */
};

/* One archive that is walked. */
struct walk {
    struct lister *l;
    struct view v;
    bool in_spool;
    bool inner;
    int depth;          /* levels below this one that may be opened */
    const char *prefix; /* "n01440764/" or "" */
    uint32_t prefix_bytes;
};

/* An entry as the directory tells it. Offsets are absolute in the file. */
struct entry {
    const char *name;
    size_t name_bytes;
    const char *target; /* hard link: its target as stored; else NULL */
    size_t target_bytes;
    bool deflate, zip_local, has_crc;
    uint64_t offset, packed_bytes, bytes;
    uint32_t crc32;
    int64_t mtime_s;
    enum slimset_reject problem;
};

/* Takes an entry over. Statuses that end the listing: SLIMSET_BAD_INPUT (limits), IO, NO_MEMORY. */
enum slimset_status archive_add(struct walk *w, const struct entry *e, struct slimset_error *err);

/* Notes that the directory is not whole (only the first text is kept). */
void archive_damage(const struct walk *w, const char *fmt, ...) ERR_PRINTF(2, 3);

/* ---- zip.c ---- */

struct zip_directory {
    uint64_t at, bytes; /* of the central directory, relative to the view */
    uint64_t entries;   /* as announced */
    uint64_t
        entries_mask; /* bits of it that count: a small zip's 16-bit counter may have wrapped */
    uint64_t delta;   /* bytes before the archive (self-extracting): added to each offset */
};

/* Finds the central directory. SLIMSET_BAD_INPUT: corrupt (none), encrypted, unsupported
 * (split). */
enum slimset_status zip_locate(const struct view *v, struct zip_directory *d,
                               struct slimset_error *err);

/* Adds every entry; damage is noted, not returned. */
enum slimset_status zip_walk(struct walk *w, const struct zip_directory *d,
                             struct slimset_error *err);

/* ---- tar_list.c ---- */

/* SLIMSET_OK when the view begins with a tar header or with an end marker. */
enum slimset_status tar_check(const struct view *v, struct slimset_error *err);

/* Whether these 512 bytes are a tar header (its checksum is right). */
bool tar_is_header(const uint8_t *block);

enum slimset_status tar_walk(struct walk *w, struct slimset_error *err);

/* ---- spool.c ---- */

/* Inflates the first bytes of a raw deflate stream; *got of at most n. A damaged stream yields
 * what came before the damage. */
enum slimset_status spool_peek_deflate(const struct view *v, uint8_t *out, size_t n, size_t *got,
                                       struct slimset_error *err);

/* Inflates a raw deflate stream that must give exactly `bytes` with that CRC to the end of
 * out_fd. */
enum slimset_status spool_deflate(const struct view *v, uint64_t bytes, uint32_t crc32, int out_fd,
                                  archive_space_fn *check_space, void *arg,
                                  struct slimset_error *err);

#endif
