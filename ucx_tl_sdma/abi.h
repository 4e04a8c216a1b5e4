/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What libuct expects of a transport and its installed headers do not say: the component, the memory
 * domain's operations, the transport's entry and the interface's internal operations. These tables
 * change with every minor release of UCX while the library's name stays the same, so a binary serves one
 * release, and release.c makes sure of it at load. Only what is used here is declared; the order and the
 * sizes are UCX's, and test/ucx/layout.c compares them with the running library and with a source tree.
 *
 * Releases: 1.13 (Debian 12), 1.18 (Debian 13), 1.23.
 */
#ifndef UCX_TL_SDMA_ABI_H
#define UCX_TL_SDMA_ABI_H

#include <uct/api/uct.h>
#include <uct/api/version.h>

#include <ucs/config/parser.h>
#include <ucs/datastruct/list.h>
#include <ucs/sys/stubs.h>
#include <ucs/sys/topo/base/topo.h>
#include <ucs/sys/uid.h>
#include <ucs/type/class.h>

#define UCX_RELEASE (UCT_VERNO_MAJOR * 100 + UCT_VERNO_MINOR)
#if UCX_RELEASE != 113 && UCX_RELEASE != 118 && UCX_RELEASE != 123
#error "the private tables of this UCX release are not known"
#endif

/* ---- structures of the second interface (uct_v2.h) --------------------------------------------------- */

typedef enum {
    UCT_EP_OP_AM_SHORT,
    UCT_EP_OP_AM_BCOPY,
    UCT_EP_OP_AM_ZCOPY,
    UCT_EP_OP_PUT_SHORT,
    UCT_EP_OP_PUT_BCOPY,
    UCT_EP_OP_PUT_ZCOPY,
    UCT_EP_OP_GET_SHORT,
    UCT_EP_OP_GET_BCOPY,
    UCT_EP_OP_GET_ZCOPY
} uct_ep_operation_t;

enum {
    UCT_PERF_ATTR_FIELD_OPERATION = UCS_BIT(0),
    UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE = UCS_BIT(1),
    UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE = UCS_BIT(2),
    UCT_PERF_ATTR_FIELD_RECV_OVERHEAD = UCS_BIT(7),
    UCT_PERF_ATTR_FIELD_BANDWIDTH = UCS_BIT(8),
#if UCX_RELEASE >= 123
    UCT_PERF_ATTR_FIELD_PATH_BANDWIDTH = UCS_BIT(9),
    UCT_PERF_ATTR_FIELD_LATENCY = UCS_BIT(10),
#else
    UCT_PERF_ATTR_FIELD_LATENCY = UCS_BIT(9),
#endif
};

typedef struct uct_perf_attr {
    uint64_t field_mask;
    uct_ep_operation_t operation;
    ucs_memory_type_t local_memory_type;
    ucs_memory_type_t remote_memory_type;
    ucs_sys_device_t local_sys_device;
    ucs_sys_device_t remote_sys_device;
    double send_pre_overhead;
    double send_post_overhead;
    double recv_overhead;
    uct_ppn_bandwidth_t bandwidth;
#if UCX_RELEASE >= 123
    uct_ppn_bandwidth_t path_bandwidth;
#endif
    ucs_linear_func_t latency;
    size_t max_inflight_eps;
#if UCX_RELEASE >= 118
    uint64_t flags;
#endif
} uct_perf_attr_t;

enum {
    UCT_MD_MEM_DEREG_FIELD_MEMH = UCS_BIT(0),
    UCT_MD_MEM_DEREG_FIELD_FLAGS = UCS_BIT(1),
    UCT_MD_MEM_DEREG_FIELD_COMPLETION = UCS_BIT(2)
};
enum { UCT_MD_MEM_DEREG_FLAG_INVALIDATE = UCS_BIT(0) };

typedef struct uct_md_mem_dereg_params {
    uint64_t field_mask;
    unsigned flags;
    uct_mem_h memh;
    uct_completion_t *comp;
} uct_md_mem_dereg_params_t;

typedef struct uct_md_mkey_pack_params {
    uint64_t field_mask;
    unsigned flags;
} uct_md_mkey_pack_params_t;

#if UCX_RELEASE >= 118
enum { UCT_MD_MEM_REG_FIELD_FLAGS = UCS_BIT(0) };

