/* SPDX-License-Identifier: Apache-2.0
 *
 * One part against the index. A shard is read once from front to back; what should stand where
 * comes from the index alone, so that a damaged header or field costs only itself and everything
 * behind it is still checked.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/io.h"
#include "image.h"
#include "stack.h"
#include "tar_check.h"
#include "verify_impl.h"

enum {
    SHOWN_KEY = 1024,  /* bytes of a key or field name in a finding */
    /* Fields beyond this are not decoded: a decoder's limits are far below. */
    DECODE_BYTES_MAX = 1 << 30
};

/* A file read once, front to back, through the chunk buffer; all bytes that pass go into `hash`. */
struct stream {
    struct verify *v;
    const char *name;
    int fd;
    uint64_t size;   /* of the file */
    uint64_t pos;    /* of the next byte to hand out */
    size_t at, fill; /* in the chunk */
    struct hash_stream hash;
};

static void stream_start(struct stream *s, struct verify *v, const char *name, int fd,
                         uint64_t size)
{
    s->v = v;
    s->name = name;
    s->fd = fd;
    s->size = size;
    s->pos = 0;
    s->at = s->fill = 0;
    hash_init(&s->hash);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* advice only: a refusal does not matter */
}

/* Up to max of the next bytes; *n 0 at the end. */
static enum slimset_status stream_next(struct stream *s, uint64_t max, const uint8_t **p, size_t *n,
                                       struct slimset_error *err)
{
    if (s->at == s->fill) {
        s->at = 0;
        enum slimset_status st =
            io_pread(s->fd, s->v->chunk, VERIFY_CHUNK_BYTES, s->pos, &s->fill, s->name, err);
        if (st != SLIMSET_OK) {
            s->fill = 0;
            return st;
        }
        hash_update(&s->hash, s->v->chunk, s->fill);
    }
    *n = s->fill - s->at < max ? s->fill - s->at : (size_t)max;
    *p = s->v->chunk + s->at;
    s->at += *n;
    s->pos += *n;
    return SLIMSET_OK;
}

/* The next n bytes, a few, in one piece; *got is less only at the end. */
static enum slimset_status stream_copy(struct stream *s, uint8_t *to, size_t n, size_t *got,
                                       struct slimset_error *err)
{
    *got = 0;
    while (*got < n) {
        const uint8_t *p;
        size_t k;
        enum slimset_status st = stream_next(s, n - *got, &p, &k, err);
        if (st != SLIMSET_OK || k == 0)
            return st;
        memcpy(to + *got, p, k);
        *got += k;
    }
    return SLIMSET_OK;
}

struct member {
    char key[SHOWN_KEY], field[SHOWN_KEY]; /* for findings: shortened, terminated */
    char path[DATASET_PATH_MAX];           /* "key.name": in the tar, or below OUT */
    const struct slimset_field *f;
};

static void shown(char *to, const char *bytes, size_t n)
{
    n = n < SHOWN_KEY - 1 ? n : SHOWN_KEY - 1;
    memcpy(to, bytes, n);
    to[n] = '\0';
}

/* Field k of a sample with its names; a finding and *fine false when the index does not give
 * them. */
static enum slimset_status member_of(struct verify *v, const char *part,
                                     const struct slimset_sample *s, const struct slimset_field *f,
                                     struct member *m, bool *fine, struct slimset_error *err)
{
    const char *key, *name;
    size_t key_n, name_n;
    *fine = false;
    m->f = f;
    m->key[0] = m->field[0] = '\0';
    enum slimset_status st = index_text(&v->d.ix, s->key, &key, &key_n, err);
    if (st == SLIMSET_OK)
        st = index_text(&v->d.ix, f->name, &name, &name_n, err);
    if (st != SLIMSET_OK)
        return verify_absorb(v, st, part, NULL, NULL, err);
    shown(m->key, key, key_n);
    shown(m->field, name, name_n);
    *fine = dataset_path(key, key_n, name, name_n, m->path);
    if (!*fine)
        verify_finding(v, part, m->key, m->field,
                       "the index gives it a name that leads outside of the dataset");
    return SLIMSET_OK;
}

