# SPDX-License-Identifier: Apache-2.0
# The help, the parser and the manual page know the same options.
"$SLIMSET" help --man | sed 's/\\-/-/g' >manual
for verb in pack plan ls get verify help; do
    for option in $("$SLIMSET" help "$verb" | sed -n 's/^  \(-[a-zA-Z0-9],\|   \) \(--[a-z0-9-]*\).*/\2/p'); do
        n=$((n + 1))
        "$SLIMSET" "$verb" "$option" 2>err >out </dev/null
        grep -q 'unknown option\|is an option of' err && echo "$verb $option is not known"
        grep -qe "$option\\\\fR" manual || echo "$option is not in the manual"
    done
done
((n > 100)) || echo "only $n options found"
