/* SPDX-License-Identifier: Apache-2.0
 *
 * item.h: an honest answer passes, and each way in which an answer can lie is refused. Random
 * damage must never lead the check outside of the blob (meant for AddressSanitizer).
 */
#include "item.h"

#include <stdlib.h>

#include "check.h"

enum { N_INPUTS = 3 };

static struct slimset_error err;
static const uint8_t jpeg[] = {0xff, 0xd8, 0xff, 0xe0, 1, 2, 3, 4, 0xff, 0xd9};
static const uint8_t png[] = "\x89PNG\r\n\x1a\n"
                             "payload";
static const uint8_t text[] = "a label";

static struct item_request request;
static uint8_t *blob; /* of exactly blob_n bytes, so that a sanitizer sees every step outside */
static size_t blob_n;

static struct item_answer *answer(void) { return (struct item_answer *)(void *)blob; }

static struct item_field *field(int i)
{
    return (struct item_field *)(void *)(blob + sizeof(struct item_answer)) + i;
}

/* An image that was converted, its mask, a file that was copied. */
static void honest_blob(void)
{
    const uint8_t *const payload[N_INPUTS] = {jpeg, png, text};
    const size_t bytes[N_INPUTS] = {sizeof jpeg, sizeof png, sizeof text};
    memset(&request, 0, sizeof request);
    request.ticket = 77;
    request.op = ITEM_CONVERT;
    request.n_inputs = N_INPUTS;
    request.input[0].role = SLIMSET_ROLE_IMAGE;
    request.input[1].role = SLIMSET_ROLE_MASK;
    request.input[2].role = SLIMSET_ROLE_COPY;
    free(blob);
    blob_n = sizeof(struct item_answer) + N_INPUTS * sizeof(struct item_field) + bytes[0] +
             bytes[1] + bytes[2];
    blob = calloc(1, blob_n);
    *answer() = (struct item_answer){
        .ticket = 77, .status = SLIMSET_OK, .n_fields = N_INPUTS, .blob_bytes = blob_n};
    uint8_t *at = (uint8_t *)field(N_INPUTS);
    for (int i = 0; i < N_INPUTS; i++) {
        *field(i) = (struct item_field){.payload_bytes = bytes[i], .in_bytes = 1000, .frames = 1, .input = (uint32_t)i};
        memcpy(at, payload[i], bytes[i]);
        at += bytes[i];
    }
    for (int i = 0; i < 2; i++) {
        struct item_field *f = field(i);
        f->w = f->in_w = 64;
        f->h = f->in_h = 48;
        f->notes = NOTE_REENCODED;
        f->channels = f->in_channels = 3;
        f->bits = f->in_bits = 8;
        f->orientation = 1;
    }
    field(0)->format = field(0)->in_format = FORMAT_JPEG;
    field(1)->format = field(1)->in_format = FORMAT_PNG;
    field(2)->format = field(2)->in_format = FORMAT_TEXT;
}

static enum slimset_status check(void)
{
    err.text[0] = '\0';
    return item_answer_check(&request, blob, blob_n, &err);
}

/* Changes the honest blob by `change` and expects the refusal. */
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        honest_blob();                                                                             \
        change;                                                                                    \
        CHECK_INT(check(), SLIMSET_INTERNAL);                                                      \
        CHECK(err.text[0] != '\0');                                                                \
    } while (0)

#define ACCEPTED(change)                                                                           \
    do {                                                                                           \
        honest_blob();                                                                             \
        change;                                                                                    \
        CHECK_INT(check(), SLIMSET_OK);                                                            \
    } while (0)

static void test_honest(void)
{
    honest_blob();
    CHECK_INT(check(), SLIMSET_OK);
    CHECK(item_fields(answer()) == field(0));
    CHECK(item_payload(answer()) == (uint8_t *)field(N_INPUTS));
    CHECK(memcmp(item_payload(answer()), jpeg, sizeof jpeg) == 0);
}

static void test_lengths(void)
{
    REFUSED(answer()->blob_bytes++);
    REFUSED(answer()->blob_bytes--);
    REFUSED(answer()->blob_bytes = UINT64_MAX);
    REFUSED(blob_n--);
    REFUSED(field(0)->payload_bytes++);
    REFUSED(field(0)->payload_bytes--);
    REFUSED(field(2)->payload_bytes++);
    REFUSED(field(2)->payload_bytes--);
    REFUSED(field(0)->payload_bytes = UINT64_MAX);
    REFUSED(field(1)->payload_bytes = (uint64_t)1 << 63);
    REFUSED((field(1)->payload_bytes += 1, field(2)->payload_bytes -= 2));
    REFUSED((field(2)->payload_bytes = 0 - (uint64_t)1,
             field(1)->payload_bytes += sizeof text + 1)); /* wraps to the sum */
    REFUSED(answer()->text_bytes = 1);
    REFUSED(answer()->text_bytes = UINT32_MAX);
    REFUSED(answer()->text_bytes = sizeof err.text);
    for (size_t n = 0; n < sizeof(struct item_answer) + 2 * sizeof(struct item_field); n++) {
        honest_blob(); /* cut anywhere, also where its own length says so */
        uint8_t *cut = malloc(n + 1);
        memcpy(cut, blob, n);
        CHECK_INT(item_answer_check(&request, cut, n, &err), SLIMSET_INTERNAL);
        free(cut);
        if (n < sizeof(struct item_answer))
            continue;
        cut = malloc(n);
        memcpy(cut, blob, n);
        ((struct item_answer *)(void *)cut)->blob_bytes = n;
        CHECK_INT(item_answer_check(&request, cut, n, &err), SLIMSET_INTERNAL);
        free(cut);
    }
}

static void test_numbers(void)
{
    REFUSED(answer()->ticket = 78);
    REFUSED(answer()->n_fields = 0);
    REFUSED(answer()->n_fields = 2);
    REFUSED(answer()->n_fields = 4);
    REFUSED(answer()->n_fields = UINT32_MAX);
    REFUSED(answer()->status = SLIMSET_USAGE);
    REFUSED(answer()->status = UINT32_MAX);
    REFUSED(answer()->status = SLIMSET_BAD_INPUT);
    REFUSED(answer()->reject = SLIMSET_REJECT_CORRUPT);
    REFUSED(answer()->reject = SLIMSET_REJECT_COUNT);
    REFUSED(field(0)->format = FORMAT_COUNT);
    REFUSED(field(0)->in_format = 255);
    REFUSED(field(2)->format = FORMAT_COUNT);
    REFUSED(field(0)->orientation = 9);
    REFUSED(field(0)->quality = 101);
    REFUSED(field(0)->values = 66);
    REFUSED(field(0)->zero_permille = 1001);
    REFUSED(field(0)->equal_permille = UINT32_MAX);
    ACCEPTED((field(0)->orientation = 8, field(0)->quality = 100));
}

static void test_dimensions(void)
{
    REFUSED(field(0)->w = 0);
    REFUSED(field(1)->h = 0);
    REFUSED(field(0)->w = UINT32_MAX);
    REFUSED(field(0)->h = (1u << 20) + 1);
    REFUSED(field(0)->in_w = UINT32_MAX);
    REFUSED(field(0)->in_h = 1u << 31);
    ACCEPTED((field(2)->w = 0, field(2)->h = 0)); /* no image */
    ACCEPTED((field(0)->w = 65500, field(0)->h = 1));
}

/* The bytes of what was encoded begin, and for JPEG end, like their format. */
static void test_leading_bytes(void)
{
    uint8_t *p;
    REFUSED((p = (uint8_t *)field(N_INPUTS), p[0] = 'M'));
    REFUSED((p = (uint8_t *)field(N_INPUTS), p[1] = 0xd9));
    REFUSED((p = (uint8_t *)field(N_INPUTS), p[sizeof jpeg - 1] = 0));
    REFUSED((p = (uint8_t *)field(N_INPUTS), p[sizeof jpeg] = 0x88));
    REFUSED(field(0)->format = FORMAT_PNG);
    REFUSED(field(0)->format = FORMAT_WEBP);
    REFUSED(field(0)->format = FORMAT_NPY);
    REFUSED(field(0)->format = FORMAT_UNKNOWN);
    REFUSED(field(0)->format = FORMAT_HTML);
    REFUSED((field(0)->payload_bytes = 0, field(1)->payload_bytes += sizeof jpeg));
    REFUSED((field(0)->payload_bytes = 2, field(1)->payload_bytes += sizeof jpeg - 2));
}

/* So do images that were passed through: their format is what a reader goes by. */
static void test_leading_bytes_passed_through(void)
{
    uint8_t *p;
    ACCEPTED(field(0)->notes = NOTE_COPIED);
    REFUSED((field(0)->notes = NOTE_COPIED, p = (uint8_t *)field(N_INPUTS), p[0] = 'M'));
    REFUSED((field(0)->notes = NOTE_COPIED, field(0)->format = FORMAT_PNG));
    REFUSED((field(1)->notes = NOTE_COPIED, p = (uint8_t *)field(N_INPUTS), p[sizeof jpeg] = 0x88));
    REFUSED((field(0)->notes = NOTE_COPIED, field(0)->payload_bytes = 0,
             field(2)->payload_bytes += sizeof jpeg));
}

static void test_probe_and_hash(void)
{
    for (uint32_t op = ITEM_PROBE; op <= ITEM_CHECK; op++) { /* no payload, no stored size */
        honest_blob();
        request.op = op;
        blob_n = sizeof(struct item_answer) + N_INPUTS * sizeof(struct item_field);
        answer()->blob_bytes = blob_n;
        for (int i = 0; i < N_INPUTS; i++) {
            field(i)->payload_bytes = 0;
            field(i)->notes = 0;
        }
        field(0)->values = 65;
        field(0)->zero_permille = field(0)->equal_permille = 1000;
        CHECK_INT(check(), SLIMSET_OK);
        field(0)->values = 66;
        CHECK_INT(check(), SLIMSET_INTERNAL);
    }
}

/* --- answers that tell of a fault ------------------------------------------------------------- */

static void fault(enum slimset_status status, enum slimset_reject reject, const char *why)
{
    honest_blob();
    free(blob);
    blob_n = sizeof(struct item_answer) + strlen(why);
    blob = calloc(1, blob_n);
    *answer() = (struct item_answer){.ticket = 77,
                                     .status = status,
                                     .reject = reject,
                                     .failed_input = 1,
                                     .text_bytes = (uint32_t)strlen(why),
                                     .blob_bytes = blob_n};
    memcpy(answer() + 1, why, strlen(why));
}

static void test_faults(void)
{
    fault(SLIMSET_BAD_INPUT, SLIMSET_REJECT_CORRUPT, "bad");
    CHECK_INT(check(), SLIMSET_OK);
    CHECK_INT(answer()->text_bytes, 3);
    CHECK(memcmp(item_text(answer()), "bad", 3) == 0);
    fault(SLIMSET_BAD_INPUT, SLIMSET_REJECT_CORRUPT, "");
    CHECK_INT(check(), SLIMSET_OK);
    fault(SLIMSET_NEED_SLOW, SLIMSET_REJECT_NONE, "needs libvips");
    CHECK_INT(check(), SLIMSET_OK);
    fault(SLIMSET_NO_MEMORY, SLIMSET_REJECT_NONE, "no memory");
    CHECK_INT(check(), SLIMSET_OK);
    fault(SLIMSET_IO, SLIMSET_REJECT_NONE, "EIO");
    CHECK_INT(check(), SLIMSET_OK);
    fault(SLIMSET_INTERNAL, SLIMSET_REJECT_NONE, "an invariant");
    CHECK_INT(check(), SLIMSET_OK);
    fault(SLIMSET_BAD_INPUT, SLIMSET_REJECT_NONE, "no reason");
    CHECK_INT(check(), SLIMSET_INTERNAL);
    fault(SLIMSET_IO, SLIMSET_REJECT_CORRUPT, "both");
    CHECK_INT(check(), SLIMSET_INTERNAL);
    fault(SLIMSET_BAD_INPUT, SLIMSET_REJECT_COUNT, "unknown");
    CHECK_INT(check(), SLIMSET_INTERNAL);
    fault(SLIMSET_DIFFERS, SLIMSET_REJECT_NONE, "not a worker's");
    CHECK_INT(check(), SLIMSET_INTERNAL);
    fault(SLIMSET_BAD_INPUT, SLIMSET_REJECT_CORRUPT, "bad");
    answer()->failed_input = N_INPUTS;
    CHECK_INT(check(), SLIMSET_INTERNAL);
    fault(SLIMSET_BAD_INPUT, SLIMSET_REJECT_CORRUPT, "bad");
    answer()->n_fields = N_INPUTS;
    CHECK_INT(check(), SLIMSET_INTERNAL);
    fault(SLIMSET_BAD_INPUT, SLIMSET_REJECT_CORRUPT, "bad");
    answer()->text_bytes = 2; /* surplus bytes */
    CHECK_INT(check(), SLIMSET_INTERNAL);
    fault(SLIMSET_BAD_INPUT, SLIMSET_REJECT_CORRUPT, "bad");
    answer()->text_bytes = 4;
    CHECK_INT(check(), SLIMSET_INTERNAL);
}

