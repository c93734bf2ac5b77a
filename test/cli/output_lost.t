# SPDX-License-Identifier: Apache-2.0
# A full disk under standard output is an error, a reader that went away is not.
for what in help version 'completion bash' 'help --man' 'help pack'; do
    "$SLIMSET" $what >/dev/full
    echo "$what: $?"
done
"$SLIMSET" help pack | head -n 1
