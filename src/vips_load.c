/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding and starting libvips, and the few things every user of it needs. Pixels are pulled
 * through a region in the calling thread instead of vips_image_write_to_memory: no worker threads,
 * and no second copy of the image.
 */
#include "vips_load.h"

#include "vips_read.h"

#ifdef HAVE_VIPS

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VIPS_OLDEST = 8 * 100 + 13, /* vips_block_untrusted_set, vips_operation_block_set */
    STRIP_ROWS = 64
};

/* Optional: gone in builds without Orc or Highway. */
typedef void vector_set_fn(gboolean enabled);

static struct {
    struct vips_api api;
    struct image_limits limits;
    bool tried;
    bool started;
    bool can[FORMAT_COUNT];
    char version[32];
    char fault[256];   /* why it could not be started */
    char warning[256]; /* last message logged; of those that tell of damage the first */
    bool damage;       /* one of them told of damaged pixels */
    FILE *nowhere;     /* swallows what codecs print; NULL where that cannot be had */
    FILE *kept;        /* the true stderr while hushed */
} vips;

static const char *format_text(enum image_format f)
{
    switch (f) {
    case FORMAT_TIFF:
        return "TIFF";
    case FORMAT_WEBP:
        return "WebP";
    case FORMAT_GIF:
        return "GIF";
    case FORMAT_HEIF:
        return "HEIF";
    case FORMAT_AVIF:
        return "AVIF";
    case FORMAT_JXL:
        return "JPEG XL";
    case FORMAT_JP2:
        return "JPEG 2000";
    default:
        return "this format";
    }
}

const struct vips_api *vips_load_api(void) { return vips.started ? &vips.api : NULL; }

const struct image_limits *vips_load_limits(void) { return &vips.limits; }

const char *vips_version_text(void) { return vips.started ? vips.version : NULL; }

bool vips_can_load(enum image_format f)
{
    return vips.started && (unsigned)f < FORMAT_COUNT && vips.can[f];
}

enum slimset_status vips_load_can(enum image_format f, struct slimset_error *err)
{
    if (!vips.started)
        return err_bad(err, SLIMSET_REJECT_NO_DECODER, "%s needs libvips: %s", format_text(f),
                       vips.tried ? vips.fault : "not started");
    if (!vips_can_load(f))
        return err_bad(err, SLIMSET_REJECT_NO_DECODER, "libvips %s here has no decoder for %s",
                       vips.version, format_text(f));
    return SLIMSET_OK;
}

void vips_load_one_line(char *to, size_t cap, const char *text)
{
    size_t n = 0;
    for (; text[n] != '\0' && n + 1 < cap; n++)
        to[n] = (unsigned char)text[n] < ' ' ? ' ' : text[n];
    while (n > 0 && to[n - 1] == ' ')
        n--;
    to[n] = '\0';
}

static bool says(const char *text, const char *const *words, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (strcasestr(text, words[i]) != NULL)
            return true;
    return false;
}

/* Every message of GLib and libvips ends here: a worker never prints. */
static void on_log(const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer user)
{
    /* What libtiff's fax and JPEG decoders say before they make the missing pixels up. */
    static const char *const damage[] = {"premature", "bad code", "corrupt jpeg", "not enough data",
                                         "line length mismatch"};
    (void)domain;
    (void)user;
    if ((level & (G_LOG_LEVEL_WARNING | G_LOG_LEVEL_CRITICAL | G_LOG_LEVEL_ERROR)) == 0)
        return;
    /* Said of most AVIF files and harmless: the numbers are kept as they are. */
    if (message == NULL || strstr(message, "nclx") != NULL || vips.damage)
        return;
    vips.damage = says(message, damage, sizeof damage / sizeof damage[0]);
    vips_load_one_line(vips.warning, sizeof vips.warning, message);
}

void vips_load_begin(void)
{
    vips.api.vips_error_clear_();
    vips.warning[0] = '\0';
    vips.damage = false;
}

bool vips_load_damaged(void) { return vips.damage; }

const char *vips_load_warning(void) { return vips.warning; }

