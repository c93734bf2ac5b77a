/* SPDX-License-Identifier: Apache-2.0
 *
 * verify --fix inside a run of pack: which shards are damaged, and what is published of those that were built again. The index is
 * the measure and stays byte for byte what it is; a shard that does not come out as it says is thrown away.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "dataset.h"
#include "pack_impl.h"
#include "pipeline.h"
#include "sidecar.h"

enum { CHUNK = 1 << 20 };

/* Is the file what the index says? A missing, shorter, unreadable (EIO) or other one is not. */
static enum slimset_status file_is_whole(const struct pack *p, const char *path, uint64_t bytes, uint64_t hash, uint8_t *chunk,
                                         bool *whole, struct slimset_error *err)
{
    struct dataset d = {.dirfd = p->dirs.out};
    struct hash_stream h;
    uint64_t size, at = 0;
    int fd;
    *whole = false;
    enum slimset_status st = dataset_open_file(&d, path, &fd, &size, err);
    if (st != SLIMSET_OK)
        return st == SLIMSET_NOT_FOUND || st == SLIMSET_DAMAGED ? SLIMSET_OK : st;
    hash_init(&h);
    for (size_t got = CHUNK; st == SLIMSET_OK && size == bytes && got == CHUNK; at += got) {
        st = io_pread(fd, chunk, CHUNK, at, &got, path, err);
        hash_update(&h, chunk, st == SLIMSET_OK ? got : 0);
    }
    close(fd);
    if (st == SLIMSET_IO && err->os_errno == EIO)
        return SLIMSET_OK;
    *whole = st == SLIMSET_OK && at == bytes && hash_value(&h) == hash;
    return st;
}

/* All files of a part of the old index: the shard's, or those of its samples in a tree. */
static enum slimset_status part_is_whole(struct pack *p, const struct slimset_part *part, uint8_t *chunk, bool *whole,
                                         struct slimset_error *err)
{
    char path[DATASET_PATH_MAX];
    const char *key, *name;
    size_t key_n, name_n;
    bool tree = p->recipe->layout == SLIMSET_LAYOUT_TREE;
    *whole = true;
    if (!tree) {
        enum slimset_status st = index_text(&p->old, part->name, &name, &name_n, err);
        if (st == SLIMSET_OK && !dataset_part_name(name, name_n, path))
            return err_set(err, SLIMSET_DAMAGED, "the index names a part that is no plain file");
        return st == SLIMSET_OK ? file_is_whole(p, path, part->bytes, part->hash, chunk, whole, err) : st;
    }
    enum slimset_status st = SLIMSET_OK;
    for (uint32_t i = 0; st == SLIMSET_OK && *whole && i < part->n_samples; i++) {
        const struct slimset_sample *s;
        const struct slimset_field *f;
        st = index_sample(&p->old, part->first_sample + i, &s, &f, err);
        if (st == SLIMSET_OK)
            st = index_text(&p->old, s->key, &key, &key_n, err);
        for (uint32_t k = 0; st == SLIMSET_OK && *whole && k < s->n_fields; k++) {
            st = index_text(&p->old, f[k].name, &name, &name_n, err);
            if (st == SLIMSET_OK && !dataset_path(key, key_n, name, name_n, path))
                st = err_set(err, SLIMSET_DAMAGED, "the index names a file that is outside");
            if (st == SLIMSET_OK)
                st = file_is_whole(p, path, f[k].bytes, f[k].hash, chunk, whole, err);
        }
    }
    return st;
}

static void tell_lost(struct pack *p, size_t shard, const char *why)
{
    const struct plan_shard *s = &p->plan.shards[shard];
    p->report->shards_lost++;
    p->state[shard] = SHARD_EMPTY;
    run_note(p->run, SLIMSET_EVENT_WARNING, "shard %s-%05u cannot be rebuilt: %s", p->plan.splits[s->split].name, s->number, why);
}

enum slimset_status repair_sort(struct pack *p, struct slimset_error *err)
{
    uint8_t *chunk = malloc(CHUNK);
    enum slimset_status st = chunk != NULL ? SLIMSET_OK : err_nomem(err, CHUNK);
    for (size_t i = 0; st == SLIMSET_OK && i < p->plan.n_shards; i++) {
        if (p->old_shard[i] == SIZE_MAX)
            continue; /* new in the source: not of this dataset */
        const struct slimset_shard *s = &p->old.shards[p->old_shard[i]];
        bool whole = true;
        for (uint64_t k = s->first_part; st == SLIMSET_OK && whole && k < (uint64_t)s->first_part + s->n_parts; k++) {
            if (p->run->stop != NULL && *p->run->stop)
                st = err_set(err, SLIMSET_INTERRUPTED, "interrupted; the same command goes on from here");
            else if (k < p->old.n_parts)
                st = part_is_whole(p, &p->old.parts[k], chunk, &whole, err);
        }
        if (whole)
            p->state[i] = SHARD_KEPT;
        else if (p->plan.shards[i].n_samples == 0)
            tell_lost(p, i, "its source is gone");
        else
            p->state[i] = pack_fragment_is_good(p, i) ? SHARD_RESUMED : SHARD_TO_DO;
    }
    free(chunk);
    return st;
}

static bool same_text(struct index *a, slimset_str sa, struct index *b, slimset_str sb)
{
    struct slimset_error ignored;
    const char *ta, *tb;
    size_t na, nb;
    return index_text(a, sa, &ta, &na, &ignored) == SLIMSET_OK && index_text(b, sb, &tb, &nb, &ignored) == SLIMSET_OK &&
           na == nb && memcmp(ta, tb, na) == 0;
}

