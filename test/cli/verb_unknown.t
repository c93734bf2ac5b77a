# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
no verfy
no packk
no lss
no nurse
no --json
no -o out
touch photos.zip
no photos.zip
mkdir 'my photos'
no 'my photos'