#ifdef __GLIBC__
/* glibc's stderr is a variable, and a stream of our own needs no descriptor: so this works inside
 * the sandbox, where dup2 would not. */
static ssize_t swallow(void *cookie, const char *bytes, size_t n)
{
    (void)cookie, (void)bytes;
    return (ssize_t)n;
}

static FILE *open_nowhere(void)
{
    return fopencookie(NULL, "w", (cookie_io_functions_t){.write = swallow});
}

void vips_load_hush(void)
{
    if (vips.nowhere == NULL)
        return;
    vips.kept = stderr;
    stderr = vips.nowhere;
}

void vips_load_unhush(void)
{
    if (vips.kept != NULL)
        stderr = vips.kept;
    vips.kept = NULL;
}
#else
static FILE *open_nowhere(void) { return NULL; }

void vips_load_hush(void) {}

void vips_load_unhush(void) {}
#endif

enum slimset_status vips_load_fault(const char *what, struct slimset_error *err)
{
    static const char *const no_memory[] = {"out of memory", "unable to allocate"};
    static const char *const truncated[] = {"end of file",     "end of data", "truncat",
                                            "not enough data", "premature",   "unexpected end",
                                            "too short"};
    static const char *const too_large[] = {"security limit", "maximum image size"}; /* libheif's own */
    static const char *const unsupported[] = {"not supported", "unsupported", "not configured",
                                              "compression support", "unimplemented"};
    char text[320];
    vips_load_one_line(text, sizeof text, vips.api.vips_error_buffer_());
    vips.api.vips_error_clear_();
    if (text[0] == '\0')
        vips_load_one_line(text, sizeof text,
                           vips.warning[0] != '\0' ? vips.warning : "no reason given");
    if (says(text, no_memory, 2))
        return err_set(err, SLIMSET_NO_MEMORY, "%s: libvips: %s", what, text);
    enum slimset_reject reject = SLIMSET_REJECT_CORRUPT;
    if (says(text, too_large, sizeof too_large / sizeof too_large[0]))
        reject = SLIMSET_REJECT_TOO_MANY_PIXELS;
    else if (says(text, truncated, sizeof truncated / sizeof truncated[0]))
        reject = SLIMSET_REJECT_TRUNCATED;
    else if (says(text, unsupported, sizeof unsupported / sizeof unsupported[0]))
        reject = SLIMSET_REJECT_UNSUPPORTED;
    return err_bad(err, reject, "%s: libvips: %s", what, text);
}

enum slimset_status vips_load_open(const uint8_t *data, size_t n, enum image_format f,
                                   VipsImage **im, struct slimset_error *err)
{
    const struct vips_api *v = &vips.api;
    void *bytes = (void *)(uintptr_t)data; /* only read; libvips' prototypes lack the const */
    VipsFailOn strict = VIPS_FAIL_ON_ERROR;
    VipsAccess once = VIPS_ACCESS_SEQUENTIAL;
    int r = -1;
    *im = NULL;
    vips_load_hush();
    switch (f) {
    case FORMAT_TIFF:
        r = v->vips_tiffload_buffer_(bytes, n, im, "page", 0, "access", once, "fail_on", strict,
                                     NULL);
        break;
    case FORMAT_WEBP:
        r = v->vips_webpload_buffer_(bytes, n, im, "page", 0, "n", 1, "access", once, "fail_on",
                                     strict, NULL);
        break;
    case FORMAT_GIF:
        /* With fail_on the scan would refuse a file whose tenth frame is damaged; frame 0 is
         * judged by container_check, and its decode fails on its own. */
        r = v->vips_gifload_buffer_(bytes, n, im, "page", 0, "n", 1, "access", once, NULL);
        break;
    case FORMAT_HEIF:
    case FORMAT_AVIF:
        /* without "page": the primary image */
        r = v->vips_heifload_buffer_(bytes, n, im, "access", once, "fail_on", strict, NULL);
        break;
    case FORMAT_JXL:
        r = v->vips_jxlload_buffer_(bytes, n, im, "access", once, "fail_on", strict, NULL);
        break;
    case FORMAT_JP2:
        r = v->vips_jp2kload_buffer_(bytes, n, im, "page", 0, "access", once, "fail_on", strict,
                                     NULL);
        break;
    default:
        break;
    }
    vips_load_unhush();
    if (r == 0)
        return SLIMSET_OK;
    vips_load_close(im);
    return vips_load_fault(format_text(f), err);
}