static bool wants_decode(const struct verify *v, const struct slimset_field *f)
{
    return v->decoder != NULL && f->w != 0 && f->format >= FORMAT_JPEG && f->format <= FORMAT_JP2 &&
           f->bytes <= DECODE_BYTES_MAX;
}

static bool is_array(const struct slimset_field *f)
{
    return f->array != 0 && f->role != SLIMSET_ROLE_IMAGE && (f->format == FORMAT_NPY || f->format == FORMAT_NPY_ZST || f->format == FORMAT_NPY_BLOSC);
}

/* The shape in a text such as "<f4 (3, 224, 224)"; structured dtypes have blanks and brackets of their own. */
static const char *shape_of(const char *text)
{
    const char *shape = strrchr(text, '(');
    return shape != NULL ? shape : text;
}

/* An array that lies at `offset` of the file: whole, and of the dtype and shape that the index gives it. */
static enum slimset_status decode_array(struct stream *s, uint64_t offset, const char *part,
                                        const struct member *m, struct slimset_error *err)
{
    struct verify *v = s->v;
    const char *said;
    size_t n;
    char *text = NULL, known[512];
    enum slimset_status st = index_text(&v->d.ix, m->f->array, &said, &n, err);
    if (st != SLIMSET_OK)
        return verify_absorb(v, st, part, m->key, m->field, err);
    st = verify_decode_array(v->decoder, s->fd, offset, m->f->bytes, m->f->format, &text, err);
    v->report->images_decoded++;
    if (st == SLIMSET_BAD_INPUT) {
        verify_finding(v, part, m->key, m->field, "does not decode: %s", err->text);
        return SLIMSET_OK;
    }
    if (st != SLIMSET_OK)
        return st;
    shown(known, said, n < sizeof known ? n : sizeof known - 1);
    bool retyped = m->f->notes & (NOTE_NARROWED | NOTE_CAST);
    bool same = (m->f->notes & NOTE_RESIZED) || n >= sizeof known ||
                (retyped ? strcmp(shape_of(text), shape_of(known)) == 0 : strcmp(text, known) == 0);
    if (!same)
        verify_finding(v, part, m->key, m->field, "holds an array %.200s, the index says %.200s",
                       text, known);
    free(text);
    return SLIMSET_OK;
}

static enum slimset_status decode_member(struct verify *v, const char *part, const struct member *m,
                                         struct slimset_error *err)
{
    uint32_t w = 0, h = 0;
    enum slimset_status st =
        verify_decode_field(v->decoder, v->data.data, v->data.len, m->f->format, &w, &h, err);
    v->report->images_decoded++;
    if (st == SLIMSET_BAD_INPUT) {
        verify_finding(v, part, m->key, m->field, "does not decode: %s", err->text);
        return SLIMSET_OK;
    }
    if (st == SLIMSET_OK && (w != m->f->w || h != m->f->h))
        verify_finding(v, part, m->key, m->field,
                       "decodes to %" PRIu32 "x%" PRIu32 ", the index says %" PRIu32 "x%" PRIu32, w,
                       h, m->f->w, m->f->h);
    return st;
}

/* The next f->bytes of the stream are the member's data: hash, compare, decode. */
static enum slimset_status check_data(struct stream *s, const char *part, const struct member *m,
                                      struct slimset_error *err)
{
    struct verify *v = s->v;
    bool decode = wants_decode(v, m->f);
    uint64_t start = s->pos;
    struct hash_stream hash;
    hash_init(&hash);
    v->data.len = 0;
    for (uint64_t left = m->f->bytes; left > 0;) {
        const uint8_t *p;
        size_t n;
        enum slimset_status st = stream_next(s, left, &p, &n, err);
        if (st == SLIMSET_OK && n == 0) {
            verify_finding(v, part, m->key, m->field,
                           "the file became shorter while it was checked");
            return SLIMSET_OK;
        }
        if (st == SLIMSET_OK && decode)
            st = buf_append(&v->data, p, n, err);
        if (st != SLIMSET_OK)
            return st;
        hash_update(&hash, p, n);
        left -= n;
    }
    v->report->fields++;
    v->report->bytes += m->f->bytes;
    if (hash_value(&hash) != m->f->hash) {
        verify_finding(v, part, m->key, m->field, "its bytes do not match their checksum");
        return SLIMSET_OK; /* what was not packed need not decode */
    }
    if (v->decoder != NULL && is_array(m->f) && !v->d.stacked)
        return decode_array(s, start, part, m, err);
    return decode ? decode_member(v, part, m, err) : SLIMSET_OK;
}

/* One member of a shard: header, data, padding. *end: where the member before it ended, then where
 * this one does. */
static enum slimset_status check_tar_member(struct stream *s, const char *part,
                                            const struct member *m, uint64_t *end, bool *fine,
                                            struct slimset_error *err)
{
    struct verify *v = s->v;
    const struct slimset_field *f = m->f;
    uint8_t block[TAR_CHECK_BLOCK];
    char why[TAR_CHECK_WHY];
    size_t got;
    unsigned padding = tar_check_padding(f->bytes);
    uint64_t data_end;
    *fine = f->offset == *end + TAR_CHECK_BLOCK &&
            !__builtin_add_overflow(f->offset, f->bytes, &data_end) &&
            data_end <= INT64_MAX - TAR_CHECK_END;
    if (!*fine) {
        verify_finding(v, part, m->key, m->field,
                       "the index says that its data begin at byte %" PRIu64
                       ", but what is before it ends at %" PRIu64,
                       f->offset, *end);
        return SLIMSET_OK;
    }
    *end = data_end + padding;
    if (data_end > s->size) {
        verify_finding(v, part, m->key, m->field, "lost: the file ends before it does");
        return SLIMSET_OK;
    }
    enum slimset_status st = stream_copy(s, block, sizeof block, &got, err);
    if (st != SLIMSET_OK)
        return st;
    if (got == sizeof block && !tar_check_header(block, m->path, strlen(m->path), f->bytes, why))
        verify_finding(v, part, m->key, m->field, "%s", why);
    st = check_data(s, part, m, err);
    if (st == SLIMSET_OK)
        st = stream_copy(s, block, padding, &got, err);
    if (st == SLIMSET_OK && !tar_check_zeros(block, got))
        verify_finding(v, part, m->key, m->field, "the padding behind it is not zero");
    return st;
}

/* The header of a stack of n rows: there is only one that is right. */
static enum slimset_status check_stack_header(struct stream *s, const char *part, uint32_t n, struct slimset_error *err)
{
    struct buf want = {0};
    uint8_t have[STACK_DATA];
    size_t got = 0;
    enum slimset_status st = stack_header(&s->v->d.row, n, &want, err);
    if (st == SLIMSET_OK)
        st = stream_copy(s, have, sizeof have, &got, err);
    if (st == SLIMSET_OK && got == sizeof have && memcmp(have, want.data, sizeof have) != 0)
        verify_finding(s->v, part, NULL, NULL, "its header is not that of %" PRIu32 " rows of the dataset", n);
    buf_fini(&want);
    return st;
}

/* One row; *end as check_tar_member has it. */
static enum slimset_status check_row(struct stream *s, const char *part, const struct member *m, uint64_t *end, bool *fine,
                                     struct slimset_error *err)
{
    *fine = m->f->offset == *end && m->f->bytes == s->v->d.row.data_bytes && m->f->bytes <= INT64_MAX - *end;
    if (!*fine) {
        verify_finding(s->v, part, m->key, m->field,
                       "the index says that its %" PRIu64 " bytes begin at byte %" PRIu64 ", but a row of %" PRIu64 " is to begin at %" PRIu64,
                       m->f->bytes, m->f->offset, s->v->d.row.data_bytes, *end);
        return SLIMSET_OK;
    }
    *end += m->f->bytes;
    if (*end > s->size) {
        verify_finding(s->v, part, m->key, m->field, "lost: the file ends before it does");
        return SLIMSET_OK;
    }
    return check_data(s, part, m, err);
}

