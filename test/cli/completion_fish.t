# SPDX-License-Identifier: Apache-2.0
# The script parses.
command -v fish >/dev/null || { echo "no fish here"; exit 77; }
"$SLIMSET" completion fish >script && fish -n script
