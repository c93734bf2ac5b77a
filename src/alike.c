/* SPDX-License-Identifier: Apache-2.0 */
#include "alike.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Letters that Unicode has as one character, each followed by the letter without the mark (which may have another mark), by mark. */
static const struct {
    uint16_t mark;
    const char *pairs;
} letters[] = {
    {0x0300, "ÀAÈEÌIÒOÙUàaèeìiòoùuǛÜǜüǸNǹnЀЕЍИѐеѝиḔĒḕēṐŌṑōẀWẁwẦÂầâẰĂằăỀÊềêỒÔồôỜƠờơỪƯừưỲYỳy"},
    {0x0301, "ÁAÉEÍIÓOÚUÝYáaéeíióoúuýyĆCćcĹLĺlŃNńnŔRŕrŚSśsŹZźzǗÜǘüǴGǵgǺÅǻåǼÆǽæǾØǿøΆΑΈΕΉΗΊΙΌΟΎΥΏΩΐϊ"
             "άαέεήηίιΰϋόούυώωЃГЌКѓгќкḈÇḉçḖĒḗēḮÏḯïḰKḱkḾMḿmṌÕṍõṒŌṓōṔPṕpṸŨṹũẂWẃwẤÂấâẮĂắăẾÊếêỐÔốôỚƠớơ"
             "ỨƯứư"},
    {0x0302, "ÂAÊEÎIÔOÛUâaêeîiôoûuĈCĉcĜGĝgĤHĥhĴJĵjŜSŝsŴWŵwŶYŷyẐZẑzẬẠậạỆẸệẹỘỌộọ"},
    {0x0303, "ÃAÑNÕOãañnõoĨIĩiŨUũuṼVṽvẪÂẫâẴĂẵăẼEẽeỄÊễêỖÔỗôỠƠỡơỮƯữưỸYỹy"},
    {0x0304, "ĀAāaĒEēeĪIīiŌOōoŪUūuǕÜǖüǞÄǟäǠȦǡȧǢÆǣæǬǪǭǫȪÖȫöȬÕȭõȰȮȱȯȲYȳyӢИӣиӮУӯуḠGḡgḸḶḹḷṜṚṝṛ"},
    {0x0306, "ĂAăaĔEĕeĞGğgĬIĭiŎOŏoŬUŭuЎУЙИйиўуӁЖӂжӐАӑаӖЕӗеḜȨḝȩẶẠặạ"},
    {0x0307, "ĊCċcĖEėeĠGġgİIŻZżzȦAȧaȮOȯoḂBḃbḊDḋdḞFḟfḢHḣhṀMṁmṄNṅnṖPṗpṘRṙrṠSṡsṤŚṥśṦŠṧšṨṢṩṣṪTṫtẆWẇwẊX"
             "ẋxẎYẏyẛſ"},
    {0x0308, "ÄAËEÏIÖOÜUäaëeïiöoüuÿyŸYΪΙΫΥϊιϋυЁЕЇІёеїіӒАӓаӚӘӛәӜЖӝжӞЗӟзӤИӥиӦОӧоӪӨӫөӬЭӭэӰУӱуӴЧӵчӸЫӹы"
             "ḦHḧhṎÕṏõṺŪṻūẄWẅwẌXẍxẗt"},
    {0x0309, "ẢAảaẨÂẩâẲĂẳăẺEẻeỂÊểêỈIỉiỎOỏoỔÔổôỞƠởơỦUủuỬƯửưỶYỷy"},
    {0x030a, "ÅAåaŮUůuẘwẙy"},
    {0x030b, "ŐOőoŰUűuӲУӳу"},
    {0x030c, "ČCčcĎDďdĚEěeĽLľlŇNňnŘRřrŠSšsŤTťtŽZžzǍAǎaǏIǐiǑOǒoǓUǔuǙÜǚüǦGǧgǨKǩkǮƷǯʒǰjȞHȟh"},
    {0x030f, "ȀAȁaȄEȅeȈIȉiȌOȍoȐRȑrȔUȕuѶѴѷѵ"},
    {0x0311, "ȂAȃaȆEȇeȊIȋiȎOȏoȒRȓrȖUȗu"},
    {0x031b, "ƠOơoƯUưu"},
    {0x0323, "ḄBḅbḌDḍdḤHḥhḲKḳkḶLḷlṂMṃmṆNṇnṚRṛrṢSṣsṬTṭtṾVṿvẈWẉwẒZẓzẠAạaẸEẹeỊIịiỌOọoỢƠợơỤUụuỰƯựưỴYỵy"},
    {0x0324, "ṲUṳu"},
    {0x0325, "ḀAḁa"},
    {0x0326, "ȘSșsȚTțt"},
    {0x0327, "ÇCçcĢGģgĶKķkĻLļlŅNņnŖRŗrŞSşsŢTţtȨEȩeḐDḑdḨHḩh"},
    {0x0328, "ĄAąaĘEęeĮIįiŲUųuǪOǫo"},
    {0x032d, "ḒDḓdḘEḙeḼLḽlṊNṋnṰTṱtṶUṷu"},
    {0x032e, "ḪHḫh"},
    {0x0330, "ḚEḛeḬIḭiṴUṵu"},
    {0x0331, "ḆBḇbḎDḏdḴKḵkḺLḻlṈNṉnṞRṟrṮTṯtẔZẕzẖh"},
    {0x3099, "がかぎきぐくげけごこざさじしずすぜせぞそだたぢちづつでてどとばはびひぶふべへぼほゔうゞゝガカギキグクゲケゴコザサジシズスゼセゾソダタヂチヅツデテドトバハビヒブフベヘボホ"
             "ヴウヷワヸヰヹヱヺヲヾヽ"},
    {0x309a, "ぱはぴひぷふぺへぽほパハピヒプフペヘポホ"},
};

