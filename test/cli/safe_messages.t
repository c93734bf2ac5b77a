# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
# What was typed comes back without control characters, in one line.
no pack src -o out --codec $'gif\n\e[2J'
no pack src -o out $'--bad\xff\x07'
no $'verb\r\nslimset: all is well'
no pack $'-\x01'
no help $'\xc2\x9b31m'
no pack src -o out --codec $'gr\xc3\xbcn'