typedef struct uct_md_mem_reg_params {
    uint64_t field_mask;
    uint64_t flags;
    int dmabuf_fd;
    size_t dmabuf_offset;
#if UCX_RELEASE >= 123
    ucs_memory_type_t mem_type;
#endif
} uct_md_mem_reg_params_t;

enum { UCT_IFACE_IS_REACHABLE_FIELD_DEVICE_ADDR = UCS_BIT(0), UCT_IFACE_IS_REACHABLE_FIELD_IFACE_ADDR = UCS_BIT(1) };

typedef struct uct_iface_is_reachable_params {
    uint64_t field_mask;
    const uct_device_addr_t *device_addr;
    const uct_iface_addr_t *iface_addr;
    char *info_string;
    size_t info_string_length;
    int scope;
    size_t device_addr_length;
    size_t iface_addr_length;
} uct_iface_is_reachable_params_t;

enum { UCT_EP_IS_CONNECTED_FIELD_DEVICE_ADDR = UCS_BIT(0), UCT_EP_IS_CONNECTED_FIELD_IFACE_ADDR = UCS_BIT(1) };

typedef struct uct_ep_is_connected_params {
    uint64_t field_mask;
    const uct_device_addr_t *device_addr;
    const uct_iface_addr_t *iface_addr;
    const uct_ep_addr_t *ep_addr;
} uct_ep_is_connected_params_t;

enum { UCT_MD_FLAG_INVALIDATE_RMA = UCS_BIT(11) };

typedef struct uct_md_attr_v2 {
    uint64_t field_mask;
    uint64_t max_alloc;
    size_t max_reg;
    uint64_t flags;
    uint64_t reg_mem_types;
    uint64_t reg_nonblock_mem_types;
    uint64_t cache_mem_types;
    uint64_t gva_mem_types;
    uint64_t detect_mem_types;
    uint64_t alloc_mem_types;
    uint64_t access_mem_types;
    uint64_t dmabuf_mem_types;
    ucs_linear_func_t reg_cost;
    char component_name[UCT_COMPONENT_NAME_MAX];
    size_t rkey_packed_size;
    ucs_cpu_set_t local_cpus;
    size_t exported_mkey_packed_size;
    char global_id[UCT_MD_GLOBAL_ID_MAX];
    size_t reg_alignment;
#if UCX_RELEASE >= 123
    uint8_t required_mem_flags;
#endif
} uct_md_attr_v2_t;
#endif

#if UCX_RELEASE >= 123
enum {
    UCT_MD_MEM_ATTR_V2_FIELD_MEM_TYPE = UCS_BIT(0),
    UCT_MD_MEM_ATTR_V2_FIELD_SYS_DEV = UCS_BIT(1),
    UCT_MD_MEM_ATTR_V2_FIELD_BASE_ADDRESS = UCS_BIT(2),
    UCT_MD_MEM_ATTR_V2_FIELD_ALLOC_LENGTH = UCS_BIT(3),
    UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS = UCS_BIT(6)
};

typedef struct uct_md_mem_attr_v2 {
    uint64_t field_mask;
    ucs_memory_type_t mem_type;
    ucs_sys_device_t sys_dev;
    void *base_address;
    size_t alloc_length;
    int dmabuf_fd;
    size_t dmabuf_offset;
    uint8_t mem_flags;
} uct_md_mem_attr_v2_t;
#endif

/* ---- component --------------------------------------------------------------------------------------- */

typedef struct uct_component uct_component_t;

struct uct_component {
    const char name[UCT_COMPONENT_NAME_MAX];
    ucs_status_t (*query_md_resources)(uct_component_t *component, uct_md_resource_desc_t **resources, unsigned *count);
    ucs_status_t (*md_open)(uct_component_t *component, const char *name, const uct_md_config_t *config, uct_md_h *md);
    ucs_status_t (*cm_open)(uct_component_t *component, uct_worker_h worker, const uct_cm_config_t *config,
                            uct_cm_h *cm);
#if UCX_RELEASE >= 123
    ucs_status_t (*rkey_unpack)(uct_component_t *component, const void *buffer, const void *params, uct_rkey_t *rkey,
                                void **handle);
#else
    ucs_status_t (*rkey_unpack)(uct_component_t *component, const void *buffer, uct_rkey_t *rkey, void **handle);
#endif
    ucs_status_t (*rkey_ptr)(uct_component_t *component, uct_rkey_t rkey, void *handle, uint64_t remote, void **local);
    ucs_status_t (*rkey_release)(uct_component_t *component, uct_rkey_t rkey, void *handle);
#if UCX_RELEASE >= 118
    ucs_status_t (*rkey_compare)(uct_component_t *component, uct_rkey_t first, uct_rkey_t second, const void *params,
                                 int *result);
#endif
    ucs_config_global_list_entry_t md_config;
    ucs_config_global_list_entry_t cm_config;
    ucs_list_link_t tl_list;
    ucs_list_link_t list;
    uint64_t flags;
    void (*md_vfs_init)(uct_md_h md);
};

