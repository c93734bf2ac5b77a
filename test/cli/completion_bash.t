# SPDX-License-Identifier: Apache-2.0
# The script parses, and gives what a person expects.
"$SLIMSET" completion bash >script || exit
bash -n script || exit
. ./script
compopt() { :; }
complete_words() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _slimset
    echo "$* -> ${COMPREPLY[*]}"
}
complete_words slimset p
complete_words slimset pack --re
complete_words slimset pack --codec ''
complete_words slimset pack --codec = j
complete_words slimset pack src --to t
complete_words slimset ls out --sh
complete_words slimset completion z
complete_words slimset help ver
touch 'a b.zip'
complete_words slimset pack a
