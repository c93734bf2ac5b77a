/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs and options there are. Order within a group is the order of the help.
 */
#include "options.h"

#define PACK (VERB_PACK | VERB_PLAN)

const char *const option_group_name[GROUP_COUNT] = {
    [GROUP_PIXELS] = "Pixels",
    [GROUP_ARRAYS] = "Arrays (.npy, .npz)",
    [GROUP_ROLES] = "Which file is what",
    [GROUP_LAYOUT] = "Output",
    [GROUP_INPUT] = "Input",
    [GROUP_RUN] = "The run",
    [GROUP_LIST] = "What is listed",
    [GROUP_SHOW] = "Messages",
};

/* id, name, letter, verbs, group, kind of value, hidden, open, placeholder, choices, help */
const struct option_row option_table[] = {
    {OPT_RESIZE, "resize", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, "MODE", NULL,
     "to long:N (also just N), short:N, exact:WxH, crop:WxH, pad:WxH, area:PIXELS or scale:F"},
    {OPT_UPSCALE, "upscale", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, NULL, NULL,
     "let --resize enlarge images that are smaller than asked"},
    {OPT_CODEC, "codec", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, "CODEC",
     "jpeg|png|webp|keep|raw",
     "store images as this; raw is uint8 or uint16 .npy; keep leaves the format of each file"},
    {OPT_LOSSLESS, "lossless", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, NULL, NULL,
     "PNG stays PNG when it is resized"},
    {OPT_REENCODE, "reencode", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, "WHICH", "all",
     "re-encode also the images that already are as asked"},
    {OPT_QUALITY, "quality", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, "N", NULL,
     "JPEG and WebP quality, 1 to 100 (default 90)"},
    {OPT_MIN_SSIM, "min-ssim", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, "X", NULL,
     "JPEG: for each image the smallest quality from 30 to 97 whose SSIM is X or more; --quality is not "
     "used"},
    {OPT_SUBSAMPLING, "subsampling", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, "S",
     "420|422|444|4:2:0|4:2:2|4:4:4", "JPEG chroma subsampling (default 420)"},
    {OPT_NO_OPTIMISE, "no-optimise", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, NULL, NULL,
     "standard Huffman tables in JPEG: files some percent larger, written faster"},
    {OPT_NO_OPTIMISE, "no-optimize", 0, PACK, GROUP_PIXELS, ARG_WORD, true, false, NULL, NULL,
     "the same as --no-optimise"},
    {OPT_PNG_LEVEL, "png-level", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, "N", NULL,
     "PNG compression, 1 to 9 (default 6)"},
    {OPT_KEEP_METADATA, "keep-metadata", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, NULL, NULL,
     "keep EXIF, XMP and profiles of images that are passed through"},
    {OPT_ALPHA, "alpha", 0, PACK, GROUP_PIXELS, ARG_WORD, false, true, "A",
     "white|black|keep|reject",
     "what becomes of real transparency: white, black or #rrggbb behind it, keep it, or reject the "
     "image (default white)"},
    {OPT_COLOR, "color", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, "C", "keep|srgb",
     "keep the numbers and drop the colour profile, or convert to sRGB through it (default keep)"},
    {OPT_DEPTH, "depth", 0, PACK, GROUP_PIXELS, ARG_WORD, false, true, "D",
     "keep|8:auto",
     "16-bit images: keep; 8:LO,HI scales LO..HI to 0..255; 8:auto finds one range for each field "
     "(default keep)"},
    {OPT_CHANNELS, "channels", 0, PACK, GROUP_PIXELS, ARG_WORD, false, false, "N", "keep|1|3",
     "make every image gray (1) or RGB (3) (default keep)"},

    {OPT_ARRAY_CODEC, "array-codec", 0, PACK, GROUP_ARRAYS, ARG_WORD, false, false, "CODEC", NULL,
     "auto, zstd, blosc:shuffle or blosc:bitshuffle, each with :LEVEL (fast, default, max or a number), npy, npz or keep (default auto)"},
    {OPT_NARROW, "narrow", 0, PACK, GROUP_ARRAYS, ARG_WORD, false, false, NULL, NULL,
     "store the smallest type that holds every value of an array exactly"},
    {OPT_CAST, "cast", 0, PACK, GROUP_ARRAYS, ARG_WORD, false, false, "TYPE", NULL,
     "float16 or float32 for wider floats, or uint8:LO,HI for all wider numbers; lossy"},
    {OPT_MAX_CAST_LOSS, "max-cast-loss", 0, PACK, GROUP_ARRAYS, ARG_WORD, false, false, "SHARE", NULL,
     "share of an array's values that --cast may turn into infinity or zero, clip, or find to be NaN (default 0)"},
    {OPT_KEEP_ORDER, "keep-order", 0, PACK, GROUP_ARRAYS, ARG_WORD, false, false, NULL, NULL,
     "leave arrays in Fortran order as they are"},
    {OPT_LAYOUT, "layout", 0, PACK, GROUP_ARRAYS, ARG_WORD, false, false, "AXES", "HW|HWC|CHW|NHWC|NCHW",
     "arrays are images with these axes: --resize applies to them too"},
    {OPT_RAW, "raw", 0, PACK, GROUP_ARRAYS, ARG_WORD, false, false, "TYPE:SHAPE", NULL,
     "what files given by --array hold that are no .npy or .npz: f4:3,224,224 or u2:-1"},
    {OPT_RAW_OFFSET, "raw-offset", 0, PACK, GROUP_ARRAYS, ARG_WORD, false, false, "N", NULL,
     "bytes before their values (default 0)"},

    {OPT_IMAGE, "image", 0, PACK, GROUP_ROLES, ARG_WORD, false, false, "GLOB", NULL,
     "files that are images"},
    {OPT_MASK, "mask", 0, PACK, GROUP_ROLES, ARG_WORD, false, false, "GLOB", NULL,
     "files that are label masks: values are never mixed, stored as PNG"},
    {OPT_MASK_FILTER, "mask-filter", 0, PACK, GROUP_ROLES, ARG_WORD, false, false, "F",
     "nearest|majority",
     "how masks are resized: the nearest value, or the most frequent one (default nearest)"},
    {OPT_DEPTH_MAP, "depth-map", 0, PACK, GROUP_ROLES, ARG_WORD, false, false, "GLOB", NULL,
     "files that are depth or flow: resized by nearest neighbour"},
    {OPT_ARRAY, "array", 0, PACK, GROUP_ROLES, ARG_WORD, false, false, "GLOB", NULL,
     "files that are arrays"},
    {OPT_COPY, "copy", 0, PACK, GROUP_ROLES, ARG_WORD, false, false, "GLOB", NULL,
     "files that are copied as they are"},
    {OPT_SKIP, "skip", 0, PACK, GROUP_ROLES, ARG_WORD, false, false, "GLOB", NULL,
     "files that are left out"},
    {OPT_FIELD, "field", 0, PACK, GROUP_ROLES, ARG_WORD, false, false, "NAME=PATTERN", NULL,
     "join files of other folders: {} in PATTERN is the stem they share, NAME image, mask, depth, "
     "array, label or another; may be repeated"},
    {OPT_GROUP_BY, "group-by", 0, PACK, GROUP_ROLES, ARG_WORD, false, false, "GLOB", NULL,
     "folders that are one sample each: their images become the fields 000.jpg, 001.jpg and so on"},
    {OPT_NO_DETECT, "no-detect", 0, PACK, GROUP_ROLES, ARG_WORD, false, false, NULL, NULL,
     "do not tell masks and depth maps by their folder names and content"},
    {OPT_BOXES, "boxes", 0, PACK, GROUP_ROLES, ARG_WORD, false, false, "WHAT", "keep",
     "resize although there are box annotations, and leave their numbers as they are"},

    {OPT_TO, "to", 0, PACK, GROUP_LAYOUT, ARG_WORD, false, false, "LAYOUT", "shards|tree|npy",
     "tar shards, a tree of files, or arrays of one shape stacked into .npy files (default shards)"},
    {OPT_SHARD_SIZE, "shard-size", 0, PACK, GROUP_LAYOUT, ARG_WORD, false, false, "SIZE", NULL,
     "largest size of a shard: K M G are powers of 1000, Ki Mi Gi of 1024 (default 256M)"},
    {OPT_SHARD_COUNT, "shards", 0, PACK, GROUP_LAYOUT, ARG_WORD, false, false, "N", NULL,
     "shards for each split (default: by size, at least 32)"},
    {OPT_ORDER, "order", 0, PACK, GROUP_LAYOUT, ARG_WORD, false, false, "ORDER", "shuffled|source",
     "order of the samples (default: train shuffled, val and test and --to tree as in the source)"},
    {OPT_SEED, "seed", 0, PACK, GROUP_LAYOUT, ARG_WORD, false, false, "N", NULL,
     "seed of the shuffle (default 0)"},
    {OPT_CLASSES, "classes", 0, PACK, GROUP_LAYOUT, ARG_WORD, false, false, "HOW",
     "auto|folder|none",
     "class numbers from folder names (default auto: where the tree is of that "
     "kind)"},
    {OPT_CLASS_ORDER, "class-order", 0, PACK, GROUP_LAYOUT, ARG_WORD, false, false, "ORDER",
     "bytes|numeric", "how class folders are numbered (default bytes, as torchvision does)"},
    {OPT_DALI_IDX, "dali-idx", 0, PACK, GROUP_LAYOUT, ARG_WORD, false, false, NULL, NULL,
     "an index for DALI's webdataset reader beside each shard"},
    {OPT_ENERGON, "energon", 0, PACK, GROUP_LAYOUT, ARG_WORD, false, false, NULL, NULL,
     "an index for Megatron Energon beside each shard, and its .nv-meta folder"},

    {OPT_FILES_FROM, "files-from", 0, PACK, GROUP_INPUT, ARG_FILE, false, false, "LIST", NULL,
     "read the names of the input files from LIST, one a line; - is standard input"},
    {OPT_NULL, "null", '0', PACK, GROUP_INPUT, ARG_WORD, false, false, NULL, NULL,
     "names in --files-from end with a NUL byte, as find -print0 writes them"},
    {OPT_CONFIG, "config", 0, PACK, GROUP_INPUT, ARG_FILE, false, false, "FILE", NULL,
     "take options from FILE, and settings for some of the files (format: see the manual page)"},
    {OPT_MAX_PIXELS, "max-pixels", 0, PACK, GROUP_INPUT, ARG_WORD, false, false, "N", NULL,
     "reject larger images by their header (default 178956970)"},
    {OPT_NO_FOLLOW, "no-follow", 0, PACK, GROUP_INPUT, ARG_WORD, false, false, NULL, NULL,
     "do not follow symbolic links in folders"},
    {OPT_NO_WEBDATASET, "no-webdataset", 0, PACK, GROUP_INPUT, ARG_WORD, false, false, NULL, NULL,
     "treat WebDataset tars as any archive: do not keep their keys and fields"},
    {OPT_VERIFY_INPUTS, "verify-inputs", 0, PACK, GROUP_INPUT, ARG_WORD, false, false, NULL, NULL,
     "tell changed inputs by their content, not by size and time"},

    {OPT_OUTPUT, "output", 'o', PACK, GROUP_RUN, ARG_FOLDER, false, false, "OUT", NULL,
     "the folder of the dataset; made when it is not there"},
    {OPT_AS, "as", 0, VERB_GET, GROUP_RUN, ARG_WORD, false, false, "FORM", "npy|raw|stored",
     "arrays: as the .npy file they were (the default), its values alone, or the bytes as they are stored"},
    {OPT_OUTPUT, "output", 'o', VERB_GET, GROUP_RUN, ARG_FILE, false, false, "FILE", NULL,
     "write to FILE instead of standard output"},
    {OPT_JOBS, "jobs", 'j', PACK | VERB_VERIFY, GROUP_RUN, ARG_WORD, false, false, "N", NULL,
     "worker processes (default: the CPUs this process may use)"},
    {OPT_DRY_RUN, "dry-run", 'n', VERB_PACK, GROUP_RUN, ARG_WORD, false, false, NULL, NULL,
     "plan and predict, write nothing; the same as slimset plan"},
    {OPT_FORCE, "force", 0, PACK, GROUP_RUN, ARG_WORD, false, false, NULL, NULL,
     "redo everything although OUT was made with other options"},
    {OPT_REPLAN, "replan", 0, PACK, GROUP_RUN, ARG_WORD, false, false, NULL, NULL,
     "decide anew what the first run of OUT decided: roles, codecs, shard count, class numbers"},
    {OPT_STRICT, "strict", 0, PACK, GROUP_RUN, ARG_WORD, false, false, NULL, NULL,
     "stop at the first reject"},
    {OPT_MAX_REJECTS, "max-rejects", 0, PACK, GROUP_RUN, ARG_WORD, false, false, "N|P%", NULL,
     "a budget: within it the exit status is 0, beyond it the run stops with 1"},
    {OPT_IN_PROCESS, "in-process", 0, PACK, GROUP_RUN, ARG_WORD, false, false, NULL, NULL,
     "no worker processes and no sandbox, for debuggers; not for files you do not trust"},
    {OPT_WINDOW, "window", 0, PACK, GROUP_RUN, ARG_WORD, false, false, "N", NULL,
     "samples between the first unwritten and the last opened one (default 256)"},

    {OPT_DECODE, "decode", 0, VERB_VERIFY, GROUP_RUN, ARG_WORD, false, false, NULL, NULL,
     "decode every image too, and compare its size with the index"},
    {OPT_FIX, "fix", 0, VERB_VERIFY, GROUP_RUN, ARG_WORD, false, false, NULL, NULL,
     "build again what is damaged, from the sources it was packed from or from SRC"},

    {OPT_REJECTS, "rejects", 0, VERB_LS, GROUP_LIST, ARG_WORD, false, false, NULL, NULL,
     "inputs that could not be converted, with the reason"},
    {OPT_LEFT_OUT, "left-out", 0, VERB_LS, GROUP_LIST, ARG_WORD, false, false, NULL, NULL,
     "files that belong to no sample, and junk that was skipped by name"},
    {OPT_SHARDS, "shards", 0, VERB_LS, GROUP_LIST, ARG_WORD, false, false, NULL, NULL,
     "shards with samples, bytes and checksum"},
    {OPT_FIELDS, "fields", 0, VERB_LS, GROUP_LIST, ARG_WORD, false, false, NULL, NULL,
     "what was decided for each kind of field: role, codec, and why"},
    {OPT_META, "meta", 0, VERB_LS, GROUP_LIST, ARG_WORD, false, false, NULL, NULL,
     "the recipe, versions and totals in the index"},
    {OPT_SPLIT, "split", 0, VERB_LS, GROUP_LIST, ARG_WORD, false, false, "NAME", NULL,
     "only this split"},
    {OPT_CLASS, "class", 0, VERB_LS, GROUP_LIST, ARG_WORD, false, false, "NAME", NULL,
     "only this class"},
    {OPT_KEY, "key", 0, VERB_LS, GROUP_LIST, ARG_WORD, false, false, "GLOB", NULL,
     "only samples whose key matches"},
    {OPT_NOTE, "note", 0, VERB_LS, GROUP_LIST, ARG_WORD, false, false, "NAME", NULL,
     "only fields with this note, as the report of pack names them"},
    {OPT_LIMIT, "limit", 0, VERB_LS, GROUP_LIST, ARG_WORD, false, false, "N", NULL,
     "stop after N lines"},
    {OPT_MAN, "man", 0, VERB_HELP, GROUP_LIST, ARG_WORD, false, false, NULL, NULL,
     "the manual page, for man -l -"},

    {OPT_JSON, "json", 0, PACK | VERB_LS | VERB_VERIFY | VERB_DOCTOR, GROUP_SHOW, ARG_WORD, false, false, NULL,
     NULL, "JSON lines on standard output, for programs"},
    {OPT_CSV, "csv", 0, VERB_LS, GROUP_SHOW, ARG_WORD, false, false, NULL, NULL,
     "comma-separated values on standard output"},
    {OPT_QUIET, "quiet", 'q', PACK, GROUP_SHOW, ARG_WORD, false, false, NULL, NULL,
     "only warnings and errors"},
    {OPT_VERBOSE, "verbose", 'v', PACK, GROUP_SHOW, ARG_WORD, false, false, NULL, NULL,
     "show every reject, not only the first 20"},
    {OPT_PROGRESS, "progress", 0, PACK, GROUP_SHOW, ARG_WORD, false, false, NULL, NULL,
     "where standard error is no terminal: a line every 2 seconds, not every 30"},
    {OPT_NO_PROGRESS, "no-progress", 0, PACK, GROUP_SHOW, ARG_WORD, false, false, NULL, NULL,
     "show no progress"},
    {OPT_NO_COLOR, "no-color", 0, PACK, GROUP_SHOW, ARG_WORD, false, false, NULL, NULL,
     "no colours; the environment variable NO_COLOR does the same"},
    {OPT_HELP, "help", 'h', VERB_ALL, GROUP_SHOW, ARG_WORD, false, false, NULL, NULL,
     "show this help"},
    {OPT_VERSION, "version", 'V', VERB_ALL, GROUP_SHOW, ARG_WORD, false, false, NULL, NULL,
     "show the version"},
};
const size_t option_table_n = sizeof option_table / sizeof option_table[0];