typedef struct uct_tl_device_resource uct_tl_device_resource_t;

typedef struct uct_tl {
    char name[UCT_TL_NAME_MAX];
    ucs_status_t (*query_devices)(uct_md_h md, uct_tl_device_resource_t **devices, unsigned *count);
    ucs_status_t (*iface_open)(uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
                               const uct_iface_config_t *config, uct_iface_h *iface);
    ucs_config_global_list_entry_t config;
    ucs_list_link_t list;
} uct_tl_t;

extern ucs_list_link_t uct_components_list;
void uct_component_register(uct_component_t *component);
void uct_tl_register(uct_component_t *component, uct_tl_t *tl);
ucs_status_t uct_md_query_single_md_resource(uct_component_t *component, uct_md_resource_desc_t **resources,
                                             unsigned *count);
ucs_status_t uct_single_device_resource(uct_md_h md, const char *name, uct_device_type_t type,
                                        ucs_sys_device_t sys_device, uct_tl_device_resource_t **devices,
                                        unsigned *count);

/* ---- memory domain ----------------------------------------------------------------------------------- */

struct uct_md_ops {
    void (*close)(uct_md_h md);
#if UCX_RELEASE >= 118
    ucs_status_t (*query)(uct_md_h md, uct_md_attr_v2_t *attr);
#else
    ucs_status_t (*query)(uct_md_h md, uct_md_attr_t *attr);
#endif
#if UCX_RELEASE >= 123
    ucs_status_t (*mem_alloc)(uct_md_h md, size_t *length, void **address, ucs_memory_type_t type,
                              ucs_sys_device_t sys_dev, unsigned flags, const char *name, uct_mem_h *memh);
#else
    ucs_status_t (*mem_alloc)(uct_md_h md, size_t *length, void **address, ucs_memory_type_t type, unsigned flags,
                              const char *name, uct_mem_h *memh);
#endif
    ucs_status_t (*mem_free)(uct_md_h md, uct_mem_h memh);
    void (*mem_advise)(void);
#if UCX_RELEASE >= 118
    ucs_status_t (*mem_reg)(uct_md_h md, void *address, size_t length, const uct_md_mem_reg_params_t *params,
                            uct_mem_h *memh);
#else
    ucs_status_t (*mem_reg)(uct_md_h md, void *address, size_t length, unsigned flags, uct_mem_h *memh);
#endif
    ucs_status_t (*mem_dereg)(uct_md_h md, const uct_md_mem_dereg_params_t *params);
#if UCX_RELEASE >= 123
    ucs_status_t (*mem_query)(uct_md_h md, const void *address, size_t length, uct_md_mem_attr_v2_t *attr);
#else
    ucs_status_t (*mem_query)(uct_md_h md, const void *address, size_t length, uct_md_mem_attr_t *attr);
#endif
#if UCX_RELEASE >= 118
    ucs_status_t (*mkey_pack)(uct_md_h md, uct_mem_h memh, void *address, size_t length,
                              const uct_md_mkey_pack_params_t *params, void *buffer);
    ucs_status_t (*mem_attach)(uct_md_h md, const void *buffer, void *params, uct_mem_h *memh);
#else
    ucs_status_t (*mkey_pack)(uct_md_h md, uct_mem_h memh, const uct_md_mkey_pack_params_t *params, void *buffer);
    int (*is_sockaddr_accessible)(uct_md_h md, const void *address, int mode);
#endif
    ucs_status_t (*detect_memory_type)(uct_md_h md, const void *address, size_t length, ucs_memory_type_t *type);
#if UCX_RELEASE >= 123
    ucs_status_t (*mem_elem_pack)(uct_md_h md, uct_mem_h memh, uct_rkey_t rkey, void *element, void **release);
    void (*mem_elem_release)(uct_md_h md, void *release);
#endif
};

