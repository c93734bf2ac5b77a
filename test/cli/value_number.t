# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
no pack src -o out --quality 0
no pack src -o out --quality 101
no pack src -o out --quality +5
no pack src -o out --quality ' 5'
no pack src -o out --quality 9x
no pack src -o out --quality 99999999999999999999999
no pack src -o out --png-level 10
no pack src -o out -j many
no pack src -o out --seed -1
no pack src -o out --shards 0
no pack src -o out --max-pixels 0
no pack src -o out --max-rejects -3
no pack src -o out --max-rejects 101%
no pack src -o out --max-rejects %
no pack src -o out --max-rejects 1e3
