/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of a finished dataset, counted from its index, so that a rerun that changed nothing reports the same as the run that made it.
 */
#ifndef REPORT_H
#define REPORT_H

#include "index.h"
#include "slimset/pack.h"

enum slimset_status report_count(struct index *ix, struct slimset_report *report, struct slimset_error *err);

#endif
