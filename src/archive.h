/* SPDX-License-Identifier: Apache-2.0
 *
 * Archives read in place: where each member's bytes lie. Listing is done in a lister worker,
 * because directories of archives are untrusted; members are then read at their offset by any
 * worker, in parallel. No member name is ever used as a file-system path.
 *
 * Calling sequence: sniff the file. A zip or a plain tar goes to archive_list, which calls a
 * function for each member; a compressed tar is first turned into a plain one with archive_spool,
 * and the spool is listed instead. To read a member: archive_data_offset, pread of packed_bytes,
 * then for ARCHIVE_DEFLATE archive_inflate, then archive_crc32 against crc32 where has_crc.
 *
 * Formats: zip (zip64, stored and deflated, self-extracting prefix, data descriptors), tar (v7,
 * ustar, pax, GNU long names, base-256 numbers, several archives one behind another). One archive
 * level inside another is opened (tar of tars, zip of zips, tar in zip stored or deflated...): a
 * member whose name ends in .tar .zip .tgz .tar.gz .tar.zst .tar.xz and whose bytes say the same
 * gets its own listing, its name less the suffix as folder ("n01440764.tar" -> "n01440764/").
 *
 * Nothing is handed out before the whole directory was read: which of two equal names is the last,
 * and which zip entries overlap, is only known then. Until then a member costs some 30 bytes (names
 * are stored as differences), afterwards another 16 for the table of names.
 *
 * Threads: no state of its own; one call per descriptor position (only spool_fd and out_fd have one).
 */
#ifndef ARCHIVE_H
#define ARCHIVE_H

#include "base/buf.h"
#include "image.h"

enum archive_method { ARCHIVE_PLAIN = 0 /* bytes as they lie */, ARCHIVE_DEFLATE = 1 };

/* Called before each 64 MiB that are written to a spool, with the bytes that come next at most. Any
 * status but SLIMSET_OK ends the work with it. */
typedef enum slimset_status archive_space_fn(void *arg, uint64_t next_bytes,
                                             struct slimset_error *err);

/* The usual one: arg is the spool's descriptor (int *). SLIMSET_IO with ENOSPC when its file system has less room than
 * that and 64 MiB. */
enum slimset_status archive_check_space(void *arg, uint64_t next_bytes, struct slimset_error *err);

struct archive_limits {
    uint64_t max_members; /* default 10,000,000; never more than 2^32 - 2; the archive is refused */
    uint64_t max_member_bytes; /* unpacked; default 64 GiB; the member gets problem too-large */
    uint64_t max_total_bytes;  /* unpacked, per archive with its inner ones; default 16 TiB; members
                                   beyond it get problem too-large */
    uint32_t max_ratio; /* unpacked / packed of deflated members and of compressed inner archives
                                   above 1 MiB; default 1100; problem ratio */
    uint32_t max_name_bytes; /* default 4096; never more than 65,535; problem name */
    archive_space_fn
        *check_space; /* for inner archives that are unpacked to the spool; NULL: none */
    void *space_arg;
};
extern const struct archive_limits archive_limits_default;

/* One member. Names are bytes as stored, without leading "./" and "/", inner "//" and "/./"
 * collapsed, "\" kept, not NUL-terminated. A name with problem = name is as stored, cut at
 * max_name_bytes.
 *
 * Problems: link; encrypted; ratio (also zip entries that share bytes with an earlier one);
 * too-large; unsupported (method, sparse, unknown tar type); name (empty, NUL, "..", drive letter,
 * too long); not-regular; duplicate; corrupt (lies outside the archive, sizes that cannot be);
 * truncated (runs beyond the end of a tar). An inner archive that could not be opened has the class
 * of that fault. */