/* --- random ----------------------------------------------------------------------------------- */

static uint32_t seed = 12345;

static uint32_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    return seed ^= seed << 5;
}

/* What a caller does with a blob that passed: everything in it must be inside of it. */
static unsigned walk(const uint8_t *p, size_t n)
{
    const struct item_answer *a = (const void *)p;
    const struct item_field *f = item_fields(a);
    const char *t = item_text(a);
    const uint8_t *at = item_payload(a);
    unsigned sum = 0;
    CHECK((const uint8_t *)t + a->text_bytes <= p + n);
    for (uint32_t i = 0; i < a->text_bytes; i++)
        sum += (unsigned char)t[i];
    for (uint32_t i = 0; i < a->n_fields; i++) {
        CHECK(f[i].payload_bytes <= (size_t)(p + n - at));
        for (uint64_t k = 0; k < f[i].payload_bytes; k++)
            sum += at[k];
        at += f[i].payload_bytes;
    }
    CHECK(at == p + n);
    return sum;
}

static void test_random_blobs(void)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   7,
                                   8,
                                   100,
                                   255,
                                   256,
                                   511,
                                   512,
                                   65500,
                                   1u << 20,
                                   (1u << 20) + 1,
                                   INT32_MAX,
                                   (uint64_t)INT32_MAX + 1,
                                   UINT32_MAX,
                                   (uint64_t)1 << 32,
                                   INT64_MAX,
                                   UINT64_MAX};
    unsigned passed = 0;
    honest_blob();
    size_t honest_n = blob_n;
    uint8_t *honest = malloc(honest_n);
    memcpy(honest, blob, honest_n);
    for (int round = 0; round < 100000; round++) {
        size_t n =
            round % 4 == 0 ? rnd() % 600 : honest_n - (rnd() % 4 == 0 ? rnd() % honest_n : 0);
        uint8_t *p = malloc(n + 1);
        if (round % 4 == 0)
            for (size_t i = 0; i < n; i++)
                p[i] = (uint8_t)rnd();
        else
            memcpy(p, honest, n);
        for (unsigned k = rnd() % 4; k > 0 && n >= 8; k--) { /* odd numbers in odd places */
            size_t width = (size_t)1 << rnd() % 4, at = rnd() % (n / width) * width;
            memcpy(p + at, &odd[rnd() % (sizeof odd / sizeof odd[0])], width);
        }
        if (n >= sizeof(struct item_answer) &&
            round % 3 != 0) { /* mostly the right head, to get further */
            struct item_answer *a = (void *)p;
            a->blob_bytes = n;
            a->ticket = 77;
            a->status = round % 6 == 1 ? SLIMSET_BAD_INPUT : SLIMSET_OK;
            a->reject = round % 6 == 1 ? SLIMSET_REJECT_CORRUPT : 0;
            if (round % 6 == 1) {
                a->n_fields = a->failed_input = 0;
                a->text_bytes = (uint32_t)(n - sizeof *a);
            }
        }
        uint8_t *exact = malloc(n > 0 ? n : 1);
        memcpy(exact, p, n);
        err.text[0] = '\0';
        enum slimset_status st = item_answer_check(&request, exact, n, &err);
        CHECK(st == SLIMSET_OK || (st == SLIMSET_INTERNAL && err.text[0] != '\0'));
        if (st == SLIMSET_OK) {
            passed++;
            walk(exact, n);
        }
        free(exact);
        free(p);
    }
    CHECK(passed > 1000); /* else the damage was so heavy that nothing was tested */
    free(honest);
}

int main(void)
{
    RUN(test_honest);
    RUN(test_lengths);
    RUN(test_numbers);
    RUN(test_dimensions);
    RUN(test_leading_bytes);
    RUN(test_leading_bytes_passed_through);
    RUN(test_probe_and_hash);
    RUN(test_faults);
    RUN(test_random_blobs);
    free(blob);
    return check_done();
}