const struct verb_row verb_table[] = {
    {VERB_PACK, "pack", "SRC... -o OUT", "convert a dataset",
     "Reads folders, zip and tar archives (in place) or a list of files, and writes tar shards and "
     "an "
     "index to the folder OUT. The source is never touched.\n"
     "Without --resize or a codec option nothing is re-encoded: files are packed as they are. With "
     "--resize, JPEG stays JPEG; PNGs that look like photos become JPEG unless --lossless is "
     "given. "
     "Images are never enlarged unless --upscale is given.\n"
     "Inputs that cannot be converted are rejects: each is shown with its reason and listed by "
     "slimset ls OUT --rejects.\n"
     "The same command again continues a run that was stopped, and after changes in the source "
     "rewrites only the shards concerned.\n"
     "Of several GLOBs that match a file the last one counts. A GLOB with a / is compared with the "
     "path below SRC, one without with the file name.\n"
     "A --config file has lines \"option = value\" with the names of the options (of those without a "
     "value, yes or no); the command line has the last word. Sections [rule \"GLOB\"] and [field "
     "NAME] say what is done to some files only: role = image, mask, depth-map, array, copy or skip, "
     "and the options about pixels; in [field NAME] also pattern = PATTERN, as --field has it. A mask "
     "without a resize of its own takes the size of its image.",
     "slimset pack photos -o packed --resize 512\tlongest side at most 512 pixels\n"
     "slimset pack photos.zip -o packed\tpack the files as they are\n"
     "slimset pack photos -o packed --resize crop:224x224 --mask 'labels/*.png'\timages and "
     "masks\n"},
    {VERB_PLAN, "plan", "SRC... [-o OUT]", "what pack would do, with a prediction",
     "Walks the source, converts a few files to see what they are like, and says what pack would "
     "do "
     "with these options. Nothing is written. Takes the options of pack.",
     "slimset plan photos --resize 512\thow small would it get?\n"},
    {VERB_LS, "ls", "OUT", "look into a dataset",
     "Lists the samples of the dataset, or what the options ask for.",
     "slimset ls packed\tthe samples\n"
     "slimset ls packed --rejects\twhat could not be converted, and why\n"
     "slimset ls packed --meta\thow the dataset was made\n"},
    {VERB_GET, "get", "OUT KEY [FIELD]", "take one sample's field out of a dataset",
     "Writes the bytes of a field of the sample KEY to standard output or a file. Without FIELD "
     "the "
     "sample's image is meant. An array comes out as the .npy file that it was.",
     "slimset get packed 0001 jpg -o 0001.jpg\tone image\n"},
    {VERB_VERIFY, "verify", "OUT [SRC...]", "check a dataset for damage",
     "Checks the index, and every shard against the sizes and checksums in it. Exit status 4 when "
     "there is damage. --fix builds damaged files again, byte for byte as they were, where the "
     "sources still are what was packed; SRC says where they are now.",
     "slimset verify packed --decode\tdecode every image too\n"
     "slimset verify --fix packed\tmend what is damaged\n"},
    {VERB_DOCTOR, "doctor", "", "what this machine and build give",
     "Says which protections of the kernel workers run with, what the machine has, which libraries are in this build, and "
     "decodes and encodes a small picture of every format in workers as a run does. Exit status 1 when a run would not work.",
     "slimset doctor\nslimset doctor --json\tone JSON object a line: group, name, state, text\n"},
    {VERB_HELP, "help", "[VERB]", "show help", "Shows what there is, or the help of a verb.",
     "slimset help --man | man -l -\tthe manual page\n"},
    {VERB_VERSION, "version", "", "show the version", "Shows the version of the program.", NULL},
    {VERB_COMPLETION, "completion", "bash|zsh|fish", "print completions for a shell",
     "Prints a script that makes the shell complete verbs, options and values.",
     "source <(slimset completion bash)\tnow\n"
     "slimset completion zsh > ~/.zfunc/_slimset\tfor zsh, with ~/.zfunc in fpath\n"
     "slimset completion fish > ~/.config/fish/completions/slimset.fish\tfor fish\n"},
};
const size_t verb_table_n = sizeof verb_table / sizeof verb_table[0];
