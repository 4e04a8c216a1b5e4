/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Are the private tables as ucx_tl_sdma/abi.h says?
 *   layout          against the libuct that is running: what UCX's own `self` has in its tables must be where we
 *                   expect it (exit status)
 *   layout --facts  prints offsets and sizes. For developers: the same file compiled against the headers of a source
 *                   tree of that release (-DUCX_SOURCE_TREE -DENABLE_DEBUG_DATA=0 -I<tree>/src) must print the same.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifdef UCX_SOURCE_TREE
#include <uct/base/uct_iface.h>
#include <uct/base/uct_md.h>
#define UCX_RELEASE (UCT_VERNO_MAJOR * 100 + UCT_VERNO_MINOR)
#else
#include "ucx_tl_sdma/abi.h"
#endif

#define SIZE(type) printf("sizeof " #type " %zu\n", sizeof(type))
#define AT(type, member) printf(#type "." #member " %zu\n", offsetof(type, member))
#define VALUE(name) printf(#name " %llu\n", (unsigned long long)(name))

static void print_facts(void) {
    typedef struct uct_component component;
    SIZE(component);
    AT(component, name);
    AT(component, query_md_resources);
    AT(component, md_open);
    AT(component, cm_open);
    AT(component, rkey_unpack);
    AT(component, rkey_ptr);
    AT(component, rkey_release);
#if UCX_RELEASE >= 118
    AT(component, rkey_compare);
#endif
    AT(component, md_config);
    AT(component, cm_config);
    AT(component, tl_list);
    AT(component, list);
    AT(component, flags);
    AT(component, md_vfs_init);

    SIZE(uct_tl_t);
    AT(uct_tl_t, name);
    AT(uct_tl_t, query_devices);
    AT(uct_tl_t, iface_open);
    AT(uct_tl_t, config);
    AT(uct_tl_t, list);

    SIZE(uct_md_ops_t);
    AT(uct_md_ops_t, close);
    AT(uct_md_ops_t, query);
    AT(uct_md_ops_t, mem_alloc);
    AT(uct_md_ops_t, mem_free);
    AT(uct_md_ops_t, mem_advise);
    AT(uct_md_ops_t, mem_reg);
    AT(uct_md_ops_t, mem_dereg);
    AT(uct_md_ops_t, mem_query);
    AT(uct_md_ops_t, mkey_pack);
    AT(uct_md_ops_t, detect_memory_type);
#if UCX_RELEASE >= 118
    AT(uct_md_ops_t, mem_attach);
#else
    AT(uct_md_ops_t, is_sockaddr_accessible);
#endif
#if UCX_RELEASE >= 123
    AT(uct_md_ops_t, mem_elem_pack);
    AT(uct_md_ops_t, mem_elem_release);
#endif
    SIZE(struct uct_md);
    AT(struct uct_md, ops);
    AT(struct uct_md, component);
    SIZE(struct uct_md_config);

    SIZE(uct_iface_internal_ops_t);
    AT(uct_iface_internal_ops_t, iface_estimate_perf);
    AT(uct_iface_internal_ops_t, iface_vfs_refresh);
    AT(uct_iface_internal_ops_t, ep_query);
    AT(uct_iface_internal_ops_t, ep_invalidate);
#if UCX_RELEASE >= 118
    AT(uct_iface_internal_ops_t, ep_connect_to_ep_v2);
    AT(uct_iface_internal_ops_t, iface_is_reachable_v2);
    AT(uct_iface_internal_ops_t, ep_is_connected);
#endif
#if UCX_RELEASE >= 123
    AT(uct_iface_internal_ops_t, iface_query_v2);
    AT(uct_iface_internal_ops_t, ep_get_device_ep);
    AT(uct_iface_internal_ops_t, ep_put_sgl_zcopy);
    AT(uct_iface_internal_ops_t, ep_get_sgl_zcopy);
    AT(uct_iface_internal_ops_t, ep_outstanding_purge);
#endif
    AT(uct_base_iface_t, internal_ops);
    AT(uct_base_iface_t, md);
    AT(uct_base_iface_t, worker);
    printf("uct_base_iface_t fits %d\n", sizeof(uct_base_iface_t) <= 2048 + 1024);
    SIZE(struct uct_iface_config);
    AT(struct uct_iface_config, failure);
    AT(struct uct_iface_config, max_num_eps);

    SIZE(uct_perf_attr_t);
    AT(uct_perf_attr_t, operation);
    AT(uct_perf_attr_t, local_memory_type);
    AT(uct_perf_attr_t, remote_memory_type);
    AT(uct_perf_attr_t, recv_overhead);
    AT(uct_perf_attr_t, bandwidth);
    AT(uct_perf_attr_t, latency);
    AT(uct_perf_attr_t, max_inflight_eps);
    VALUE(UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE);
    VALUE(UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE);
    VALUE(UCT_PERF_ATTR_FIELD_RECV_OVERHEAD);
    VALUE(UCT_PERF_ATTR_FIELD_BANDWIDTH);
    VALUE(UCT_PERF_ATTR_FIELD_LATENCY);
    VALUE(UCT_EP_OP_PUT_SHORT);
    VALUE(UCT_EP_OP_GET_SHORT);
    SIZE(uct_md_mem_dereg_params_t);
    AT(uct_md_mem_dereg_params_t, flags);
    AT(uct_md_mem_dereg_params_t, memh);
    AT(uct_md_mem_dereg_params_t, comp);
    VALUE(UCT_MD_MEM_DEREG_FIELD_MEMH);
    VALUE(UCT_MD_MEM_DEREG_FIELD_FLAGS);
    VALUE(UCT_MD_MEM_DEREG_FIELD_COMPLETION);
    VALUE(UCT_MD_MEM_DEREG_FLAG_INVALIDATE);
#if UCX_RELEASE >= 118
    VALUE(UCT_MD_FLAG_INVALIDATE_RMA);
    SIZE(uct_md_mem_reg_params_t);
    AT(uct_md_mem_reg_params_t, flags);
    SIZE(uct_iface_is_reachable_params_t);
    AT(uct_iface_is_reachable_params_t, device_addr);
    AT(uct_iface_is_reachable_params_t, iface_addr);
    VALUE(UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR);
    VALUE(UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR);
    SIZE(uct_ep_is_connected_params_t);
    AT(uct_ep_is_connected_params_t, iface_addr);
    VALUE(UCT_EP_IS_CONNECTED_FIELD_IFACE_ADDR);
    SIZE(uct_md_attr_v2_t);
    AT(uct_md_attr_v2_t, max_alloc);
    AT(uct_md_attr_v2_t, max_reg);
    AT(uct_md_attr_v2_t, flags);
    AT(uct_md_attr_v2_t, reg_mem_types);
    AT(uct_md_attr_v2_t, cache_mem_types);
    AT(uct_md_attr_v2_t, detect_mem_types);
    AT(uct_md_attr_v2_t, alloc_mem_types);
    AT(uct_md_attr_v2_t, access_mem_types);
    AT(uct_md_attr_v2_t, reg_cost);
    AT(uct_md_attr_v2_t, rkey_packed_size);
    AT(uct_md_attr_v2_t, local_cpus);
    AT(uct_md_attr_v2_t, reg_alignment);
#endif
#if UCX_RELEASE >= 123
    SIZE(uct_md_mem_attr_v2_t);
    AT(uct_md_mem_attr_v2_t, mem_type);
    AT(uct_md_mem_attr_v2_t, sys_dev);
    AT(uct_md_mem_attr_v2_t, base_address);
    AT(uct_md_mem_attr_v2_t, alloc_length);
    AT(uct_md_mem_attr_v2_t, mem_flags);
    VALUE(UCT_MD_MEM_ATTR_V2_FIELD_ALLOC_LENGTH);
    VALUE(UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS);
#endif
}

