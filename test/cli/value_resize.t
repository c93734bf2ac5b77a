# SPDX-License-Identifier: Apache-2.0
# What --resize takes is said by the library; here: refused, named, and nothing made.
for mode in 0 -1 512px long: long:0 exact:512 exact:0x5 crop:5x pad:axb area:-1 scale:0 scale:nan big:5 512x512x3; do
    "$SLIMSET" pack src -o out --resize "$mode" 2>err
    s=$?
    ((s == 2)) || echo "$mode: status $s"
    grep -qF -- "slimset pack: --resize $mode: " err || { echo "$mode: not named"; cat err; }
    (($(wc -l <err) == 2)) || echo "$mode: not one line and a hint"
    [[ -e out ]] && echo "$mode: made out"
done
:
