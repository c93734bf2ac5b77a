# SPDX-License-Identifier: Apache-2.0
# Each verb of the overview has a help of its own, the same by both ways, and none is over 80 columns wide.
[[ $("$SLIMSET" help) == "$("$SLIMSET" --help)" ]] || echo "help and --help differ"
for verb in $("$SLIMSET" help | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    echo "$verb"
    "$SLIMSET" help "$verb" >a || echo "help $verb fails"
    "$SLIMSET" "$verb" --help >b || echo "$verb --help fails"
    cmp a b
    head -n 1 a | grep -q "^usage: slimset $verb" || echo "no usage line"
    awk 'length > 80' a
done
"$SLIMSET" help | awk 'length > 80'
