# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
# No abbreviations: a later option of the same beginning would change what a script means.
no pack src -o out --qual 80
no pack src -o out --resiz=512
no verify out --dec
