/* SPDX-License-Identifier: Apache-2.0
 *
 * Beginnings of files as the specifications of the formats print them.
 */
#include <stdlib.h>

#include "check.h"
#include "sniff.h"

/* Sniffs a copy of exactly n bytes: a sanitizer sees a read beyond. */
static enum image_format sniff_copy(const void *bytes, size_t n)
{
    uint8_t *copy = malloc(n != 0 ? n : 1);
    memcpy(copy, bytes, n);
    enum image_format f = sniff(copy, n);
    free(copy);
    return f;
}
#define SNIFF(literal, want) CHECK_INT(sniff_copy(literal, sizeof(literal) - 1), want)

/* magic at an offset in a block of zeros */
static enum image_format sniff_at(size_t block, size_t at, const char *magic, size_t n)
{
    uint8_t *data = calloc(1, block);
    memcpy(data + at, magic, n);
    enum image_format f = sniff(data, block);
    free(data);
    return f;
}
#define SNIFF_AT(block, at, literal, want)                                                         \
    CHECK_INT(sniff_at(block, at, literal, sizeof(literal) - 1), want)

static void test_images(void)
{
    SNIFF("\xFF\xD8\xFF\xE0\0\x10JFIF", FORMAT_JPEG);
    SNIFF("\xFF\xD8\xFF", FORMAT_JPEG);
    SNIFF("\xFF\xD8", FORMAT_UNKNOWN);
    SNIFF("\r\n\xFF\xD8\xFF\xE0", FORMAT_UNKNOWN);
    SNIFF("\x89PNG\r\n\x1A\n\0\0\0\rIHDR", FORMAT_PNG);
    SNIFF("\x89PNG\n\x1A\n\0\0\0\rIHDR", FORMAT_UNKNOWN); /* mangled line ends */
    SNIFF("GIF89a\1\0\1\0", FORMAT_GIF);
    SNIFF("GIF87a\1\0\1\0", FORMAT_GIF);
    SNIFF("II*\0\x08\0\0\0", FORMAT_TIFF);
    SNIFF("MM\0*\0\0\0\x08", FORMAT_TIFF);
    SNIFF("II+\0\x08\0\0\0\x10", FORMAT_TIFF);
    SNIFF("MM\0+\0\x08\0\0", FORMAT_TIFF);
    SNIFF("RIFF\x24\0\0\0WEBPVP8 ", FORMAT_WEBP);
    SNIFF("\xFF\x0A\xFA\x1F", FORMAT_JXL);
    SNIFF("\0\0\0\x0CJXL \r\n\x87\n\0\0\0\x14"
          "ftypjxl ",
          FORMAT_JXL);
    SNIFF("\0\0\0\x0CjP  \r\n\x87\n\0\0\0\x14"
          "ftypjp2 ",
          FORMAT_JP2);
    SNIFF("\xFF\x4F\xFF\x51\0\x29", FORMAT_JP2);
    SNIFF("\0\0\0\x18"
          "ftypheic\0\0\0\0mif1heic",
          FORMAT_HEIF);
    SNIFF("\0\0\0\x18"
          "ftypmif1\0\0\0\0mif1heic",
          FORMAT_HEIF);
    SNIFF("\0\0\0\x20"
          "ftypavif\0\0\0\0avifmif1miafMA1B",
          FORMAT_AVIF);
    SNIFF("\0\0\0\x1C"
          "ftypmif1\0\0\0\0mif1avifmiaf",
          FORMAT_AVIF);
    SNIFF("\0\0\0\x14"
          "ftypmif1\0\0\0\0mif1avif",
          FORMAT_HEIF); /* avif is behind the box */
    SNIFF("\0\0\0\x18"
          "ftypmsf1\0\0\0\0msf1hevc",
          FORMAT_HEIF);
    SNIFF("BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\2\0\0\0\2\0\0\0", FORMAT_BMP);
    SNIFF("BM\x46\0\0\0\0\0\0\0\x1A\0\0\0\x0C\0\0\0\2\0\2\0\1\0\x18\0", FORMAT_BMP);
    SNIFF("BMW and other makers of cars, by year", FORMAT_TEXT);
    SNIFF("P6 2 2 255\n\1\2\3", FORMAT_PNM);
    SNIFF("P1\n# made by hand\n 4 4\n0 1", FORMAT_PNM);
    SNIFF("P5 of the report is missing", FORMAT_TEXT);
    SNIFF("P7\nWIDTH 4\n", FORMAT_TEXT);
    SNIFF("8BPS\0\1", FORMAT_PSD);
}

