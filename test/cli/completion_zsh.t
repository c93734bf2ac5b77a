# SPDX-License-Identifier: Apache-2.0
# The script parses.
command -v zsh >/dev/null || { echo "no zsh here"; exit 77; }
"$SLIMSET" completion zsh >script && zsh -n script
