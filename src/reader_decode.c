/* SPDX-License-Identifier: Apache-2.0 */
#include "reader_impl.h"

static enum slimset_status not_yet(struct slimset_error *err)
{
    return err_set(err, SLIMSET_USAGE, "decoding is not there yet");
}
void slimset_decode_options_init(struct slimset_decode_options *options)
{
    *options = (struct slimset_decode_options){0};
}
enum slimset_status slimset_reader_decode_size(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                               const struct slimset_decode_options *options,
                                               struct slimset_pixels *pixels,
                                               struct slimset_error *err)
{
    (void)reader, (void)i, (void)k, (void)options, (void)pixels;
    return not_yet(err);
}
enum slimset_status slimset_reader_decode(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                          const struct slimset_decode_options *options, void *buf,
                                          size_t cap, struct slimset_pixels *pixels,
                                          struct slimset_error *err)
{
    (void)reader, (void)i, (void)k, (void)options, (void)pixels, (void)buf, (void)cap;
    return not_yet(err);
}
void slimset_resize_options_init(struct slimset_resize_options *options)
{
    *options = (struct slimset_resize_options){.channels = 3};
}
enum slimset_status slimset_reader_decode_resized(struct slimset_reader *reader, uint64_t i,
                                                  uint32_t k,
                                                  const struct slimset_resize_options *options,
                                                  const struct slimset_box *box, void *buf,
                                                  size_t cap, struct slimset_error *err)
{
    (void)reader, (void)i, (void)k, (void)options, (void)box, (void)buf, (void)cap;
    return not_yet(err);
}
enum slimset_status slimset_reader_decode_batch(struct slimset_reader *reader,
                                                const uint64_t *samples, size_t n, const char *name,
                                                size_t name_n,
                                                const struct slimset_resize_options *options,
                                                const struct slimset_box *boxes, unsigned threads,
                                                void *buf, size_t cap, size_t *failed,
                                                struct slimset_error *err)
{
    (void)reader, (void)samples, (void)n, (void)name, (void)name_n, (void)options, (void)boxes;
    (void)threads, (void)buf, (void)cap, (void)failed;
    return not_yet(err);
}
enum slimset_status slimset_reader_array(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                         struct slimset_array *array, void *buf, size_t cap,
                                         struct slimset_error *err)
{
    (void)reader, (void)i, (void)k, (void)array, (void)buf, (void)cap;
    return not_yet(err);
}