static void test_containers(void)
{
    SNIFF("\x93NUMPY\1\0v\0", FORMAT_NPY);
    SNIFF("PK\3\4\x14\0", FORMAT_ZIP);
    SNIFF("PK\5\6\0\0", FORMAT_ZIP);
    SNIFF("\x1F\x8B\x08\0", FORMAT_GZIP);
    SNIFF("\x28\xB5\x2F\xFD\x24", FORMAT_ZSTD);
    SNIFF("\x53\x2A\x4D\x18\4\0\0\0", FORMAT_ZSTD); /* skippable frame */
    SNIFF("\xFD\x37zXZ\0\0\4", FORMAT_XZ);
    SNIFF_AT(512, 257,
             "ustar\0"
             "00",
             FORMAT_TAR);
    SNIFF_AT(1024, 257, "ustar  ", FORMAT_TAR); /* GNU */
    SNIFF_AT(512, 0, "", FORMAT_UNKNOWN);
    /* Version 7 tar: the sum of all bytes, with the field of the sum as spaces. Here: "a.jpg" 464,
     * "0000644" 350, "00000000012" 531, eight spaces 256. */
    uint8_t old[512] = "a.jpg";
    memcpy(old + 100, "0000644", 8);
    memcpy(old + 124, "00000000012", 12);
    snprintf((char *)old + 148, 8, "%06o", 464 + 350 + 531 + 256);
    CHECK_INT(sniff_copy(old, 512), FORMAT_TAR);
    old[0] = 'b';
    CHECK_INT(sniff_copy(old, 512), FORMAT_UNKNOWN);
}

static void test_never_rendered(void)
{
    SNIFF("<svg xmlns='http://www.w3.org/2000/svg'/>", FORMAT_SVG);
    SNIFF("\xEF\xBB\xBF \n<?xml version='1.0'?>\n<!-- <html> --><svg>", FORMAT_SVG);
    SNIFF("<?xml version='1.0'?><!DOCTYPE svg PUBLIC '-//W3C//DTD SVG 1.1//EN' ''><svg/>",
          FORMAT_SVG);
    SNIFF("<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a '>'>]><svg:svg xmlns:svg=''>", FORMAT_SVG);
    SNIFF("<SVG>", FORMAT_SVG);
    SNIFF("<svgfoo>", FORMAT_TEXT);
    SNIFF("<?xml version='1.0'?><annotation><size/></annotation>", FORMAT_TEXT);
    SNIFF("<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", FORMAT_TEXT);
    SNIFF("%PDF-1.7\n%\xE2\xE3", FORMAT_PDF);
    SNIFF("%!PS-Adobe-3.0", FORMAT_PS);
    SNIFF("\xC5\xD0\xD3\xC6\x1E\0\0\0", FORMAT_PS);
    SNIFF("push graphic-context\nviewbox 0 0 640 480\n", FORMAT_MVG);
    SNIFF("<!DOCTYPE html><html>", FORMAT_HTML);
    SNIFF("\n\n<!-- error --><HTML lang=en>", FORMAT_HTML);
    SNIFF("<?xml version='1.0'?><!DOCTYPE html PUBLIC ''><html>", FORMAT_HTML);
    SNIFF("<body bgcolor=white>404", FORMAT_HTML);
    SNIFF("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
          FORMAT_LFS_POINTER);
    SNIFF("version https://example.com/\n", FORMAT_TEXT);
}