void vips_load_close(VipsImage **im)
{
    vips_load_hush();
    if (*im != NULL)
        vips.api.g_object_unref_(*im);
    *im = NULL;
    vips_load_unhush();
}

enum slimset_status vips_load_pull(VipsImage *im, vips_load_rows *rows, void *user,
                                   struct slimset_error *err)
{
    const struct vips_api *v = &vips.api;
    int w = v->vips_image_get_width_(im), h = v->vips_image_get_height_(im);
    VipsRegion *region = v->vips_region_new_(im);
    if (region == NULL)
        return vips_load_fault("region", err);
    enum slimset_status st = SLIMSET_OK;
    for (int y = 0; y < h && st == SLIMSET_OK; y += STRIP_ROWS) {
        VipsRect strip = {.left = 0, .top = y, .width = w, .height = VIPS_MIN(STRIP_ROWS, h - y)};
        vips_load_hush();
        int r = v->vips_region_prepare_(region, &strip);
        vips_load_unhush();
        if (r != 0)
            st = vips_load_fault("pixels", err);
        else
            rows(user, region->data + (size_t)(y - region->valid.top) * (size_t)region->bpl,
                 (size_t)region->bpl, (uint32_t)y, (uint32_t)strip.height);
    }
    v->g_object_unref_(region);
    return st;
}

/* Environment that libvips and GLib read. Threads of libvips' own would fight the pool of workers;
 * an image that passes the disc threshold would need a temporary file, which the sandbox forbids;
 * and some variables make it print, or abort on a warning. */
static void set_environment(void)
{
    static const char *const talkative[] = {"VIPS_PROGRESS", "IM_PROGRESS",  "VIPS_INFO",
                                            "IM_INFO",       "VIPS_PROFILE", "VIPS_LEAK",
                                            "VIPS_TRACE",    "VIPS_WARNING", "IM_WARNING",
                                            "VIPS_STALL",    "G_DEBUG",      "G_MESSAGES_DEBUG"};
    setenv("VIPS_DISC_THRESHOLD", "64g", 1);
    setenv("VIPS_CONCURRENCY", "1", 1);
    setenv("VIPS_NOVECTOR", "1", 1);
    for (unsigned i = 0; i < sizeof talkative / sizeof talkative[0]; i++)
        unsetenv(talkative[i]);
}

static bool find_functions(void *library)
{
#define VIPS_LOAD_FIND(name) {#name, (void **)(void *)&vips.api.name##_},
    const struct {
        const char *name;
        void **to;
    } wanted[] = {VIPS_LOAD_FUNCTIONS(VIPS_LOAD_FIND)};
#undef VIPS_LOAD_FIND
    for (unsigned i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        *wanted[i].to = dlsym(library, wanted[i].name);
        if (*wanted[i].to == NULL) {
            snprintf(vips.fault, sizeof vips.fault, "it lacks %s", wanted[i].name);
            return false;
        }
    }
    return true;
}

/* Nothing may be loaded but the formats we know, each through its own library. */
static void close_loaders(void)
{
    static const char *const open[] = {"VipsForeignLoadTiff",  "VipsForeignLoadWebp",
                                       "VipsForeignLoadNsgif", "VipsForeignLoadHeif",
                                       "VipsForeignLoadJxl",   "VipsForeignLoadJp2k"};
    static const char *const shut[] = {"VipsForeignLoad", "VipsForeignLoadMagick",
                                       "VipsForeignLoadMagick7", "VipsForeignLoadSvg",
                                       "VipsForeignLoadPdf"};
    vips.api.vips_block_untrusted_set_(TRUE);
    for (unsigned i = 0; i < sizeof shut / sizeof shut[0]; i++)
        vips.api.vips_operation_block_set_(shut[i], TRUE);
    for (unsigned i = 0; i < sizeof open / sizeof open[0]; i++)
        vips.api.vips_operation_block_set_(open[i], FALSE);
}

