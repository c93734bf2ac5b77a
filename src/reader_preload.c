/* SPDX-License-Identifier: Apache-2.0 */
#include "reader_impl.h"

static enum slimset_status not_yet(struct slimset_error *err)
{
    return err_set(err, SLIMSET_USAGE, "preloading is not there yet");
}
enum slimset_status reader_preload_ram(struct slimset_reader *r, struct slimset_error *err)
{
    (void)r;
    return not_yet(err);
}
enum slimset_status reader_preload_page_cache(struct slimset_reader *r, struct slimset_error *err)
{
    (void)r;
    return not_yet(err);
}
void reader_preload_fini(struct slimset_reader *r) { (void)r; }
enum slimset_status slimset_preload_drop(const char *out, uint64_t *bytes, struct slimset_error *err)
{
    (void)out, (void)bytes;
    return not_yet(err);
}