struct uct_md {
    uct_md_ops_t *ops;
    uct_component_t *component;
};

struct uct_md_config {
    char empty;
};

extern ucs_config_field_t uct_md_config_table[];

/* ---- interface --------------------------------------------------------------------------------------- */

typedef struct uct_iface_internal_ops {
#if UCX_RELEASE >= 123
    ucs_status_t (*iface_query_v2)(uct_iface_h iface, void *attr);
#endif
    ucs_status_t (*iface_estimate_perf)(uct_iface_h iface, uct_perf_attr_t *attr);
    void (*iface_vfs_refresh)(uct_iface_h iface);
    ucs_status_t (*ep_query)(uct_ep_h ep, uct_ep_attr_t *attr);
#if UCX_RELEASE >= 123
    ucs_status_t (*ep_invalidate)(uct_ep_h ep, const void *params);
#else
    ucs_status_t (*ep_invalidate)(uct_ep_h ep, unsigned flags);
#endif
#if UCX_RELEASE >= 118
    ucs_status_t (*ep_connect_to_ep_v2)(uct_ep_h ep, const uct_device_addr_t *device_addr, const uct_ep_addr_t *ep_addr,
                                        const void *params);
    int (*iface_is_reachable_v2)(const uct_iface_h iface, const uct_iface_is_reachable_params_t *params);
    int (*ep_is_connected)(uct_ep_h ep, const uct_ep_is_connected_params_t *params);
#endif
#if UCX_RELEASE >= 123
    ucs_status_t (*ep_get_device_ep)(uct_ep_h ep, void *device_ep);
    void (*ep_put_sgl_zcopy)(void);
    void (*ep_get_sgl_zcopy)(void);
    ucs_status_t (*ep_outstanding_purge)(uct_ep_h ep, const void *params);
#endif
} uct_iface_internal_ops_t;

/* The rest is libuct's; its constructor fills it (1,280 bytes in all three releases). */
typedef struct uct_base_iface {
    uct_iface_t super;
    uct_iface_internal_ops_t *internal_ops;
    uct_md_h md;
    struct uct_priv_worker *worker;
    char libuct[2048];
} uct_base_iface_t;

UCS_CLASS_DECLARE(uct_base_iface_t, uct_iface_ops_t *, uct_iface_internal_ops_t *, uct_md_h, uct_worker_h,
                  const uct_iface_params_t *, const uct_iface_config_t *)

struct uct_iface_config {
    struct {
        uct_alloc_method_t *methods;
        unsigned count;
    } alloc_methods;
    int failure;
    size_t max_num_eps;
};

extern ucs_config_field_t uct_iface_config_table[];
void uct_base_iface_query(uct_base_iface_t *iface, uct_iface_attr_t *attr);
ucs_status_t uct_base_iface_estimate_perf(uct_iface_h iface, uct_perf_attr_t *attr);
void uct_base_iface_progress_enable(uct_iface_h iface, unsigned flags);
void uct_base_iface_progress_disable(uct_iface_h iface, unsigned flags);
ucs_status_t uct_iface_handle_ep_err(uct_iface_h iface, uct_ep_h ep, ucs_status_t status);
#if UCX_RELEASE >= 118
int uct_base_iface_is_reachable(const uct_iface_h iface, const uct_device_addr_t *device_addr,
                                const uct_iface_addr_t *iface_addr);
int uct_iface_scope_is_reachable(const uct_iface_h iface, const uct_iface_is_reachable_params_t *params);
void uct_iface_fill_info_str_buf(const uct_iface_is_reachable_params_t *params, const char *format, ...);
int uct_base_ep_is_connected(const uct_ep_h ep, const uct_ep_is_connected_params_t *params);
ucs_status_t uct_base_rkey_compare(uct_component_t *component, uct_rkey_t first, uct_rkey_t second, const void *params,
                                   int *result);
#endif
#if UCX_RELEASE >= 123
ucs_status_t uct_iface_base_query_v2(uct_iface_h iface, void *attr);
#endif

#endif
