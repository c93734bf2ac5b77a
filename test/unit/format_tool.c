/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the datasets that format_judge.py reads, in a folder that exists:
 *   format_tool example DIR      the worked example of doc/format.md
 *   format_tool shards DIR N     make_dataset.h with N samples a part
 *   format_tool tree DIR N
 * Built with FORMAT_TOOL_VERBS and -Icmd it also answers ls, get and verify, for a judge that is
 * run without the program.
 */
#include "make_dataset.h"

#ifdef FORMAT_TOOL_VERBS
#include "options.h"
#include "verify_decode.h"
struct verify_decoder *verify_decoder_open(unsigned jobs, struct slimset_error *err)
{
    (void)jobs;
    err->status = SLIMSET_INTERNAL;
    snprintf(err->text, sizeof err->text, "no decoder in this tool");
    return NULL;
}
void verify_decoder_close(struct verify_decoder *d) { (void)d; }
enum slimset_status verify_decode_field(struct verify_decoder *d, const uint8_t *data, size_t n,
                                        uint8_t format, uint32_t *w, uint32_t *h,
                                        struct slimset_error *err)
{
    (void)d, (void)data, (void)n, (void)format, (void)err;
    *w = *h = 0;
    return SLIMSET_OK;
}

static int verb(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "ls") == 0)
        return cmd_ls(argc - 1, argv + 1);
    if (strcmp(argv[1], "get") == 0)
        return cmd_get(argc - 1, argv + 1);
    if (strcmp(argv[1], "verify") == 0)
        return cmd_verify(argc - 1, argv + 1);
    return -1;
}
#else
static int verb(int argc, char **argv)
{
    (void)argc, (void)argv;
    return -1;
}
#endif

int main(int argc, char **argv)
{
    int status = verb(argc, argv);
    if (status >= 0)
        return status;
    int dirfd = argc > 2 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dirfd < 0) {
        fprintf(stderr, "format_tool example|shards|tree DIR [N]\n");
        return 2;
    }
    if (strcmp(argv[1], "example") == 0)
        make_example(dirfd);
    else
        make_dataset(dirfd, strcmp(argv[1], "tree") == 0,
                     argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
    close(dirfd);
    return 0;
}
