/* SPDX-License-Identifier: Apache-2.0
 *
 * roles.h: what names suggest.
 */
#include "roles.h"

#include "check.h"

static int role(const char *ext)
{
    bool known = false;
    enum slimset_role r = role_of_extension(ext, strlen(ext), &known);
    return known ? (int)r : -1;
}

static void test_extensions(void)
{
    static const char *const images[] = {"jpg",  "JPG",  "JPEG", "jpeg", "png", "tif",
                                         "TIFF", "webp", "gif",  "bmp",  "ppm", "pgm",
                                         "heic", "avif", "jxl",  "jp2"};
    for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
        CHECK_INT(role(images[i]), SLIMSET_ROLE_IMAGE);
    CHECK_INT(role("npy"), SLIMSET_ROLE_ARRAY);
    CHECK_INT(role("NPZ"), SLIMSET_ROLE_ARRAY);
    static const char *const copies[] = {"txt", "json", "XML", "csv",     "cls", "svg",
                                         "pdf", "dcm",  "mp4", "parquet", "zip"};
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++)
        CHECK_INT(role(copies[i]), SLIMSET_ROLE_COPY);
    static const char *const unknown[] = {"", "jp", "jpgx", "xyz", "0", "dat", ".jpg"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        CHECK_INT(role(unknown[i]), -1);
    bool known;
    CHECK_INT(role_of_extension("pngx", 3, &known), SLIMSET_ROLE_IMAGE); /* n bytes, not a string */
    CHECK(known);
}

static void test_usual_extensions(void)
{
    static const struct {
        enum image_format f;
        const char *ext;
    } usual[] = {{FORMAT_JPEG, "jpg"},  {FORMAT_PNG, "png"},   {FORMAT_TIFF, "tif"},
                 {FORMAT_WEBP, "webp"}, {FORMAT_GIF, "gif"},   {FORMAT_BMP, "bmp"},
                 {FORMAT_HEIF, "heic"}, {FORMAT_AVIF, "avif"}, {FORMAT_JXL, "jxl"},
                 {FORMAT_JP2, "jp2"},   {FORMAT_NPY, "npy"},   {FORMAT_NPZ, "npz"}};
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        const char *ext = role_extension(usual[i].f);
        CHECK_STR(ext != NULL ? ext : "none", usual[i].ext);
        CHECK(role_extension_fits(usual[i].f, usual[i].ext, strlen(usual[i].ext)));
    }
    CHECK(role_extension(FORMAT_UNKNOWN) == NULL && role_extension(FORMAT_HTML) == NULL &&
          role_extension(FORMAT_PDF) == NULL);
    CHECK(role_extension_fits(FORMAT_JPEG, "JPEG", 4) &&
          role_extension_fits(FORMAT_JPEG, "jpe", 3));
    CHECK(role_extension_fits(FORMAT_TIFF, "tiff", 4) && role_extension_fits(FORMAT_PNM, "pgm", 3));
    CHECK(!role_extension_fits(FORMAT_JPEG, "png", 3) &&
          !role_extension_fits(FORMAT_PNG, "jpg", 3));
    CHECK(!role_extension_fits(FORMAT_JPEG, "", 0));
    /* every format that can be stored has a name that leads back to its role */
    for (int f = 0; f < FORMAT_COUNT; f++) {
        const char *ext = role_extension((enum image_format)f);
        if (role_is_image_format((enum image_format)f))
            CHECK(ext != NULL && role(ext) == SLIMSET_ROLE_IMAGE);
    }
}

static void test_image_formats(void)
{
    static const bool is[FORMAT_COUNT] = {
        [FORMAT_JPEG] = true, [FORMAT_PNG] = true, [FORMAT_TIFF] = true, [FORMAT_WEBP] = true,
        [FORMAT_GIF] = true,  [FORMAT_BMP] = true, [FORMAT_PNM] = true,  [FORMAT_HEIF] = true,
        [FORMAT_AVIF] = true, [FORMAT_JXL] = true, [FORMAT_JP2] = true};
    for (int f = 0; f < FORMAT_COUNT; f++)
        CHECK_INT(role_is_image_format((enum image_format)f), is[f]);
}

static int hint(const char *dir, const char *field)
{
    return (int)role_hint_of(dir, strlen(dir), field, strlen(field));
}

static void test_hints(void)
{
    static const char *const masks[] = {"masks/",
                                        "a/mask/b/",
                                        "labels/",
                                        "annot/",
                                        "gt/",
                                        "seg/",
                                        "SegmentationClass/",
                                        "valannot/",
                                        "train_masks/",
                                        "Train-Labels/",
                                        "x/gtFine_labelIds/"};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++)
        CHECK_INT(hint(masks[i], "png"), ROLE_HINT_MASK);
    static const char *const depths[] = {"depth/", "a/depth/b/", "disp/",
                                         "Flow/",  "disparity/", "left_depth/"};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++)
        CHECK_INT(hint(depths[i], "png"), ROLE_HINT_DEPTH);
    static const char *const none[] = {"",
                                       "images/",
                                       "train/",
                                       "cat/",
                                       "segments-of-orange/",
                                       "masked_singer/",
                                       "flower/",
                                       "flowers/",
                                       "dispenser/",
                                       "labelled/",
                                       "gtr/",
                                       "instances2017/"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        CHECK_INT(hint(none[i], "png"), ROLE_HINT_NONE);
    CHECK_INT(hint("", "seg.png"), ROLE_HINT_MASK);
    CHECK_INT(hint("", "mask.png"), ROLE_HINT_MASK);
    CHECK_INT(hint("", "depth.png"), ROLE_HINT_DEPTH);
    CHECK_INT(hint("images/", "seg.png"), ROLE_HINT_MASK);
    CHECK_INT(hint("masks/", "depth.png"),
              ROLE_HINT_DEPTH);                 /* the field is nearer than the folder */
    CHECK_INT(hint("", "seg"), ROLE_HINT_NONE); /* an extension is no hint */
    CHECK_INT(hint("", ""), ROLE_HINT_NONE);
}

static void test_splits(void)
{
    static const char *const splits[] = {"train", "val",  "valid", "validation",
                                         "dev",   "test", "TRAIN", "Test"};
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++)
        CHECK(role_is_split(splits[i], strlen(splits[i])));
    static const char *const none[] = {"",        "trai", "training", "train2017", "tests",
                                       "testing", "eval", "devel",    "data"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        CHECK(!role_is_split(none[i], strlen(none[i])));
    CHECK(role_is_split("trainx", 5));
}

static void test_generic_folders(void)
{
    static const char *const generic[] = {
        "images", "Images",      "img",        "masks",
        "labels", "annotations", "JPEGImages", "SegmentationClass",
        "depth",  "train",       "data",       "annot",
        "frames"};
    for (size_t i = 0; i < sizeof generic / sizeof generic[0]; i++)
        CHECK(role_is_generic(generic[i], strlen(generic[i])));
    static const char *const classes[] = {"cat",        "dog",          "0",     "n01440764",
                                          "Abyssinian", "image_of_cat", "tench", "a"};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        CHECK(!role_is_generic(classes[i], strlen(classes[i])));
}

int main(void)
{
    RUN(test_extensions);
    RUN(test_usual_extensions);
    RUN(test_image_formats);
    RUN(test_hints);
    RUN(test_splits);
    RUN(test_generic_folders);
    return check_done();
}
