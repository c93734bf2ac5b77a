# SPDX-License-Identifier: Apache-2.0
# No verb: the short help, as an error.
"$SLIMSET"
