# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
no pack src -o out --resise 512
no pack src -o out --qualty=80
no pack src -o out --verfy-inputs
no pack src -o out --workers 4
no pack src -o out --optimize
no ls out --jsno
no pack src -o out --nonsense
no pack src -o out -x
no pack src -o out -resize 512
