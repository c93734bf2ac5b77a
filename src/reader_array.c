/* SPDX-License-Identifier: Apache-2.0 */
#include "reader_impl.h"

enum slimset_status slimset_reader_array(struct slimset_reader *reader, uint64_t i, uint32_t k,
                                         struct slimset_array *array, void *buf, size_t cap,
                                         struct slimset_error *err)
{
    (void)reader, (void)i, (void)k, (void)array, (void)buf, (void)cap;
    return err_set(err, SLIMSET_USAGE, "arrays are not there yet");
}