/* Members one behind the other as the index has them; *end is where the last one ends, *fine
 * whether all could be followed. */
static enum slimset_status check_members(struct stream *s, const char *part,
                                         const struct slimset_part *p, uint64_t *end, bool *fine,
                                         struct slimset_error *err)
{
    struct verify *v = s->v;
    struct member m;
    *end = v->d.stacked ? STACK_DATA : 0;
    if (v->d.stacked) {
        enum slimset_status st = check_stack_header(s, part, p->n_samples, err);
        if (st != SLIMSET_OK)
            return st;
    }
    for (uint32_t i = 0; i < p->n_samples; i++) {
        const struct slimset_sample *sample;
        const struct slimset_field *f;
        enum slimset_status st = index_sample(&v->d.ix, p->first_sample + i, &sample, &f, err);
        if (st != SLIMSET_OK) {
            *fine = false;
            return verify_absorb(v, st, part, NULL, NULL, err);
        }
        for (uint32_t k = 0; k < sample->n_fields; k++) {
            st = member_of(v, part, sample, &f[k], &m, fine, err);
            if (st == SLIMSET_OK && *fine)
                st = (v->d.stacked ? check_row : check_tar_member)(s, part, &m, end, fine, err);
            if (st != SLIMSET_OK || !*fine)
                return st;
        }
        v->report->samples++;
    }
    return SLIMSET_OK;
}

/* What stands behind the last member, then the hash of the whole file. */
static enum slimset_status check_tail(struct stream *s, const char *part,
                                      const struct slimset_part *p, uint64_t end, bool followed,
                                      uint64_t damaged_before, struct slimset_error *err)
{
    struct verify *v = s->v;
    uint8_t zeros[TAR_CHECK_END];
    size_t got;
    enum slimset_status st = SLIMSET_OK;
    end += v->d.stacked ? 0 : TAR_CHECK_END;
    if (followed && end != p->bytes) {
        verify_finding(v, part, NULL, NULL,
                       "the index gives it %" PRIu64 " bytes, its members need %" PRIu64, p->bytes,
                       end);
    } else if (followed && s->size >= p->bytes && !v->d.stacked) {
        st = stream_copy(s, zeros, sizeof zeros, &got, err);
        if (st == SLIMSET_OK && (got != sizeof zeros || !tar_check_zeros(zeros, got)))
            verify_finding(v, part, NULL, NULL, "does not end with two blocks of zeros");
    }
    for (size_t n = 1; st == SLIMSET_OK && n != 0;) {
        const uint8_t *bytes;
        st = stream_next(s, UINT64_MAX, &bytes, &n, err);
    }
    /* The hash says no more than a closer finding already did. */
    if (st == SLIMSET_OK && hash_value(&s->hash) != p->hash && v->report->damaged == damaged_before)
        verify_finding(v, part, NULL, NULL,
                       "is not the file that was packed: its checksum differs outside of the data");
    return st;
}

