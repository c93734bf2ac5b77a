# SPDX-License-Identifier: Apache-2.0
# groff has nothing to say against the manual page.
command -v groff >/dev/null || { echo "no groff here"; exit 77; }
"$SLIMSET" help --man >slimset.1 || exit
groff -man -ww -Tascii -P-cbou slimset.1 >page || exit
grep -c 'EXIT STATUS' page
# Nothing of a line was taken as a request or an escape.
grep -n '[\]' page
grep -oe "'labels/\*.png'" page
grep -oe '\$(slimset\|<(slimset completion bash)' page
