# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
no pack src -o out --codec gif
no pack src -o out --codec JPEG
no pack src -o out --subsampling 411
no pack src -o out --to zip
no pack src -o out --order random
no pack src -o out --classes names
no pack src -o out --channels 4
no pack src -o out --reencode some
no pack src -o out --alpha red
no pack src -o out --alpha '#12345'
no pack src -o out --alpha '#12345g'
no pack src -o out --depth 16
no pack src -o out --depth 8:100,100
no pack src -o out --depth 8:0,70000
no pack src -o out --depth 8:nan,inf
no pack src -o out --depth 8:0x1,5
no pack src -o out --depth 8:0.5,9
