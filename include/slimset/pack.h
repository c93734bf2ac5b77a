/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing a dataset: what is done (struct slimset_recipe), how the run behaves (struct slimset_run), and the
 * calls behind the verbs pack, verify, ls and get.
 *
 *   struct slimset_recipe recipe; slimset_recipe_init(&recipe);   // the defaults
 *   struct slimset_run run; slimset_run_init(&run);
 *   run.sources = ...; run.out = "OUT";
 *   slimset_pack(&recipe, &run, &report, &err);
 *
 * The recipe decides bytes: all of it goes into the fingerprint. Nothing of the run does. Strings belong to the
 * caller and must outlive the call. One call at a time per process; it installs no signal handlers
 * (set *run.stop from yours). The library never prints: it calls run.event.
 */
#ifndef SLIMSET_PACK_H
#define SLIMSET_PACK_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slimset/format.h"
#include "slimset/status.h"

enum slimset_resize {
    SLIMSET_RESIZE_NONE = 0,
    SLIMSET_RESIZE_LONG,  /* a: longest side at most, px */
    SLIMSET_RESIZE_SHORT, /* a: shortest side at most, px */
    SLIMSET_RESIZE_EXACT, /* a x b px, aspect not kept */
    SLIMSET_RESIZE_CROP,  /* a x b px, filled and centre-cropped */
    SLIMSET_RESIZE_PAD,   /* a x b px, fitted and padded (images: background colour; masks: 0) */
    SLIMSET_RESIZE_AREA,  /* pixels: at most this many */
    SLIMSET_RESIZE_SCALE  /* factor */
};

enum slimset_layout { SLIMSET_LAYOUT_SHARDS = 1, SLIMSET_LAYOUT_TREE = 2, SLIMSET_LAYOUT_NPY = 3 /* raw pixels and plain arrays of one shape, stacked */ };
enum slimset_subsampling { SLIMSET_SUBSAMPLING_420 = 0, SLIMSET_SUBSAMPLING_422, SLIMSET_SUBSAMPLING_444 };
enum slimset_output { SLIMSET_OUTPUT_AUTO = 0, SLIMSET_OUTPUT_JPEG, SLIMSET_OUTPUT_PNG, SLIMSET_OUTPUT_WEBP,
                      SLIMSET_OUTPUT_KEEP, SLIMSET_OUTPUT_RAW };
enum slimset_alpha { SLIMSET_ALPHA_COLOUR = 0, /* laid on the background where the output has no alpha, kept elsewhere */
                     SLIMSET_ALPHA_KEEP, SLIMSET_ALPHA_REJECT,
                     SLIMSET_ALPHA_FLATTEN /* laid on the background everywhere: a colour was asked for */ };
enum slimset_color { SLIMSET_COLOR_KEEP = 0, SLIMSET_COLOR_SRGB };
enum slimset_depth { SLIMSET_DEPTH_KEEP = 0, SLIMSET_DEPTH_8_RANGE, SLIMSET_DEPTH_8_AUTO };
enum slimset_mask_filter { SLIMSET_MASK_NEAREST = 0, SLIMSET_MASK_MAJORITY };
enum slimset_boxes { SLIMSET_BOXES_REFUSE = 0, SLIMSET_BOXES_KEEP };
enum slimset_classes { SLIMSET_CLASSES_AUTO = 0, SLIMSET_CLASSES_FOLDER, SLIMSET_CLASSES_NONE };
enum slimset_order { SLIMSET_ORDER_AUTO = 0, SLIMSET_ORDER_SHUFFLED, SLIMSET_ORDER_SOURCE };

enum slimset_cast { SLIMSET_CAST_NONE = 0, SLIMSET_CAST_FLOAT16, SLIMSET_CAST_FLOAT32, SLIMSET_CAST_UINT8 };
/* Which axes of an array are what; NONE: nobody said, and arrays are not resized. */
enum slimset_array_layout { SLIMSET_ARRAY_NONE = 0, SLIMSET_ARRAY_HW, SLIMSET_ARRAY_HWC, SLIMSET_ARRAY_CHW, SLIMSET_ARRAY_NHWC, SLIMSET_ARRAY_NCHW };

