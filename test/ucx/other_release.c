/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded, this makes the running UCX look as if it had a function that came with a release of its own.
 */
#include <uct/api/version.h>

__attribute__((visibility("default"))) void uct_md_query_v2(void) {} /* since 1.14 */
#if UCT_VERNO_MINOR >= 18
__attribute__((visibility("default"))) void uct_rkey_unpack_v2(void) {} /* since 1.19 */
#endif
#if UCT_VERNO_MINOR >= 23
#error "name a function that is newer than 1.23"
#endif