enum { TABLE = 0x3100 /* all of them lie below */, HANGUL = 0xac00, HANGUL_END = 0xd7a4, OUT_BYTES = 512, CHARACTER = 4 };

struct alike {
    uint16_t base[TABLE], mark[TABLE]; /* 0: no such letter */
};

/* The character at *s, or a byte that is none; moves *s. */
static uint32_t next(const unsigned char **s, const unsigned char *end)
{
    uint32_t c = *(*s)++;
    unsigned more = c >= 0xf0 && c < 0xf8 ? 3 : c >= 0xe0 ? 2 : 1;
    if (c < 0xc0 || c >= 0xf8 || (size_t)(end - *s) < more)
        return c < 0x80 ? c : 0x200000 + c;
    uint32_t v = c & (0x3fu >> more);
    for (unsigned i = 0; i < more; i++) {
        if (((*s)[i] & 0xc0) != 0x80)
            return 0x200000 + c;
        v = v << 6 | ((*s)[i] & 0x3f);
    }
    *s += more;
    return v;
}

struct alike *alike_new(void)
{
    struct alike *a = calloc(1, sizeof *a);
    for (size_t i = 0; a != NULL && i < sizeof letters / sizeof letters[0]; i++) {
        const unsigned char *s = (const unsigned char *)letters[i].pairs, *end = s + strlen(letters[i].pairs);
        while (s < end) {
            uint32_t c = next(&s, end);
            a->base[c] = (uint16_t)next(&s, end);
            a->mark[c] = letters[i].mark;
        }
    }
    return a;
}

void alike_free(struct alike *a) { free(a); }

static uint32_t lower(uint32_t c)
{
    bool upper = (c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9) ||
                 (c >= 0x410 && c <= 0x42f);
    return upper ? c + 0x20 : c >= 0x400 && c <= 0x40f ? c + 0x50 : c;
}

struct folded {
    struct hash_stream h;
    unsigned char out[OUT_BYTES];
    size_t n;
};

static void put(struct folded *f, uint32_t c)
{
    if (f->n + CHARACTER > OUT_BYTES) {
        hash_update(&f->h, f->out, f->n);
        f->n = 0;
    }
    if (c >= 0x80) {
        f->out[f->n++] = 0xff;
        f->out[f->n++] = (unsigned char)(c >> 16);
        f->out[f->n++] = (unsigned char)(c >> 8);
    }
    f->out[f->n++] = (unsigned char)c;
}

static void put_letter(const struct alike *a, struct folded *f, uint32_t c)
{
    uint16_t marks[4];
    unsigned n = 0;
    if (c >= HANGUL && c < HANGUL_END) { /* computed, says the Unicode standard (3.12) */
        uint32_t i = c - HANGUL;
        put(f, 0x1100 + i / 588);
        put(f, 0x1161 + i % 588 / 28);
        if (i % 28 != 0)
            put(f, 0x11a7 + i % 28);
        return;
    }
    while (c < TABLE && a->base[c] != 0 && n < sizeof marks / sizeof marks[0]) {
        marks[n++] = a->mark[c];
        c = a->base[c];
    }
    put(f, lower(c));
    while (n > 0)
        put(f, marks[--n]);
}

uint64_t alike_hash(const struct alike *a, const char *name, size_t n)
{
    struct folded f;
    f.n = 0;
    hash_init(&f.h);
    for (const unsigned char *s = (const unsigned char *)name, *end = s + n; s < end;)
        put_letter(a, &f, next(&s, end));
    hash_update(&f.h, f.out, f.n);
    return hash_value(&f.h);
}