/* --image/--mask/--depth-map/--array/--copy/--skip GLOB: the last rule that matches a file's path decides. */
struct slimset_rule {
    const char *glob;  /* fnmatch against the path below the source, and against the base name when it has no "/" */
    int role;          /* enum slimset_role, -1: skip, or SLIMSET_RULE_NO_ROLE */
    uint8_t settings;  /* 0: the recipe's own, else 1 + number in recipe->settings; the last rule with one that matches decides */
};

enum {
    SLIMSET_RULE_NO_ROLE = -2, /* the rule gives settings only */
    SLIMSET_SETTINGS_MAX = 28  /* the index has a byte for role and settings of a rule */
};

/* --field NAME=PATTERN: files of other folders that belong to a sample. {} in PATTERN is the stem that joins; src/pattern.h has
 * the rules. Of several patterns that match a file the last one counts. */
struct slimset_join {
    const char *text;  /* "mask=masks/{}.png" */
    int role;          /* as of a rule; SLIMSET_RULE_NO_ROLE: as NAME says */
    uint8_t settings;  /* as of a rule, where no rule has any */
};

struct slimset_recipe {
    enum slimset_resize resize;       /* default NONE */
    uint32_t resize_a, resize_b;      /* px */
    uint64_t resize_pixels;           /* AREA */
    double resize_factor;             /* SCALE */
    bool upscale;                     /* default false: never enlarges */
    enum slimset_output output;       /* default AUTO: see DESIGN of the defaults in doc/pixels.md */
    bool lossless;                    /* PNG stays PNG (--lossless) */
    bool reencode_all;                /* --reencode all: no pass-through of images that already fit */
    int quality;                      /* 1..100, default 90 */
    enum slimset_subsampling subsampling; /* default 4:2:0 */
    bool optimise;                    /* optimised Huffman tables, default true */
    int png_level;                    /* 1..9, default 6 */
    bool keep_metadata;               /* default false */
    enum slimset_alpha alpha;         /* default COLOUR white */
    uint8_t background[3];            /* default 255,255,255 */
    enum slimset_color color;         /* default KEEP */
    enum slimset_depth depth;         /* default KEEP */
    double depth_lo, depth_hi;        /* 8_RANGE; 8_AUTO: one range a field, from the files looked at, frozen */
    uint8_t channels;                 /* 0 keep, 1, 3 */
    double min_ssim;                  /* 0 none; JPEG: the smallest quality of 30 to 97 that reaches it */
    enum slimset_mask_filter mask_filter; /* default NEAREST; depth maps are always nearest */
    bool detect;                      /* default true: roles by probe and folder names */
    enum slimset_boxes boxes;         /* default REFUSE */
    enum slimset_layout layout;       /* default SHARDS */
    uint64_t shard_bytes;             /* default 256,000,000; a hard cap incl. tar overhead */
    uint32_t shards;                  /* per split; 0 = decided (at least 32, fewer only below 32 samples) */
    enum slimset_order order;         /* default AUTO */
    uint64_t seed;                    /* of the shuffle, default 0 */
    enum slimset_classes classes;     /* default AUTO */
    bool class_order_numeric;         /* default false: byte order, as torchvision */
    uint64_t max_pixels;              /* default 178,956,970 */
    bool follow;                      /* symbolic links in folders, default true */
    bool webdataset;                  /* default true: tars that are WebDataset keep keys and fields */
    bool dali_idx;                    /* index of DALI's webdataset reader beside each shard; no part of the fingerprint */
    bool energon;                     /* likewise those of Megatron Energon, and its .nv-meta folder */
    enum slimset_codec array_codec;   /* of arrays; default NPY_ZST */
    uint8_t array_filter;             /* NPY_BLOSC: 1 byte shuffle, 2 bit shuffle */
    uint8_t array_level;              /* the codec's, or a word of array_codec.h */
    bool array_auto;                  /* default true: a filter is chosen by trial */
    bool array_asked;                 /* --array-codec was given: trees and WebDataset sources too */
    bool keep_order;                  /* default false: Fortran order becomes C order */
    bool narrow;                      /* default false: the smallest type that holds every value exactly */
    enum slimset_cast cast;           /* default NONE */
    double cast_lo, cast_hi;          /* UINT8: this range becomes 0..255 */
    double max_cast_loss;             /* share of an array's values that a cast may lose; default 0 */
    enum slimset_array_layout array_layout;           /* default NONE; --resize then applies to arrays too */
    char raw[96];                     /* DTYPE:SHAPE of files of role array without a header; "" none */
    uint64_t raw_offset;              /* bytes before their values */
    const struct slimset_rule *rules; /* in order of the command line; NULL when n_rules is 0 */
    size_t n_rules;
    const struct slimset_join *joins; /* in order of the command line; NULL when n_joins is 0 */
    size_t n_joins;
    const char *group_by;             /* --group-by: folders that are one sample each (src/group.h); NULL none */
    const struct slimset_recipe *settings; /* what some files are made with: of each only the members about pixels count, from resize to channels */
    size_t n_settings;                     /* at most SLIMSET_SETTINGS_MAX */
    bool own_size;                    /* in settings: a mask or depth map with these has a size of its own, not its image's */
};