static void keep_first(void *user, const uint8_t *row, size_t stride_bytes, uint32_t y,
                       uint32_t rows)
{
    (void)stride_bytes;
    (void)rows;
    if (y == 0)
        memcpy(user, row, 3);
}

/* Runs every loader, a colour conversion and the WebP encoder once. */
static void warm_up(void)
{
    struct slimset_error err;
    struct image small = {0}, srgb = {0};
    struct buf webp = {.max = 1 << 20};
    VipsBlob *profile = NULL;
    uint32_t notes = 0;
    for (unsigned i = 0; i < vips_samples_n; i++) {
        const struct vips_sample *s = &vips_samples[i];
        VipsImage *im = NULL;
        uint8_t first[3] = {0, 0, 0};
        vips_load_begin();
        if (vips_load_open(s->data, s->n, s->format, &im, &err) == SLIMSET_OK &&
            vips_load_pull(im, keep_first, first, &err) == SLIMSET_OK)
            vips.can[s->format] = abs(first[0] - 200) < 8 && abs(first[1] - 60) < 8;
        vips_load_close(&im);
    }
    if (image_setup(&small, IMAGE_RGB, true, 8, 8, 8, &err) == SLIMSET_OK) {
        memset(small.store.data, 99, small.store.len);
        if (vips.api.vips_profile_load_("srgb", &profile, NULL) == 0) {
            size_t n;
            const void *icc = vips.api.vips_blob_get_(profile, &n);
            vips_to_srgb(&small, icc, n, &srgb, &notes, &err);
            vips.api.vips_area_unref_(VIPS_AREA(profile));
        }
        vips_write_webp(&small, 80, false, &webp, &err);
        vips_write_webp(&small, 80, true, &webp, &err);
    }
    vips_load_begin();
    buf_fini(&webp);
    image_fini(&srgb);
    image_fini(&small);
}

static bool start(void)
{
    set_environment();
    vips.nowhere = open_nowhere();
    void *library = dlopen("libvips.so.42", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror();
        vips_load_one_line(vips.fault, sizeof vips.fault, why != NULL ? why : "not found");
        return false;
    }
    /* Never closed again: GLib does not survive it. */
    if (!find_functions(library))
        return false;
    vips.api.g_log_set_default_handler_(on_log, NULL);
    if (vips.api.vips_init_("slimset") != 0) {
        vips_load_one_line(vips.fault, sizeof vips.fault, vips.api.vips_error_buffer_());
        return false;
    }
    int v[3] = {vips.api.vips_version_(0), vips.api.vips_version_(1), vips.api.vips_version_(2)};
    snprintf(vips.version, sizeof vips.version, "%d.%d.%d", v[0], v[1], v[2]);
    if (v[0] * 100 + v[1] < VIPS_OLDEST) {
        snprintf(vips.fault, sizeof vips.fault, "version %s is older than 8.13", vips.version);
        return false;
    }
    vips.api.vips_cache_set_max_(0);
    vips.api.vips_cache_set_max_mem_(0);
    vips.api.vips_cache_set_max_files_(0);
    vips.api.vips_concurrency_set_(1);
    vector_set_fn *vector_set;
    *(void **)(void *)&vector_set = dlsym(library, "vips_vector_set_enabled");
    if (vector_set != NULL)
        vector_set(FALSE);
    close_loaders();
    vips.started = true; /* the warm-up uses the public functions */
    warm_up();
    return true;
}

enum slimset_status vips_start(const struct image_limits *limits, struct slimset_error *err)
{
    vips.limits = *limits;
    if (!vips.tried) {
        vips.tried = true;
        if (!start() && vips.fault[0] == '\0')
            snprintf(vips.fault, sizeof vips.fault, "its start failed without a reason");
    }
    if (!vips.started)
        return err_bad(err, SLIMSET_REJECT_NO_DECODER, "libvips could not be used: %s", vips.fault);
    return SLIMSET_OK;
}

#endif