static void test_others(void)
{
    SNIFF_AT(132, 128, "DICM", FORMAT_DICOM);
    SNIFF_AT(131, 128, "DIC", FORMAT_UNKNOWN);
    uint8_t nifti[348] = {0x5C, 1}; /* 348 */
    memcpy(nifti + 344, "n+1", 4);
    CHECK_INT(sniff_copy(nifti, 348), FORMAT_NIFTI);
    memcpy(nifti, "\0\0\1\x5C", 4);
    CHECK_INT(sniff_copy(nifti, 348), FORMAT_NIFTI);
    nifti[3] = 0;
    CHECK_INT(sniff_copy(nifti, 348), FORMAT_UNKNOWN);
    SNIFF("\x1C\2\0\0n+2\0\r\n\x1A\n", FORMAT_NIFTI); /* 540 */
    SNIFF("\x89HDF\r\n\x1A\n", FORMAT_HDF5);
    SNIFF_AT(520, 512, "\x89HDF\r\n\x1A\n", FORMAT_HDF5);
    SNIFF("PAR1\x15\4", FORMAT_PARQUET);
    SNIFF("\0\0\0\x20"
          "ftypisom\0\0\2\0isomiso2avc1mp41",
          FORMAT_VIDEO);
    SNIFF("\0\0\0\x14"
          "ftypqt  \0\0\2\0qt  ",
          FORMAT_VIDEO);
    SNIFF("\0\0\0\x18"
          "ftypM4A \0\0\0\0",
          FORMAT_AUDIO);
    SNIFF("RIFF\0\0\0\0AVI LIST", FORMAT_VIDEO);
    SNIFF("\x1A\x45\xDF\xA3\x9F", FORMAT_VIDEO);
    SNIFF("\0\0\1\xBA\x44", FORMAT_VIDEO);
    uint8_t ts[400] = {0x47};
    ts[188] = ts[376] = 0x47;
    CHECK_INT(sniff_copy(ts, 400), FORMAT_VIDEO);
    CHECK_INT(sniff_copy(ts, 300), FORMAT_UNKNOWN);
    SNIFF("RIFF\0\0\0\0WAVEfmt ", FORMAT_AUDIO);
    SNIFF("fLaC\0\0\0\"", FORMAT_AUDIO);
    SNIFF("OggS\0\2", FORMAT_AUDIO);
    SNIFF("ID3\4\0\0", FORMAT_AUDIO);
    SNIFF("ID3,ID4,label\n", FORMAT_TEXT);
    SNIFF("\xFF\xFB\x90\x64", FORMAT_AUDIO);
    SNIFF("\xFF\xFE<\0s\0v\0g\0", FORMAT_UNKNOWN);
    SNIFF("image_id,label\n001.jpg,cat\n", FORMAT_TEXT);
    SNIFF("gr\xC3\xBC\xC3\x9F dich\n", FORMAT_TEXT);
    SNIFF("gr\xFC\xDF dich\n", FORMAT_UNKNOWN);
    SNIFF("cut \xC3", FORMAT_UNKNOWN);
    SNIFF("abc\0def", FORMAT_UNKNOWN);
    CHECK_INT(sniff_copy("", 0), FORMAT_UNKNOWN);
    char long_text[SNIFF_BYTES + 1]; /* a character that the sniffed bytes cut */
    memset(long_text, 'a', sizeof long_text);
    memcpy(long_text + SNIFF_BYTES - 1, "\xC3\xBC", 2);
    CHECK_INT(sniff_copy(long_text, sizeof long_text), FORMAT_TEXT);
}

