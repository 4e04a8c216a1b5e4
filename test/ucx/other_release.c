/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded, this makes the running UCX look as if it had a function that came with a release of its own; or, since the
 * newest that we know has no such function yet, as if its tables were nowhere.
 */
#include <uct/api/version.h>

#if UCT_VERNO_MINOR >= 23
#include <dlfcn.h>

__attribute__((visibility("default"))) int dladdr(const void *address, Dl_info *info) {
    (void)address, (void)info;
    return 0;
}
#else
__attribute__((visibility("default"))) void uct_md_query_v2(void) {}    /* since 1.14 */
#if UCT_VERNO_MINOR >= 18
__attribute__((visibility("default"))) void uct_rkey_unpack_v2(void) {} /* since 1.19 */
#endif
#endif
