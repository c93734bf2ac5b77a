# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
no pack src -o out --strict --max-rejects 5
no pack src -o out --lossless --codec jpeg
no pack src -o out --lossless --codec webp
no pack src -o out --upscale
no pack src -o out -0
no pack src -o out -q -v
