/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tables that UCX reads.
 */
#include "ucx_tl_sdma/tl.h"

#include <stdlib.h>

#include "ucx_tl_sdma/release.h"

static ucs_status_t rkey_release(uct_component_t *component, uct_rkey_t rkey, void *handle) {
    (void)component, (void)rkey;
    free(handle);
    return UCS_OK;
}

#if UCX_RELEASE >= 123
static ucs_status_t rkey_unpack(uct_component_t *component, const void *buffer, const void *params, uct_rkey_t *rkey,
                                void **handle) {
    (void)component, (void)params;
    return tl_key_unpack(buffer, rkey, handle);
}
#else
static ucs_status_t rkey_unpack(uct_component_t *component, const void *buffer, uct_rkey_t *rkey, void **handle) {
    (void)component;
    return tl_key_unpack(buffer, rkey, handle);
}
#endif

uct_component_t tl_component = {
    .name = TL_NAME,
    .query_md_resources = uct_md_query_single_md_resource,
    .md_open = tl_md_open,
    .cm_open = (void *)ucs_empty_function_return_unsupported,
    .rkey_unpack = rkey_unpack,
    .rkey_ptr = (void *)ucs_empty_function_return_unsupported,
    .rkey_release = rkey_release,
#if UCX_RELEASE >= 118
    .rkey_compare = uct_base_rkey_compare,
#endif
    .md_config = {.name = "SDMA memory domain", .prefix = "SDMA_"},
    .cm_config = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list = UCS_LIST_INITIALIZER(&tl_component.tl_list, &tl_component.tl_list),
    .md_vfs_init = (void *)ucs_empty_function,
};

static ucs_config_field_t iface_config_table[] = {
    {"", "", NULL, offsetof(tl_iface_config_t, super), UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},
#define TL_IFACE_PARAM(name, value, type, field, help)                                                                 \
    {#name, value, help, offsetof(tl_iface_config_t, field), UCS_CONFIG_TYPE_##type},
#include "ucx_tl_sdma/params.def"
    {NULL}};

static uct_tl_t transport = {
    .name = TL_NAME,
    .query_devices = tl_query_devices,
    .iface_open = tl_iface_open,
    .config = {.name = "SDMA transport",
               .prefix = "SDMA_",
               .table = iface_config_table,
               .size = sizeof(tl_iface_config_t)},
};

__attribute__((constructor)) static void load(void) {
    if (!tl_release_fits()) {
        return;
    }
    tl_component.md_config.table = tl_md_config_rows(&tl_component.md_config.size);
    if (tl_component.md_config.table == NULL) {
        return;
    }
    uct_component_register(&tl_component);
    uct_tl_register(&tl_component, &transport);
}
