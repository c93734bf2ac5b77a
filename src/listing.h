/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sources hold: one entry per file or archive member, and where its bytes lie. Filled by the walk (walk.c for
 * folders and file lists, walk_archive.c for archives), then only read. Paths live in an arena for the life of the
 * listing; an entry costs 96 bytes plus its path.
 */
#ifndef LISTING_H
#define LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "image.h"
#include "item.h"
#include "slimset/pack.h"

/* SOURCE_FILE: all plain files that were named one by one are one source, and their entries have the paths as given. */
enum source_kind { SOURCE_FOLDER, SOURCE_ARCHIVE, SOURCE_FILE };

struct source {
    enum source_kind kind;
    char *path;               /* as given; SOURCE_FILE: words for messages; owned */
    char *prefix;             /* in front of every entry path, "" or "name/"; owned */
    enum image_format format; /* of an archive */
    int fd;                   /* folder or archive; -1 for files */
    int spool_fd;             /* unpacked bytes of a compressed archive, or -1 */
    bool webdataset;          /* an archive whose keys and fields are kept exactly */
    uint64_t bytes;           /* archive: of the file */
    int64_t mtime_ns;
    uint64_t device, inode;
};

struct entry {
    const char *path;       /* prefix + path below the source; bytes, NUL-terminated */
    uint32_t path_bytes;
    uint32_t dir_bytes;     /* of path, up to and with the last '/', 0 at the top */
    const char *name;       /* what it is called in its sample: its path, or where a --field took it (join.h); NUL-terminated */
    uint32_t name_dir_bytes; /* of name, as dir_bytes */
    uint32_t key_bytes;     /* of name: folder and stem, what names the sample (plan) */
    uint16_t source;
    uint16_t rule;          /* in plan->rules (plan) */
    uint64_t bytes;         /* unpacked */
    uint64_t offset, packed_bytes; /* archives */
    int64_t mtime_ns;
    uint64_t inode;         /* folders; archives: the archive's */
    uint32_t crc32;
    uint8_t method, zip_local, has_crc, in_spool;
    uint8_t problem;        /* enum slimset_reject: cannot be read at all */
    uint8_t whole;          /* stands for the archive itself, whose directory is damaged */
    uint8_t join;           /* 1 + number of the recipe's --field that matches its path, 0 none (join.h) */
    uint8_t attached;       /* such a file that goes to the sample of another: behind that one's own files */
};

/* A path that is not packed, with the reason. */
struct left_out {
    const char *path;
    uint32_t path_bytes;
    uint32_t kind;          /* as struct slimset_reject_record: 2 left out, 3 junk */
    const char *text;       /* static */
};

struct listing {
    struct source *sources;
    size_t n_sources;
    struct entry *entries;
    size_t n_entries, cap_entries;
    struct left_out *left_out;
    size_t n_left_out, cap_left_out;
    uint64_t total_bytes;
    uint64_t links_followed;
    struct arena_block *arena;
};

void listing_init(struct listing *l);
void listing_fini(struct listing *l);

/* Copies prefix + n bytes into the arena, with a NUL behind. NULL without memory. */
const char *listing_string(struct listing *l, const char *prefix, const char *bytes, size_t n);

/* Appends an entry (copied; path must be in the arena). */
enum slimset_status listing_add(struct listing *l, const struct entry *e, struct slimset_error *err);
enum slimset_status listing_leave_out(struct listing *l, const char *path, uint32_t path_bytes, uint32_t kind,
                                      const char *text, struct slimset_error *err);

/* Gives back what the arrays have too much, once all sources are listed. */
void listing_fit(struct listing *l);

/* True for names that no dataset means: .DS_Store, Thumbs.db, __MACOSX, ._*, .ipynb_checkpoints... Any component of the path
 * may be the junk one. */
bool listing_is_junk(const char *path, size_t n);

struct walk_settings {
    const struct slimset_recipe *recipe;
    const struct slimset_run *run;
    int work_dir;               /* OUT/.slimset, where spools go; -1: none (dry run: /tmp) */
    int out_dir;                /* OUT, to refuse it inside a source; -1 unknown yet */
    unsigned lister_cpu_seconds; /* a lister that uses more and gets nowhere hangs; default 120 when 0 */
};

/* Opens every source and lists it. Sources that make no sense: SLIMSET_USAGE. Unreadable parts become entries with a problem. */
enum slimset_status walk_sources(struct listing *l, const struct walk_settings *settings, struct slimset_error *err);

/* Lists one archive. What its directory says is checked; a directory that is damaged adds an entry for the archive itself. */
enum slimset_status walk_archive(struct listing *l, uint16_t source, const struct walk_settings *settings,
                                 struct slimset_error *err);

/* Once all sources are listed: keys of WebDataset archives are kept exactly, so the prefix is taken off their entries' paths,
 * unless two sources would then share a key (a note says so). */
enum slimset_status walk_bare_keys(struct listing *l, const struct slimset_run *run, struct slimset_error *err);

/* What an errno of open or stat says of the input: vanished, unreadable, link, not-regular, name; NONE when it is the
 * machine's trouble (EIO, EMFILE, ESTALE...), which no input is blamed for. */
enum slimset_reject listing_fault(int os_errno);

/* True when a source's folder was deleted: then no file in it vanished by itself. */
bool listing_source_is_gone(const struct source *s);

/* Opens an entry for reading: a descriptor for the caller to close, and what to read of it in *in (offset, sizes, crc).
 * SLIMSET_BAD_INPUT vanished, unreadable, not-regular, link, name; SLIMSET_IO for the machine's troubles and for a source
 * folder that was deleted. */
enum slimset_status listing_open(const struct listing *l, const struct entry *e, int *fd, struct item_input *in,
                                 struct slimset_error *err);

/* The file a person would look for: "SRC/path" or "archive.zip: member". Into text, always terminated. The path is the source's
 * bytes; one_line: control characters escaped, for use inside a message. */
void listing_display(const struct listing *l, const struct entry *e, bool one_line, char *text, size_t n);

/* Why an entry with a problem cannot be read, in words; static. */
const char *listing_problem_text(enum slimset_reject reject);

/* Does a rule's GLOB match the entry: its path where the GLOB has a /, else its name? */
bool listing_rule_matches(const struct slimset_rule *rule, const struct entry *e);

/* The role that --image, --mask... give an entry's path, -1 --skip, -2 no rule with a role matches; *settings, where it is not NULL:
 * those of the last rule that has some. */
int listing_user_role(const struct slimset_recipe *recipe, const struct entry *e, uint8_t *settings);

/* Sends an entry with a problem to run->event, as a reject, unless it is skipped. */
void listing_tell_problem(const struct listing *l, const struct entry *e, const struct walk_settings *settings);

/* Says how far listing is, now and then. */
void listing_progress(const struct listing *l, const struct slimset_run *run);

/* Sends a note or warning to run->event. */
void run_note(const struct slimset_run *run, enum slimset_event_kind kind, const char *fmt, ...) ERR_PRINTF(3, 4);

#endif