/* Any bytes, any length: an answer without a read beyond, and the same from a longer view. */
static void test_any_bytes(void)
{
    static const char *const starts[] = {
        "<?xml ", "<!DOCTYPE [", "<!--", "P5 #", "\0\0\0\40ftypmif1", "RIFF", "BM", "<",
        "%",      "ID3",         "<a:",  "II",   "\xEF\xBB\xBF"};
    uint32_t state = 1;
    for (int k = 0; k < 20000; k++) {
        uint8_t data[64];
        size_t n = (size_t)k % sizeof data;
        for (size_t i = 0; i < n; i++) {
            state = state * 1664525u + 1013904223u;
            data[i] = (uint8_t)(state >> 24);
            if (k % 2)
                data[i] = "<>!-?[] svghtml:#09\n"[data[i] % 20];
        }
        const char *start = starts[(size_t)k % (sizeof starts / sizeof starts[0])];
        size_t bytes = start[0] == 0 ? 12 : strlen(start);
        if (k % 3 == 0 && n >= bytes)
            memcpy(data, start, bytes);
        enum image_format f = sniff_copy(data, n);
        CHECK((unsigned)f < FORMAT_COUNT);
    }
}

static void test_refuse(void)
{
    struct slimset_error err;
    CHECK_INT(sniff_refuse(FORMAT_JPEG, 0, &err), SLIMSET_BAD_INPUT);
    CHECK_INT(err.reject, SLIMSET_REJECT_EMPTY);
    static const struct {
        enum image_format f;
        enum slimset_reject reject;
    } cases[] = {
        {FORMAT_UNKNOWN, SLIMSET_REJECT_UNKNOWN_FORMAT},
        {FORMAT_SVG, SLIMSET_REJECT_NOT_ALLOWED},
        {FORMAT_PDF, SLIMSET_REJECT_NOT_ALLOWED},
        {FORMAT_PS, SLIMSET_REJECT_NOT_ALLOWED},
        {FORMAT_MVG, SLIMSET_REJECT_NOT_ALLOWED},
        {FORMAT_HTML, SLIMSET_REJECT_HTML},
        {FORMAT_TEXT, SLIMSET_REJECT_UNKNOWN_FORMAT},
        {FORMAT_DICOM, SLIMSET_REJECT_UNSUPPORTED},
        {FORMAT_NIFTI, SLIMSET_REJECT_UNSUPPORTED},
        {FORMAT_HDF5, SLIMSET_REJECT_UNSUPPORTED},
        {FORMAT_PARQUET, SLIMSET_REJECT_UNSUPPORTED},
        {FORMAT_VIDEO, SLIMSET_REJECT_UNSUPPORTED},
        {FORMAT_AUDIO, SLIMSET_REJECT_UNSUPPORTED},
        {FORMAT_PSD, SLIMSET_REJECT_UNSUPPORTED},
        {FORMAT_LFS_POINTER, SLIMSET_REJECT_LFS_POINTER},
    };
    for (int f = 0; f < FORMAT_COUNT; f++) {
        enum slimset_reject want = SLIMSET_REJECT_NONE;
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            if ((int)cases[i].f == f)
                want = cases[i].reject;
        err = (struct slimset_error){0};
        CHECK_INT(sniff_refuse((enum image_format)f, 9, &err),
                  want == SLIMSET_REJECT_NONE ? SLIMSET_OK : SLIMSET_BAD_INPUT);
        CHECK_INT(err.reject, want);
        CHECK((want == SLIMSET_REJECT_NONE) == (err.text[0] == 0));
        const char *name = sniff_format_name((enum image_format)f);
        CHECK(name != NULL && name[0] != 0);
        for (int g = 0; g < f; g++)
            CHECK(strcmp(sniff_format_name((enum image_format)g), name) != 0);
    }
    CHECK_STR(sniff_format_name(FORMAT_JPEG), "jpeg");
    CHECK_STR(sniff_format_name(FORMAT_LFS_POINTER), "lfs-pointer");
    CHECK_STR(sniff_format_name((enum image_format)200), "unknown");
    sniff_refuse(FORMAT_DICOM, 9, &err);
    CHECK(strstr(err.text, "dcm2niix") != NULL);
}

int main(void)
{
    RUN(test_images);
    RUN(test_containers);
    RUN(test_never_rendered);
    RUN(test_others);
    RUN(test_any_bytes);
    RUN(test_refuse);
    return check_done();
}
