# SPDX-License-Identifier: Apache-2.0
# What is wrong in a --config file is said with its line.
mkdir src
try() {
    printf "$1" >s.conf
    "$SLIMSET" pack src -o out --config s.conf
    (($? == 2)) || echo "not refused: $1"
}
try 'resiz = 240\n'
try '\nquality = 101\n'
try 'resize = 24x\n'
try 'codec = gif\n'
try 'lossless = maybe\n'
try 'config = other\n'
try 'resize 240\n'
try '[rule "*.png"]\nrole = masks\n'
try '[rule "*.png"]\nrol = mask\n'
try '[rule "*.png"]\n\nqualty = 80\n'
try '[rule "*.png"]\njobs = 3\n'
try '[rule "*.png"]\nlossless = yes\ncodec = jpeg\n'
try '[field mask]\npng-level = 9\n'
try '[field mask]\npattern = a/{}\n[field mask]\n'
try '[field mask]\nrole = skip\n'
try '[section]\n'
try 'mask = "labels\n'
"$SLIMSET" pack src -o out --config missing.conf
"$SLIMSET" pack src -o out --config s.conf --config=s.conf
[ -e out ] && echo "a folder was made"
exit 0
