# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
no pack
no pack -o out
no pack src
no pack src out
no pack 'my photos' 'my output'
no plan
no version now
no completion
no completion csh
no help pack plan
no help nothing
no help verfy
