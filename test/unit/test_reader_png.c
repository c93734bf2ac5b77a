/* SPDX-License-Identifier: Apache-2.0
 *
 * The PNG reader as libslimset has it: the tests of test_png.c over the inflate of the library (the
 * build links it to programs named test_reader*).
 */
#include "test_png.c"
