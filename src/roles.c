/* SPDX-License-Identifier: Apache-2.0 */
#include "roles.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is(const char *word, const char *p, size_t n)
{
    return strlen(word) == n && strncasecmp(word, p, n) == 0;
}

static const struct {
    const char *ext;
    enum image_format format;
} extensions[] = {
    /* the first of a format is its usual one */
    {"jpg", FORMAT_JPEG}, {"jpeg", FORMAT_JPEG}, {"jpe", FORMAT_JPEG}, {"jfif", FORMAT_JPEG},
    {"png", FORMAT_PNG}, {"apng", FORMAT_PNG},
    {"tif", FORMAT_TIFF}, {"tiff", FORMAT_TIFF}, {"webp", FORMAT_WEBP}, {"gif", FORMAT_GIF},
    {"bmp", FORMAT_BMP}, {"dib", FORMAT_BMP},
    {"ppm", FORMAT_PNM}, {"pgm", FORMAT_PNM}, {"pbm", FORMAT_PNM}, {"pnm", FORMAT_PNM},
    {"heic", FORMAT_HEIF}, {"heif", FORMAT_HEIF}, {"hif", FORMAT_HEIF}, {"avif", FORMAT_AVIF},
    {"jxl", FORMAT_JXL}, {"jp2", FORMAT_JP2}, {"j2k", FORMAT_JP2}, {"jpx", FORMAT_JP2}, {"jpf", FORMAT_JP2},
    {"npy", FORMAT_NPY}, {"npz", FORMAT_NPZ},
    {"npy.zst", FORMAT_NPY_ZST}, {"npy.blosc", FORMAT_NPY_BLOSC},
};
enum { N_EXTENSIONS = sizeof extensions / sizeof extensions[0] };

bool role_is_image_format(enum image_format f)
{
    return f >= FORMAT_JPEG && f <= FORMAT_JP2;
}

enum slimset_role role_of_extension(const char *ext, size_t n, bool *known)
{
    *known = true;
    for (int i = 0; i < N_EXTENSIONS; i++)
        if (is(extensions[i].ext, ext, n))
            return role_is_image_format(extensions[i].format) ? SLIMSET_ROLE_IMAGE : SLIMSET_ROLE_ARRAY;
    static const char *const copies[] = {"txt", "json", "xml", "csv", "tsv", "yaml", "yml", "cls", "cls2", "caption",
                                         "text", "md", "jsonl", "pkl", "pth", "html", "htm", "toml", "log", "py", "sh",
                                         "ipynb", "pdf", "mat", "h5", "hdf5", "parquet", "wav", "mp3", "flac", "ogg", "mp4",
                                         "avi", "mov", "mkv", "webm", "dcm", "nii", "svg", "zip", "tar", "gz", "tgz", "xz",
                                         "zst", "obj", "ply", "id", "index", "bin", "pt", "svs"};
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++)
        if (is(copies[i], ext, n))
            return SLIMSET_ROLE_COPY;
    *known = false;
    return SLIMSET_ROLE_COPY;
}

const char *role_extension(enum image_format f)
{
    for (int i = 0; i < N_EXTENSIONS; i++)
        if (extensions[i].format == f)
            return extensions[i].ext;
    return NULL;
}

bool role_extension_fits(enum image_format f, const char *ext, size_t n)
{
    for (int i = 0; i < N_EXTENSIONS; i++)
        if (extensions[i].format == f && is(extensions[i].ext, ext, n))
            return true;
    return false;
}

/* One folder name or field part: does it, or a word in it, mean labels or depth? */
static enum role_hint hint_of(const char *p, size_t n)
{
    static const char *const masks[] = {"mask", "masks", "label", "labels", "annot", "annots", "gt", "seg", "segs",
                                        "segmentation", "segmentations", "segmentationclass", "segmentationobject",
                                        "groundtruth", "labelmap", "labelmaps", "labelids", "instanceids", "trainids",
                                        "semantic", "instance", "panoptic"};
    static const char *const depths[] = {"depth", "depths", "disp", "disparity", "disparities", "flow", "depthmap",
                                         "depthmaps"};
    static const char *const endings[] = {"annot", "masks", "mask", "labels"}; /* valannot, trainmasks */
    size_t at = 0;
    while (at < n) {
        while (at < n && !isalnum((unsigned char)p[at]))
            at++;
        size_t end = at;
        while (end < n && isalnum((unsigned char)p[end]))
            end++;
        for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++)
            if (is(depths[i], p + at, end - at))
                return ROLE_HINT_DEPTH;
        for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++)
            if (is(masks[i], p + at, end - at))
                return ROLE_HINT_MASK;
        for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
            size_t e = strlen(endings[i]);
            if (end - at > e && strncasecmp(p + end - e, endings[i], e) == 0)
                return ROLE_HINT_MASK;
        }
        at = end;
    }
    return ROLE_HINT_NONE;
}

enum role_hint role_hint_of(const char *dir, size_t dir_bytes, const char *field, size_t field_bytes)
{
    enum role_hint found = ROLE_HINT_NONE;
    const char *last = memrchr(field, '.', field_bytes);
    if (last != NULL) /* seg.png: all parts but the extension */
        found = hint_of(field, (size_t)(last - field));
    if (found == ROLE_HINT_NONE && dir_bytes > 0)
        found = hint_of(dir, dir_bytes);
    return found;
}

bool role_is_split(const char *p, size_t n)
{
    static const char *const names[] = {"train", "val", "valid", "validation", "dev", "test"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is(names[i], p, n))
            return true;
    return false;
}

bool role_is_generic(const char *p, size_t n)
{
    static const char *const names[] = {"image", "images", "img", "imgs", "jpegimages", "jpeg", "jpegs", "jpg", "png", "pngs",
                                        "picture", "pictures", "photos", "photo", "data", "annotations", "annotation",
                                        "imagesets", "frames", "rgb", "color", "colour", "left", "right", "raw", "input",
                                        "inputs", "target", "targets", "files", "media"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is(names[i], p, n))
            return true;
    return hint_of(p, n) != ROLE_HINT_NONE || role_is_split(p, n);
}