enum slimset_event_kind {
    SLIMSET_EVENT_NOTE,     /* something decided or worth knowing; text */
    SLIMSET_EVENT_WARNING,  /* text */
    SLIMSET_EVENT_REJECT,   /* path + text */
    SLIMSET_EVENT_PROGRESS  /* numbers below */
};

struct slimset_event {
    enum slimset_event_kind kind;
    const char *phase;      /* "walk", "probe", "pack", "publish" */
    const char *path;       /* source path (bytes), may be NULL */
    const char *text;       /* one line */
    uint64_t samples_done, samples_total;
    uint64_t in_bytes_done, in_bytes_total; /* source bytes of finished samples / of all to do */
    uint64_t out_bytes;
    uint64_t rejects;
};

struct slimset_run {
    const char *const *sources; /* folders, archives, or files; NULL-terminated not needed */
    size_t n_sources;
    const char *files_from;     /* list file, "-" stdin, NULL none */
    bool files_from_nul;
    const char *out;
    unsigned jobs;              /* workers; 0 = CPUs this process may use */
    bool in_process;            /* no workers: debuggers, sanitizers */
    bool force;                 /* redo everything although OUT was made otherwise */
    bool replan;                /* decide anew what was frozen */
    bool verify_inputs;         /* compare by content, not by size and time */
    bool strict;                /* stop at the first reject */
    bool dry_run;               /* plan and predict, write nothing */
    bool repair;                /* rebuild the files of OUT that are damaged, and nothing else; see slimset_verify */
    const char *const *words;   /* how this run was asked for: the working folder, then the command word by word; kept in */
    size_t n_words;             /* OUT/.slimset/stat for slimset_noted_words. NULL, 0: none */
    int64_t max_rejects;        /* -1 none given; a budget */
    double max_rejects_percent; /* < 0 none given */
    unsigned window;            /* samples in flight; 0 = decided */
    volatile sig_atomic_t *stop;/* non-zero: stop cleanly; may be NULL */
    void (*event)(void *arg, const struct slimset_event *e); /* may be NULL */
    void *event_arg;
};

enum { SLIMSET_PROFILES_MAX = 16, SLIMSET_TRACES_MAX = 6, SLIMSET_PROFILE_NAME_BYTES = 48 };

/* Images whose colour profile calls itself so. */
struct slimset_profile_count {
    char name[SLIMSET_PROFILE_NAME_BYTES]; /* UTF-8; "": it does not say, or cannot be read */
    uint64_t dropped, used;                /* numbers kept; converted to sRGB */
};

/* Something that goes with the class label, so that a network may learn it (src/class_traces.c has the measure). */
struct slimset_trace {
    char what[64];          /* "passed through, not encoded again", "png files" */
    const char *remedy;
    char high[64], low[64]; /* the classes with the largest and the smallest share, cut to 63 bytes */
    uint64_t high_n, high_of, low_n, low_of; /* images of them with it, of all their images */
    double v2;              /* square of the corrected Cramer's V, 0.25 to 1 */
};

struct slimset_report {
    uint64_t samples, rejects, left_out, junk;  /* in the dataset as it is now */
    uint64_t shards_written, shards_kept;       /* parts, this run */
    uint64_t shards_lost;                       /* repair: damaged, and their source is not what was packed */
    uint64_t in_bytes, out_bytes;               /* source files of packed samples; what was written for them */
    uint64_t in_pixels, out_pixels;
    uint64_t note[32];                          /* fields with NOTE_ bit i */
    uint64_t quality[101];                      /* --min-ssim: images stored with this quality */
    uint32_t ssim_min_e6;                       /* the smallest SSIM among them */
    uint32_t ssim_5_e6, ssim_50_e6;             /* what 5 % and what half of them have at most, cut to 0.0001 */
    uint64_t unmeasured;                        /* WebP encoded with loss: no option chooses its quality */
    uint64_t frames_dropped;                    /* frames and pages behind the first ones */
    struct slimset_profile_count profile[SLIMSET_PROFILES_MAX]; /* the last one stands for all others where there are more */
    uint32_t n_profiles;
    uint32_t n_traces;
    struct slimset_trace trace[SLIMSET_TRACES_MAX]; /* the strongest first */
    uint64_t classes_lost;                      /* mask values that vanished, summed over the masks */
    uint64_t reject_class[SLIMSET_REJECT_COUNT];
    uint64_t would_save_bytes;                  /* estimate for --resize 512 when nothing was resized; 0 unknown */
    uint64_t probe_alpha_percent;
    uint32_t splits, classes, shards;
    bool unchanged;                             /* nothing had to be rewritten */
    bool rejects_over_budget;
    double seconds;
};

void slimset_recipe_init(struct slimset_recipe *recipe);
void slimset_run_init(struct slimset_run *run);

/* "512", "long:512", "short:256", "exact:WxH", "crop:WxH", "pad:WxH", "area:N", "scale:0.5" into the recipe.
 * SLIMSET_USAGE with what is allowed. */
enum slimset_status slimset_recipe_resize(struct slimset_recipe *recipe, const char *text, struct slimset_error *err);

/* "auto", "zstd:max", "blosc:bitshuffle:5", "npy", "npz", "keep" into the recipe; "float16", "float32", "uint8:LO,HI"; "f4:3,224,224".
 * SLIMSET_USAGE with what is allowed, or that this build has no c-blosc. */
enum slimset_status slimset_recipe_array_codec(struct slimset_recipe *recipe, const char *text, struct slimset_error *err);
enum slimset_status slimset_recipe_cast(struct slimset_recipe *recipe, const char *text, struct slimset_error *err);
enum slimset_status slimset_recipe_raw(struct slimset_recipe *recipe, const char *text, struct slimset_error *err);

/* Does the whole job. SLIMSET_OK also when inputs were rejected (see the report). SLIMSET_DIFFERS: OUT was made with
 * another recipe, the text names what. SLIMSET_USAGE: sources or OUT make no sense. SLIMSET_INTERRUPTED,
 * SLIMSET_IO, SLIMSET_LIMIT...: stopped; the same call again resumes. */
enum slimset_status slimset_pack(const struct slimset_recipe *recipe, const struct slimset_run *run,
                                 struct slimset_report *report, struct slimset_error *err);

/* The words that the last run on OUT was given (struct slimset_run). *words is one allocation, for free(); its strings lie in it,
 * and a NULL stands behind them. SLIMSET_NOT_FOUND where none are kept. */
enum slimset_status slimset_noted_words(const char *out, char ***words, size_t *n, struct slimset_error *err);

/* Entry of worker processes: call first in main. Returns -1 when this process is no worker, else its exit status. */
int slimset_worker_main(int argc, char **argv);

/* One finding of verify; part and key may be NULL. */
typedef void slimset_finding_fn(void *arg, const char *part, const char *key, const char *field, const char *text);

struct slimset_verify_report {
    uint64_t parts, samples, fields, bytes, images_decoded, damaged;
};

/* Damage is mended by slimset_pack with run->repair, the recipe of the dataset and its sources: files whose checksum is wrong are
 * built again and published only when they are byte for byte what the index says; the index stays as it is. SLIMSET_DAMAGED when
 * some could not be (report->shards_lost). Where the index itself is damaged or missing, all is packed anew.
 *
 * Checks index, sizes, checksums, tar structure; decode: also every image and the dimensions the index states (in sandboxed
 * workers, `jobs` of them). Every finding is reported; SLIMSET_OK with report->damaged == 0, SLIMSET_DAMAGED otherwise. */
enum slimset_status slimset_verify(const char *out, bool decode, unsigned jobs, slimset_finding_fn *fn, void *arg,
                                   struct slimset_verify_report *report, struct slimset_error *err);

/* Decodes the image bytes and hands out its upright size, for verify --decode and get; runs in this process unless it is given
 * a pool. Not for untrusted bytes outside a worker. */

#endif