/* The first input of the shard that is not what was packed, for people. */
static void name_difference(struct pack *p, const struct slimset_shard *old, struct index *now, char *text, size_t text_n)
{
    struct slimset_error ignored;
    for (uint64_t i = 0; i < old->n_samples; i++) {
        const struct slimset_sample *a, *b = NULL;
        const struct slimset_field *fa, *fb;
        const char *path;
        size_t n;
        if (index_sample(&p->old, old->first_sample + i, &a, &fa, &ignored) != SLIMSET_OK)
            return;
        bool there = i < now->n_samples && index_sample(now, i, &b, &fb, &ignored) == SLIMSET_OK &&
                     same_text(&p->old, a->key, now, b->key) && a->n_fields == b->n_fields;
        for (uint32_t k = 0; k < a->n_fields; k++)
            if ((!there || fa[k].in_hash != fb[k].in_hash) &&
                index_text(&p->old, fa[k].path, &path, &n, &ignored) == SLIMSET_OK && n > 0) {
                snprintf(text, text_n, "its source has changed (%.*s)", (int)(n < 300 ? n : 300), path);
                return;
            }
    }
    snprintf(text, text_n, now->n_samples != old->n_samples ? "its source has changed (there are more files)"
                                                            : "from the same source it does not come out as it was packed");
}

/* Are the files that a fragment names those that the old index names? */
static enum slimset_status is_golden(struct pack *p, size_t shard, bool *golden, struct slimset_error *err)
{
    const struct slimset_shard *s = &p->old.shards[p->old_shard[shard]];
    struct index now = {0};
    char name[320], why[400] = "";
    pipeline_fragment_name(&p->plan, shard, name);
    enum slimset_status st = index_open(p->dirs.work, name, SLIMSET_KIND_FRAGMENT, true, &now, err);
    if (st != SLIMSET_OK)
        return st;
    *golden = now.n_parts == s->n_parts && now.n_samples == s->n_samples && s->first_part + now.n_parts <= p->old.n_parts;
    for (uint64_t i = 0; *golden && i < now.n_parts; i++) {
        const struct slimset_part *a = &p->old.parts[s->first_part + i], *b = &now.parts[i];
        *golden = a->bytes == b->bytes && a->hash == b->hash && same_text(&p->old, a->name, &now, b->name);
    }
    for (uint64_t i = 0; *golden && i < now.n_samples; i++) { /* the names of a tree are not in its hashes */
        const struct slimset_sample *a, *b;
        const struct slimset_field *fa, *fb;
        *golden = index_sample(&p->old, s->first_sample + i, &a, &fa, err) == SLIMSET_OK &&
                  index_sample(&now, i, &b, &fb, err) == SLIMSET_OK && a->n_fields == b->n_fields &&
                  same_text(&p->old, a->key, &now, b->key);
        for (uint32_t k = 0; *golden && k < a->n_fields; k++)
            *golden = same_text(&p->old, fa[k].name, &now, fb[k].name);
    }
    if (!*golden) {
        name_difference(p, s, &now, why, sizeof why);
        tell_lost(p, shard, why);
    }
    index_close(&now);
    return SLIMSET_OK;
}

/* The old index once more, as what is to be published. */
static enum slimset_status copy_index(struct pack *p, struct slimset_error *err)
{
    int fd = -1;
    struct slimset_error ignored;
    enum slimset_status st = io_create(p->dirs.work, "publish", &fd, err);
    if (st == SLIMSET_OK)
        st = io_write(fd, p->old.base, p->old.bytes, "the index", err);
    if (st == SLIMSET_OK)
        st = io_fsync(fd, "the index", err);
    enum slimset_status closed = fd >= 0 ? io_close(fd, "the index", st == SLIMSET_OK ? err : &ignored) : SLIMSET_OK;
    st = st == SLIMSET_OK ? closed : st;
    return st == SLIMSET_OK ? io_sync_dir(p->dirs.work, ".", err) : st;
}

enum slimset_status repair_finish(struct pack *p, struct slimset_error *err)
{
    char (*names)[320] = calloc(p->plan.n_shards + 1, sizeof *names);
    size_t n = 0;
    bool golden, rolled, beside = true;
    enum slimset_status st = names != NULL ? SLIMSET_OK : err_nomem(err, p->plan.n_shards * sizeof *names);
    for (size_t i = 0; st == SLIMSET_OK && i < p->plan.n_shards; i++) {
        if (p->state[i] == SHARD_KEPT)
            p->report->shards_kept++;
        if (p->state[i] != SHARD_TO_DO && p->state[i] != SHARD_RESUMED)
            continue;
        st = is_golden(p, i, &golden, err);
        if (st == SLIMSET_OK && golden)
            pipeline_fragment_name(&p->plan, i, names[n++]);
    }
    if (st == SLIMSET_OK) /* what did not come out right must not be published */
        st = publish_restage(&p->dirs, names, n, err);
    free(names);
    if (st == SLIMSET_OK) /* what lies beside the shards is made when publishing */
        st = sidecar_current(&p->old, p->dirs.out, &beside, err);
    if (st == SLIMSET_OK && (n > 0 || !beside))
        st = copy_index(p, err);
    if (st == SLIMSET_OK && (n > 0 || !beside))
        st = publish_roll(&p->dirs, &rolled, err);
    if (st == SLIMSET_OK)
        st = publish_clean(&p->dirs, err); /* the stat file stays: it is of that index, not of these sources */
    if (st != SLIMSET_OK)
        return st;
    p->report->shards_written = n;
    return p->report->shards_lost == 0 ? SLIMSET_OK
           : err_set(err, SLIMSET_DAMAGED, "%llu of the damaged shards cannot be rebuilt from these sources; pack takes over what changed",
                     (unsigned long long)p->report->shards_lost);
}
