# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
# Values that are missing, empty, or given where none belongs.
no pack src -o
no pack src -o out --quality
no pack src -o out --codec
no pack src -o --force
no pack src -o out --resize=
no pack src -o ''
no pack src -o out --upscale=yes
