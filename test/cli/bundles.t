# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
# Short options together, a value behind the last; "--" ends the options, "-" is an argument.
no pack -qno out
no pack -qnoout
no pack -nqj2 -o out
no pack -qjx -o out
no pack -nz
no version -