#if defined(UCX_SOURCE_TREE) || defined(FACTS_ONLY) /* nothing to run against */

int main(void) {
    print_facts();
    return 0;
}

#else

static int failures;

static void expect(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "FAILED: %s is not where it is expected\n", what);
        failures++;
    }
}
/* Functions of different types, as addresses. */
#define EXPECT_FUNCTION(member, function)                                                                              \
    expect((void (*)(void))(member) == (void (*)(void))(function), #function " in " #member)

static struct uct_component *find_self(void) {
    struct uct_component *component;
    ucs_list_for_each(component, &uct_components_list, list) {
        if (strcmp(component->name, "self") == 0) {
            return component;
        }
    }
    return NULL;
}

static uct_iface_h open_self(struct uct_component *self, uct_md_h md, uct_worker_h worker) {
    uct_iface_config_t *config = NULL;
    uct_iface_params_t params = {.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE,
                                 .open_mode = UCT_IFACE_OPEN_MODE_DEVICE,
                                 .mode.device = {.tl_name = "self", .dev_name = "memory"}};
    uct_iface_h iface = NULL;
    (void)self;
    if (uct_md_iface_config_read(md, "self", NULL, NULL, &config) != UCS_OK ||
        (uct_iface_open(md, worker, &params, config, &iface) != UCS_OK &&
         (params.mode.device.dev_name = "memory0", uct_iface_open(md, worker, &params, config, &iface) != UCS_OK))) {
        return NULL;
    }
    return iface;
}

static void check_running_library(void) {
    struct uct_component *self = find_self();
    uct_md_config_t *config = NULL;
    uct_md_h md = NULL;
    ucs_async_context_t *async = NULL;
    uct_worker_h worker = NULL;
    if (self == NULL || uct_md_config_read(self, NULL, NULL, &config) != UCS_OK ||
        uct_md_open(self, "self", config, &md) != UCS_OK ||
        ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async) != UCS_OK ||
        uct_worker_create(async, UCS_THREAD_MODE_SINGLE, &worker) != UCS_OK) {
        expect(0, "the component `self`");
        return;
    }
    EXPECT_FUNCTION(self->query_md_resources, uct_md_query_single_md_resource);
    EXPECT_FUNCTION(self->cm_open, ucs_empty_function_return_unsupported);
    EXPECT_FUNCTION(self->rkey_release, ucs_empty_function_return_success);
#if UCX_RELEASE >= 118
    EXPECT_FUNCTION(self->rkey_compare, uct_base_rkey_compare);
#endif
    EXPECT_FUNCTION(self->md_vfs_init, ucs_empty_function);
    expect(md->component == self, "component of a domain");
    EXPECT_FUNCTION(md->ops->close, ucs_empty_function);
    EXPECT_FUNCTION(md->ops->mkey_pack, ucs_empty_function_return_success);
    EXPECT_FUNCTION(md->ops->detect_memory_type, ucs_empty_function_return_unsupported);
#if UCX_RELEASE >= 118
    EXPECT_FUNCTION(md->ops->mem_attach, ucs_empty_function_return_unsupported);
#endif
    const uct_tl_t *tl = ucs_list_head(&self->tl_list, uct_tl_t, list);
    expect(strcmp(tl->name, "self") == 0 && strcmp(tl->config.prefix, "SELF_") == 0, "transport of a component");
    const uct_base_iface_t *iface = (uct_base_iface_t *)open_self(self, md, worker);
    if (iface == NULL) {
        expect(0, "an interface of `self`");
        return;
    }
    expect(iface->md == md, "domain of an interface");
    expect((void *)iface->worker == (void *)worker, "worker of an interface");
    EXPECT_FUNCTION(iface->internal_ops->iface_estimate_perf, uct_base_iface_estimate_perf);
    EXPECT_FUNCTION(iface->internal_ops->iface_vfs_refresh, ucs_empty_function);
    EXPECT_FUNCTION(iface->internal_ops->ep_query, ucs_empty_function_return_unsupported);
#if UCX_RELEASE >= 118
    EXPECT_FUNCTION(iface->internal_ops->ep_is_connected, uct_base_ep_is_connected);
#endif
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--facts") == 0) {
        print_facts();
        return 0;
    }
    check_running_library();
    return failures != 0;
}

#endif
