# SPDX-License-Identifier: Apache-2.0
"""--min-ssim, --quality, --subsampling: judged by Pillow's decoder, its quantisation tables and an SSIM written here in numpy.
Runs with SLIMSET_IN_PROCESS as well."""
import io
import json

import numpy as np
from PIL import Image

from _frame import ls, main, members, pack, picture, run, save


def stored(out):
    data = members(out)
    return {s["key"]: (data[f"{s['key']}.{f['name']}"], f) for s in ls(out) for f in s["fields"]}


def luma(data):
    im = Image.open(io.BytesIO(data))
    if im.format == "JPEG":
        im.draft("YCbCr" if im.mode == "RGB" else "L", im.size)
        a = np.asarray(im)
        return (a if a.ndim == 2 else a[..., 0]).astype(float)
    return np.asarray(im.convert("L")).astype(float)


def ssim(a, b):
    """Windows of 8 x 8 that do not overlap, population variances."""
    h, w = a.shape[0] // 8 * 8, a.shape[1] // 8 * 8
    cells = lambda x: x[:h, :w].reshape(h // 8, 8, w // 8, 8).transpose(0, 2, 1, 3).reshape(-1, 64)
    x, y = cells(a), cells(b)
    mx, my = x.mean(1), y.mean(1)
    vx, vy, cov = x.var(1), y.var(1), (x * y).mean(1) - mx * my
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    return float(((2 * mx * my + c1) * (2 * cov + c2) / ((mx * mx + my * my + c1) * (vx + vy + c2))).mean())


def table(data):
    return Image.open(io.BytesIO(data)).quantization[0]


def pillow(quality, mode="RGB"):
    b = io.BytesIO()
    Image.new(mode, (16, 16)).save(b, "JPEG", quality=quality)
    return table(b.getvalue())


def shots(n):
    for i in range(n):
        a = picture(130 + 9 * i, 90 + 5 * i, i, channels=1 if i % 4 == 3 else 3).astype(float)
        smooth = Image.fromarray(a.astype(np.uint8)).resize((a.shape[1] // 3, a.shape[0] // 3)).resize((a.shape[1], a.shape[0]))
        mix = (i % 5) / 4
        save(f"src/{i:02}.png", np.clip(mix * a + (1 - mix) * np.asarray(smooth, float), 0, 255).astype(np.uint8))


def test_smallest_quality_that_reaches_it():
    shots(20)
    pack("src", "-o", "ideal", "--resize", "120", "--codec", "png")
    ideal = {k: luma(d) for k, (d, _) in stored("ideal").items()}
    everything = {}
    for wanted in (0.9, 0.97, 0.99):
        r = json.loads(pack("src", "-o", f"o{wanted}", "--resize", "120", "--codec", "jpeg", "--min-ssim", str(wanted),
                            "--json").out.splitlines()[-1])
        for key, (data, record) in stored(f"o{wanted}").items():
            got = ssim(ideal[key], luma(data))
            assert abs(got - record["ssim"]) < 0.004, (wanted, key, got, record["ssim"])
            assert table(data) == pillow(record["quality"]), (key, record["quality"])
            everything[wanted, key] = record["quality"]
            if "missed-ssim" in record["notes"]:
                assert record["quality"] == 97 and record["ssim"] < wanted
                continue
            assert record["ssim"] >= wanted - 1e-6 and 30 <= record["quality"] <= 97
            if record["quality"] > 30:  # one less is not enough, by Pillow's encoder of the same tables
                b = io.BytesIO()
                Image.fromarray(ideal[key].astype(np.uint8)).save(b, "JPEG", quality=record["quality"] - 1)
                assert ssim(ideal[key], luma(b.getvalue())) < wanted + 0.004, (wanted, key)
        assert sum(r["qualities"].values()) == 20 and abs(r["ssim_min"] - min(f["ssim"] for _, f in stored(f"o{wanted}").values())) < 1e-6
        reached = sorted(f["ssim"] for _, f in stored(f"o{wanted}").values())
        assert abs(r["ssim_5"] - reached[1]) <= 1.01e-4 and abs(r["ssim_median"] - reached[10]) <= 1.01e-4 and r["ssim_unmeasured"] == 0, r
    assert len(set(everything.values())) > 10, "the qualities hardly differ"
    assert all(everything[0.9, k] <= everything[0.97, k] <= everything[0.99, k] for k in ideal)
    text = pack("src", "-o", "o0.97", "--resize", "120", "--codec", "jpeg", "--min-ssim", "0.97").out
    assert "qualities that --min-ssim took" in text and "####" in text


def test_out_of_reach_is_the_highest_and_counted():
    rng = np.random.default_rng(1)
    for i in range(3):
        save(f"src/{i}.png", np.clip(rng.normal(128, 3, (64, 64)), 0, 255).astype(np.uint8))
    r = json.loads(pack("src", "-o", "out", "--codec", "jpeg", "--min-ssim", "0.9999", "--image", "*", "--json").out.splitlines()[-1])
    assert r["notes"]["missed-ssim"] == 3 and r["qualities"] == {"97": 3}
    save("flat/a.png", np.full((5, 3), 77, np.uint8))  # smaller than a window
    pack("flat", "-o", "flatout", "--codec", "jpeg", "--min-ssim", "0.9999", "--image", "*")
    assert stored("flatout")["a"][1]["ssim"] > 0.9999


def test_quality_and_subsampling_are_what_is_written():
    for i in range(2):
        save(f"src/{i}.png", picture(70, 50, i))
    factors = {"444": (1, 1), "422": (2, 1), "420": (2, 2)}
    for q, (name, (h, v)) in zip((1, 55, 100), factors.items()):
        pack("src", "-o", name, "--codec", "jpeg", "--quality", str(q), "--subsampling", name)
        for data, record in stored(name).values():
            im = Image.open(io.BytesIO(data))
            assert table(data) == pillow(q) and record["quality"] == q and "ssim" not in record
            assert im.layer[0][1:3] == (h, v) and im.layer[1][1:3] == (1, 1), (name, im.layer)


def test_min_ssim_is_for_jpeg():
    save("src/1.png", picture(30, 20))
    for value in ("0", "1", "1.5", "x", "-0.5", "0.9x"):
        run("pack", "src", "-o", "out", "--min-ssim", value, code=2)
    run("pack", "src", "-o", "out", "--min-ssim", "0.9", "--codec", "webp", code=2)


def test_webp_is_said_not_to_be_covered():
    """WebP that stays WebP and is encoded anew: told before and after the run. What is lossless, or keeps its bytes, is not worth a word."""
    for i in range(4):
        save(f"src/w/{i}.webp", picture(80, 60, i), quality=90)
        save(f"src/j/{i}.jpg", picture(80, 60, i), quality=90)
    p = pack("src", "-o", "out", "--resize", "40", "--codec", "keep", "--min-ssim", "0.95", "--quality", "77", "--image", "*", "--classes", "none", "--json")
    r = json.loads(p.out.splitlines()[-1])
    assert r["ssim_unmeasured"] == 4 and sum(r["qualities"].values()) == 4, r
    for key, (data, record) in stored("out").items():
        assert (record["quality"] == 77 and "ssim" not in record) if key.startswith("w") else record["ssim"] >= 0.95, record
    p = pack("src", "-o", "text", "--resize", "40", "--codec", "keep", "--min-ssim", "0.95", "--quality", "77", "--image", "*")
    assert ".webp: --min-ssim chooses the quality of JPEG only; WebP is encoded with quality 77" in p.err, p.err
    assert "--min-ssim does not cover WebP: 4 encoded" in p.out, p.out
    p = pack("src/j", "-o", "o2", "--resize", "40", "--codec", "keep", "--min-ssim", "0.95", "--image", "*")
    assert "WebP" not in p.err + p.out, p.err
    p = pack("src/w", "-o", "o3", "--resize", "40", "--lossless", "--min-ssim", "0.95", "--image", "*")
    assert "WebP is" not in p.err and "does not cover" not in p.out, p.err


main([v for k, v in sorted(globals().items()) if k.startswith("test_")])
