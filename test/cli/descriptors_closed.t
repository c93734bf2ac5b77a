# SPDX-License-Identifier: Apache-2.0
# Standard descriptors that are closed are not taken by files the program opens.
"$SLIMSET" version <&- >&- 2>&-
echo "all closed: $?"
"$SLIMSET" nonsense 2>&-
echo "no stderr: $?"
