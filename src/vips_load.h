/* SPDX-License-Identifier: Apache-2.0
 *
 * libvips at run time, shared by the vips_*.c files and by nobody else: the table of the functions
 * that dlsym found, opening a file's bytes with the one loader its format may use, and pulling
 * pixels. Only compiled with HAVE_VIPS. libvips keeps its state per process, so the table does,
 * too: filled once by vips_start, read-only afterwards but for the text of the last warning.
 */
#ifndef VIPS_LOAD_H
#define VIPS_LOAD_H

#include "image.h"

#ifdef HAVE_VIPS

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <vips/vips.h>
#pragma GCC diagnostic pop

/* Every function used; the names in the table end in _ so that no macro of GLib can match them. */
#define VIPS_LOAD_FUNCTIONS(F)                                                                     \
    F(g_free)                                                                                      \
    F(g_log_set_default_handler)                                                                   \
    F(g_object_unref)                                                                              \
    F(vips_area_unref)                                                                             \
    F(vips_block_untrusted_set)                                                                    \
    F(vips_blob_get)                                                                               \
    F(vips_cache_set_max)                                                                          \
    F(vips_cache_set_max_files)                                                                    \
    F(vips_cache_set_max_mem)                                                                      \
    F(vips_concurrency_set)                                                                        \
    F(vips_error_buffer)                                                                           \
    F(vips_error_clear)                                                                            \
    F(vips_gifload_buffer)                                                                         \
    F(vips_heifload_buffer)                                                                        \
    F(vips_icc_transform)                                                                          \
    F(vips_image_generate)                                                                         \
    F(vips_image_get_bands)                                                                        \
    F(vips_image_get_blob)                                                                         \
    F(vips_image_get_format)                                                                       \
    F(vips_image_get_height)                                                                       \
    F(vips_image_get_int)                                                                          \
    F(vips_image_get_typeof)                                                                       \
    F(vips_image_get_width)                                                                        \
    F(vips_image_init_fields)                                                                      \
    F(vips_image_new)                                                                              \
    F(vips_image_pipelinev)                                                                        \
    F(vips_image_set_blob_copy)                                                                    \
    F(vips_init)                                                                                   \
    F(vips_jp2kload_buffer)                                                                        \
    F(vips_jxlload_buffer)                                                                         \
    F(vips_operation_block_set)                                                                    \
    F(vips_profile_load)                                                                           \
    F(vips_region_new)                                                                             \
    F(vips_region_prepare)                                                                         \
    F(vips_tiffload_buffer)                                                                        \
    F(vips_version)                                                                                \
    F(vips_webpload_buffer)                                                                        \
    F(vips_webpsave_buffer)

struct vips_api {
#define VIPS_LOAD_MEMBER(name) __typeof__(&name) name##_;
    VIPS_LOAD_FUNCTIONS(VIPS_LOAD_MEMBER)
#undef VIPS_LOAD_MEMBER
};

/* The table, or NULL before a successful vips_start. */
const struct vips_api *vips_load_api(void);

/* The limits given to vips_start. */
const struct image_limits *vips_load_limits(void);

/* SLIMSET_OK when this process can load the format, else no-decoder with the reason. */
enum slimset_status vips_load_can(enum image_format f, struct slimset_error *err);

/* Forgets errors and warnings of the call before. */
void vips_load_begin(void);

/* The last warning that libvips logged since vips_load_begin, "" if none. */
const char *vips_load_warning(void);

/* True when a warning since vips_load_begin told of damaged pixels. */
bool vips_load_damaged(void);

/* libjxl and others print to stderr when a file is damaged. Between these two calls nothing that
 * goes through stdio comes out. vips_load_open, _pull and _close do it themselves; other calls into
 * libvips that may reach a codec must be put between them. Not to be nested. */
void vips_load_hush(void);
void vips_load_unhush(void);

/* Opens page or frame 0 (HEIF: the primary image) with the loader of format f. The bytes must
 * outlive *im, which the caller gives back with vips_load_close. */
enum slimset_status vips_load_open(const uint8_t *data, size_t n, enum image_format f,
                                   VipsImage **im, struct slimset_error *err);
void vips_load_close(VipsImage **im);

/* Called with rows y .. y + rows - 1 of the image, interleaved, stride_bytes apart. */
typedef void vips_load_rows(void *user, const uint8_t *row, size_t stride_bytes, uint32_t y,
                            uint32_t rows);

/* Computes the whole image from top to bottom in this thread and hands out its rows. */
enum slimset_status vips_load_pull(VipsImage *im, vips_load_rows *rows, void *user,
                                   struct slimset_error *err);

/* SLIMSET_BAD_INPUT with the class that libvips' error text speaks of; NO_MEMORY where the machine
 * had none. */
enum slimset_status vips_load_fault(const char *what, struct slimset_error *err);

/* Copies text with control bytes blanked, at most cap - 1 bytes. */
void vips_load_one_line(char *to, size_t cap, const char *text);

/* Tiny files of each format (8 x 8, about (200, 60, 30)), decoded once by vips_start. */
struct vips_sample {
    enum image_format format;
    const uint8_t *data;
    size_t n;
};
extern const struct vips_sample vips_samples[];
extern const unsigned vips_samples_n;

#endif
#endif
