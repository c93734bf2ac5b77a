/* SPDX-License-Identifier: Apache-2.0
 *
 * How slimset says that something went wrong.
 *
 * Every fallible function returns enum slimset_status and takes a struct slimset_error as its
 * last argument. Who detects a fault writes the text (lower case, what was tried, on what, why);
 * who passes it on adds nothing. The library never prints and never exits.
 *
 * The status tells whose fault it is, and so what may follow from it:
 *   SLIMSET_BAD_INPUT  this input cannot be used: it becomes a reject, the run goes on;
 *   everything else    the run stops (resumable), and no input is blamed for it.
 */
#ifndef SLIMSET_STATUS_H
#define SLIMSET_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* what the shared library shows */

enum slimset_status {
    SLIMSET_OK = 0,
    SLIMSET_BAD_INPUT,   /* this input is bad; err->reject says in which way */
    SLIMSET_NEED_SLOW,   /* not a fault: only the libvips path can decode this input */
    SLIMSET_NO_MEMORY,   /* the machine, not the input */
    SLIMSET_IO,          /* reading or writing failed: EIO, ENOSPC, EMFILE...; err->os_errno */
    SLIMSET_USAGE,       /* the request makes no sense as given */
    SLIMSET_DIFFERS,     /* OUT was made with another recipe or version */
    SLIMSET_DAMAGED,     /* one of our own files is not what was written */
    SLIMSET_NOT_FOUND,   /* no such key, path or field */
    SLIMSET_INTERRUPTED, /* a signal asked us to stop */
    SLIMSET_LIMIT,       /* a budget of the run is used up (--max-rejects, --strict, crashes) */
    SLIMSET_INTERNAL     /* a worker broke the protocol, or an invariant failed */
};

/* Why an input was rejected. The numbers are part of the index format: only ever append. */
enum slimset_reject {
    SLIMSET_REJECT_NONE = 0,
    SLIMSET_REJECT_EMPTY,          /* zero bytes */
    SLIMSET_REJECT_UNKNOWN_FORMAT, /* no magic number we know */
    SLIMSET_REJECT_NOT_ALLOWED,    /* a known format that is never rendered: SVG, PDF, PostScript, MVG */
    SLIMSET_REJECT_HTML,           /* an error page saved under an image's name */
    SLIMSET_REJECT_LFS_POINTER,    /* a Git LFS pointer instead of the file */
    SLIMSET_REJECT_TRUNCATED,      /* ends before the last row */
    SLIMSET_REJECT_CORRUPT,        /* damaged entropy data, bad CRC, impossible header */
    SLIMSET_REJECT_UNSUPPORTED,    /* a variant no decoder here reads: lossless JPEG, 12-bit JPEG */
    SLIMSET_REJECT_NO_DECODER,     /* this build or machine lacks the decoder (libvips or a module) */
    SLIMSET_REJECT_TOO_MANY_PIXELS,
    SLIMSET_REJECT_TOO_MANY_SCANS,
    SLIMSET_REJECT_TOO_LARGE,      /* more bytes than the limit */
    SLIMSET_REJECT_RATIO,          /* expands more than the limit allows */
    SLIMSET_REJECT_VANISHED,       /* gone since the walk */
    SLIMSET_REJECT_CHANGED,        /* changed while it was read */
    SLIMSET_REJECT_UNREADABLE,     /* open or read refused: permission */
    SLIMSET_REJECT_NOT_REGULAR,    /* FIFO, socket, device */
    SLIMSET_REJECT_DECODER_CRASH,  /* a worker died of its own signal on it, twice */
    SLIMSET_REJECT_CHECKSUM,       /* archive member does not match its CRC */
    SLIMSET_REJECT_ENCRYPTED,      /* encrypted archive member */
    SLIMSET_REJECT_LINK,           /* dangling link, loop, or a link inside an archive */
    SLIMSET_REJECT_NAME,           /* a name that no layout can hold */
    SLIMSET_REJECT_DUPLICATE,      /* second member or file of the same name or field */
    SLIMSET_REJECT_PAIR,           /* mask or depth map does not fit its image */
    SLIMSET_REJECT_FLOAT,          /* float pixels where only integers can be stored */
    SLIMSET_REJECT_BANDS,          /* bands that are neither gray, RGB nor declared alpha */
    SLIMSET_REJECT_ALPHA,          /* real alpha under --alpha reject */
    SLIMSET_REJECT_DEPTH,          /* 16-bit values that an 8-bit output would destroy */
    SLIMSET_REJECT_ARRAY,          /* malformed or unsupported array */
    SLIMSET_REJECT_CAST_LOSS,      /* --cast would lose more values than --max-cast-loss allows */
    SLIMSET_REJECT_SHAPE,          /* --to npy: not a row like the others */
    SLIMSET_REJECT_COUNT
};

/* A fault, with everything a person needs. On the caller's memory; no ownership. */
struct slimset_error {
    enum slimset_status status;
    enum slimset_reject reject; /* only with SLIMSET_BAD_INPUT */
    int os_errno;               /* only with SLIMSET_IO; 0 elsewhere */
    char text[512];             /* one line, no newline, NUL-terminated, never empty on a fault */
};

/* The stable name of a reject class, as `slimset ls --rejects` prints it ("truncated"). */
const char *slimset_reject_name(enum slimset_reject reject);

/* The version of this program and library, "major.minor.patch". */
const char *slimset_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
