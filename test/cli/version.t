# SPDX-License-Identifier: Apache-2.0
# All ways to ask give the same line.
for ask in version --version -V 'ls -V' 'pack --version'; do
    "$SLIMSET" $ask | sed 's/[0-9][0-9]*\.[0-9][0-9]*\.[0-9][0-9]*/N/'
done
