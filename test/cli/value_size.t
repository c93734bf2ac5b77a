# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
no pack src -o out --shard-size M
no pack src -o out --shard-size 12X
no pack src -o out --shard-size 1.5.2G
no pack src -o out --shard-size 1.G
no pack src -o out --shard-size -1G
no pack src -o out --shard-size 1
no pack src -o out --shard-size 9P
no pack src -o out --shard-size 99999999999999999999T
no pack src -o out --shard-size 18446744073709551615G