struct archive_member {
    const char *name; /* valid during the callback */
    uint32_t name_bytes;
    enum archive_method method;
    uint64_t offset;       /* zip: of the local header; tar: of the data; in the file (or spool) */
    bool zip_local;        /* offset points at a zip local header (its extra length must be read) */
    uint64_t packed_bytes; /* as they lie */
    uint64_t bytes;        /* unpacked */
    uint32_t crc32;        /* zip: of the unpacked bytes */
    bool has_crc;
    bool in_spool;               /* the bytes lie in the spool file, not in the archive itself */
    int64_t mtime_s;             /* as stored (a zip's DOS time read as UTC); 0 unknown */
    enum slimset_reject problem; /* NONE, or why it cannot be read: see above */
};

/* A callback that answers other than SLIMSET_OK ends the listing with that status. Directories
 * are not reported. */
typedef enum slimset_status archive_member_fn(void *arg, const struct archive_member *m,
                                              struct slimset_error *err);

struct archive_result {
    uint64_t members;   /* reported */
    bool no_end_marker; /* tar without its two zero blocks: perhaps cut between members */
    bool concatenated;  /* tar with more members after an end marker; they were listed as well */
    bool damaged; /* the directory is not whole; damage says where; members before it are good */
    char damage[256]; /* the first of them; of an inner archive: with its name */
};

/* Lists an archive that lies in fd at [offset, offset + bytes). format: FORMAT_ZIP or FORMAT_TAR
 * (plain). Inner archives are opened one level deep when depth is 1 (0: reported as members); an
 * inner archive that is deflated or is a compressed tar is unpacked into spool_fd at its end
 * (readable and writable; -1: such a member is reported as a plain one instead). Equal names:
 * the last one is the good one, earlier ones get problem duplicate. An inner archive with a
 * later namesake is not listed but reported as one member with problem duplicate. A hard link in
 * a tar becomes its target's bytes when the target was listed before, else problem link.
 * SLIMSET_BAD_INPUT: nothing was reported (empty, not an archive, encrypted directory, split
 * zip, more members than the limit, file shorter than `bytes`); SLIMSET_IO; SLIMSET_NO_MEMORY;
 * SLIMSET_USAGE for another format; the status of the callback or of check_space. */
enum slimset_status archive_list(int fd, uint64_t offset, uint64_t bytes, enum image_format format,
                                 int depth, int spool_fd, const struct archive_limits *limits,
                                 archive_member_fn *fn, void *arg, struct archive_result *result,
                                 struct slimset_error *err);

/* Decompresses [offset, offset + bytes) of fd (FORMAT_GZIP with several members, FORMAT_ZSTD
 * with several frames and windows up to 128 MiB, FORMAT_XZ up to 256 MiB of memory) to the end
 * of out_fd, max_bytes at most. *out_bytes: written, also on failure (what came before the fault
 * is there). check_space may be NULL. SLIMSET_BAD_INPUT/truncated, corrupt, ratio (more than
 * max_bytes), too-large (memory); SLIMSET_IO for reads and writes; SLIMSET_USAGE for another
 * format. */
enum slimset_status archive_spool(int fd, uint64_t offset, uint64_t bytes, enum image_format format,
                                  int out_fd, uint64_t max_bytes, archive_space_fn *check_space,
                                  void *arg, uint64_t *out_bytes, struct slimset_error *err);

/* Where a member's packed bytes start: offset itself, or for zip_local past the local header, of
 * which only the signature is checked. Uses offset, zip_local and packed_bytes of *m; fd is the
 * archive's or, for in_spool, the spool's. SLIMSET_BAD_INPUT/corrupt without a signature,
 * truncated when the bytes end behind the file. */
enum slimset_status archive_data_offset(int fd, const struct archive_member *m,
                                        uint64_t *data_offset, struct slimset_error *err);

/* Inflates a whole member (raw deflate) of packed bytes in memory into out (exactly bytes long).
 * Both must be used up exactly: SLIMSET_BAD_INPUT truncated/corrupt otherwise, out undefined
 * then. */
enum slimset_status archive_inflate(const uint8_t *packed, size_t packed_bytes, uint8_t *out,
                                    size_t bytes, struct slimset_error *err);

/* CRC-32 (zip, gzip, PNG polynomial) of n bytes continued from crc (start with 0). */
uint32_t archive_crc32(uint32_t crc, const uint8_t *data, size_t n);

#endif
