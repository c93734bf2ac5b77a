# SPDX-License-Identifier: Apache-2.0
# Every one of these is wrong usage: exit status 2, nothing on standard output.
no() { "$SLIMSET" "$@"; local s=$?; ((s == 2)) || echo "status $s: $*"; }
# Words of other tools get the line that does it here.
for word in resize convert compress create info list cat extract unpack check estimate; do
    no "$word"
done