static enum slimset_status verify_shard(struct verify *v, const struct slimset_part *p,
                                        struct slimset_error *err)
{
    const char *name;
    size_t name_n;
    char part[DATASET_PATH_MAX];
    struct stream s;
    int fd;
    uint64_t size, end, before = v->report->damaged;
    bool followed = true;
    enum slimset_status st = index_text(&v->d.ix, p->name, &name, &name_n, err);
    if (st != SLIMSET_OK)
        return verify_absorb(v, st, SLIMSET_INDEX_NAME, NULL, NULL, err);
    if (!dataset_part_name(name, name_n, part)) /* verify_index has said so */
        return SLIMSET_OK;
    st = dataset_open_file(&v->d, part, &fd, &size, err);
    if (st == SLIMSET_NOT_FOUND) {
        verify_finding(v, part, NULL, NULL, "is missing, and with it %" PRIu32 " sample%s%s",
                       p->n_samples, p->n_samples == 1 ? "" : "s", dataset_missing_hint(&v->d, part));
        return SLIMSET_OK;
    }
    if (st != SLIMSET_OK)
        return verify_absorb(v, st, part, NULL, NULL, err);
    if (size != p->bytes)
        verify_finding(v, part, NULL, NULL, "has %" PRIu64 " bytes instead of %" PRIu64 ": %s",
                       size, p->bytes,
                       size < p->bytes ? "it was truncated" : "something was appended");
    stream_start(&s, v, part, fd, size);
    st = check_members(&s, part, p, &end, &followed, err);
    if (st == SLIMSET_OK)
        st = check_tail(&s, part, p, end, followed, before, err);
    close(fd);
    v->report->parts++;
    return verify_absorb(v, st, part, NULL, NULL, err);
}

/* One file of a tree. */
static enum slimset_status check_tree_file(struct verify *v, const struct member *m,
                                           struct slimset_error *err)
{
    struct stream s;
    int fd;
    uint64_t size;
    enum slimset_status st = dataset_open_file(&v->d, m->path, &fd, &size, err);
    if (st == SLIMSET_OK) {
        if (size != m->f->bytes) {
            verify_finding(v, m->path, m->key, m->field,
                           "has %" PRIu64 " bytes instead of %" PRIu64, size, m->f->bytes);
        } else {
            stream_start(&s, v, m->path, fd, size);
            st = check_data(&s, m->path, m, err);
        }
        close(fd);
    } else if (st == SLIMSET_NOT_FOUND) {
        verify_finding(v, m->path, m->key, m->field, "is missing");
        return SLIMSET_OK;
    }
    return verify_absorb(v, st, m->path, m->key, m->field, err);
}

static enum slimset_status verify_group(struct verify *v, const struct slimset_part *p,
                                        struct slimset_error *err)
{
    struct hash_stream hash;
    struct member m;
    uint64_t bytes = 0;
    hash_init(&hash);
    for (uint32_t i = 0; i < p->n_samples; i++) {
        const struct slimset_sample *sample;
        const struct slimset_field *f;
        enum slimset_status st = index_sample(&v->d.ix, p->first_sample + i, &sample, &f, err);
        if (st != SLIMSET_OK)
            return verify_absorb(v, st, SLIMSET_INDEX_NAME, NULL, NULL, err);
        for (uint32_t k = 0; k < sample->n_fields; k++) {
            bool fine;
            st = member_of(v, SLIMSET_INDEX_NAME, sample, &f[k], &m, &fine, err);
            if (st == SLIMSET_OK && fine)
                st = check_tree_file(v, &m, err);
            if (st != SLIMSET_OK)
                return st;
            hash_update(&hash, &f[k].hash, sizeof f[k].hash);
            bytes += f[k].bytes;
        }
        v->report->samples++;
    }
    v->report->parts++;
    if (bytes != p->bytes || hash_value(&hash) != p->hash)
        verify_finding(v, SLIMSET_INDEX_NAME, NULL, NULL,
                       "part %" PRIu64 " does not sum up to its files",
                       (uint64_t)(p - v->d.ix.parts));
    return SLIMSET_OK;
}

enum slimset_status verify_part(struct verify *v, uint64_t part, struct slimset_error *err)
{
    struct index *ix = &v->d.ix;
    const struct slimset_part *p = &ix->parts[part];
    enum slimset_status st = index_touch(ix, p, sizeof *p, err);
    if (st != SLIMSET_OK) /* verify_index named the block */
        return st == SLIMSET_DAMAGED ? SLIMSET_OK : st;
    if (p->first_sample > ix->n_samples || p->n_samples > ix->n_samples - p->first_sample)
        return SLIMSET_OK; /* verify_index has said so */
    return v->d.tree ? verify_group(v, p, err) : verify_shard(v, p, err);
}
