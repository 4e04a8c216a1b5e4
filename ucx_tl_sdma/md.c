/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The memory domain: registration, keys, memory types. Whatever cannot be served is registered all the same, as
 * memory of no kind: its key says so, the peer's UCP finds it unreachable here and takes another transport. An
 * error would end ucp_mem_map for all transports.
 */
#include "ucx_tl_sdma/tl.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#define KEY_MAGIC 0x53444b31u /* "SDK1" */

#define MEMORY_TYPES (UCS_BIT(UCS_MEMORY_TYPE_HOST) | UCS_BIT(UCS_MEMORY_TYPE_ROCM))

/* ---- registration ------------------------------------------------------------------------------------ */

/* UCP rounds ranges up to whole pages, which may be beyond the end of a small allocation: then as much as there is. */
static sdma_status_t export_memory(void *address, size_t bytes, sdma_memory_t **memory, sdma_reason_t *reason) {
    sdma_status_t status = sdma_memory_register(address, bytes, 1, memory, reason);
    size_t fits = 0, beyond = bytes;
    while (*memory == NULL && *reason == SDMA_REASON_too_large && beyond - fits > 1) {
        const size_t half = fits + (beyond - fits) / 2;
        if (sdma_memory_register(address, half, 1, memory, reason) == SDMA_OK) {
            sdma_memory_release(*memory);
            *memory = NULL;
            *reason = SDMA_REASON_too_large;
            fits = half;
        } else {
            beyond = half;
        }
    }
    return status != SDMA_OK && fits > 0 ? sdma_memory_register(address, fits, 1, memory, reason) : status;
}

static ucs_status_t register_memory(void *address, size_t bytes, uct_mem_h *made) {
    tl_memh_t *memh = calloc(1, sizeof(*memh));
    if (memh == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memh->base = address;
    memh->bytes = bytes;
    memh->kind = TL_MEMORY_HOST;
    if (sdma_is_device(address)) {
        sdma_memory_t *memory = NULL;
        sdma_reason_t reason = SDMA_REASON_none;
        memh->kind = TL_MEMORY_DEVICE;
        if (export_memory(address, bytes, &memory, &reason) != SDMA_OK) {
            ucs_debug("sdma: %zu bytes at %p are not for peers: %s", bytes, address, sdma_reason_text(reason));
            memh->kind = TL_MEMORY_NONE;
        }
        atomic_init(&memh->memory, memory);
    }
    *made = memh;
    return UCS_OK;
}

#if UCX_RELEASE >= 118
static ucs_status_t mem_reg(uct_md_h md, void *address, size_t bytes, const uct_md_mem_reg_params_t *params,
                            uct_mem_h *memh) {
    (void)md, (void)params;
    return register_memory(address, bytes, memh);
}
#else
static ucs_status_t mem_reg(uct_md_h md, void *address, size_t bytes, unsigned flags, uct_mem_h *memh) {
    (void)md, (void)flags;
    return register_memory(address, bytes, memh);
}
#endif

void tl_memh_pin(tl_memh_t *memh) {
    if (memh->kind != TL_MEMORY_HOST || atomic_load(&memh->memory) != NULL) {
        return;
    }
    sdma_memory_t *memory = NULL, *none = NULL;
    sdma_reason_t reason = SDMA_REASON_none;
    if (sdma_memory_register(memh->base, memh->bytes, 0, &memory, &reason) == SDMA_OK &&
        !atomic_compare_exchange_strong(&memh->memory, &none, memory)) {
        sdma_memory_release(memory);
    }
}

static ucs_status_t deregister(tl_memh_t *memh) {
    sdma_memory_t *memory = atomic_load(&memh->memory);
    if (memory != NULL) {
        sdma_memory_release(memory);
    }
    free(memh);
    return UCS_OK;
}

#if UCX_RELEASE >= 118
/* UCP's completion is on its stack and may not be touched after the return, so peers are waited for here. Without
 * invalidation UCP would not take us for endpoints with error handling at all.
 * A peer that looks drops its mapping at once, or when what its engines have has ended; one that died has none. After
 * the hardware timeout its engines are at rest or declared faulty, and only one that has not looked at all is left:
 * it still maps the memory, and may yet issue what it had queued when the memory was taken back, but nothing new.
 * Then the completion's status says that the invalidation is not complete, and so does the log: UCP, which is
 * already failing the request, looks at neither. */
static ucs_status_t invalidate(tl_md_t *md, tl_memh_t *memh, uct_completion_t *comp) {
    (void)md;
    ucs_status_t status = UCS_OK;
    if (memh->kind == TL_MEMORY_DEVICE) {
        sdma_memory_t *memory = atomic_load(&memh->memory);
        sdma_memory_invalidate(memory);
        if (!sdma_memory_await_unreachable(memory)) {
            ucs_warn("sdma: %zu bytes at %p are taken back, but a process that makes no progress still maps them",
                     memh->bytes, memh->base);
            status = UCS_ERR_TIMED_OUT;
        }
    }
    deregister(memh);
    tl_complete(comp, status);
    return UCS_OK;
}
#else
/* Peers drop their mappings in their own time: the completion, which is part of UCP's request, waits for the last. */
static ucs_status_t invalidate(tl_md_t *md, tl_memh_t *memh, uct_completion_t *comp) {
    if (memh->kind == TL_MEMORY_DEVICE) {
        sdma_memory_invalidate(atomic_load(&memh->memory));
    }
    memh->invalidated = comp;
    pthread_mutex_lock(&md->lock);
    ucs_list_add_tail(&md->invalid, &memh->link);
    pthread_mutex_unlock(&md->lock);
    bool left;
    tl_md_progress(md, &left);
    return UCS_OK;
}

/* Host memory: the kernel copies at once, and only while the peer is in the call. */
static bool reachable(const tl_memh_t *memh) {
    return memh->kind == TL_MEMORY_DEVICE && sdma_memory_reachable(atomic_load(&memh->memory));
}

unsigned tl_md_progress(tl_md_t *md, bool *left) {
    ucs_list_link_t ended;
    ucs_list_head_init(&ended);
    pthread_mutex_lock(&md->lock);
    tl_memh_t *memh, *next;
    ucs_list_for_each_safe(memh, next, &md->invalid, link) {
        if (!reachable(memh)) {
            ucs_list_del(&memh->link);
            ucs_list_add_tail(&ended, &memh->link);
        }
    }
    *left = !ucs_list_is_empty(&md->invalid);
    pthread_mutex_unlock(&md->lock);
    unsigned count = 0;
    while (!ucs_list_is_empty(&ended)) {
        memh = ucs_list_head(&ended, tl_memh_t, link);
        ucs_list_del(&memh->link);
        uct_completion_t *comp = memh->invalidated;
        deregister(memh);
        tl_complete(comp, UCS_OK);
        count++;
    }
    return count;
}
#endif

static ucs_status_t mem_dereg(uct_md_h md, const uct_md_mem_dereg_params_t *params) {
    if (!(params->field_mask & UCT_MD_MEM_DEREG_FIELD_MEMH) || params->memh == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (!(params->field_mask & UCT_MD_MEM_DEREG_FIELD_FLAGS) || !(params->flags & UCT_MD_MEM_DEREG_FLAG_INVALIDATE)) {
        return deregister(params->memh);
    }
    if (!(params->field_mask & UCT_MD_MEM_DEREG_FIELD_COMPLETION) || params->comp == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    return invalidate((tl_md_t *)md, params->memh, params->comp);
}

/* GPU memory of the application's own runtime, for those who ask UCP for some. */
#if UCX_RELEASE >= 123
static ucs_status_t mem_alloc(uct_md_h md, size_t *length, void **address, ucs_memory_type_t type,
                              ucs_sys_device_t sys_dev, unsigned flags, const char *name, uct_mem_h *memh) {
    (void)sys_dev;
#else
static ucs_status_t mem_alloc(uct_md_h md, size_t *length, void **address, ucs_memory_type_t type, unsigned flags,
                              const char *name, uct_mem_h *memh) {
#endif
    (void)md, (void)name;
    if (type != UCS_MEMORY_TYPE_ROCM || (flags & UCT_MD_MEM_FLAG_FIXED)) {
        return UCS_ERR_UNSUPPORTED;
    }
    void *memory = NULL;
    if (sdma_device_allocate(*length, &memory) != SDMA_OK) {
        return UCS_ERR_NO_MEMORY;
    }
    const ucs_status_t status = register_memory(memory, *length, memh);
    if (status != UCS_OK) {
        sdma_device_free(memory);
        return status;
    }
    *address = memory;
    return UCS_OK;
}

static ucs_status_t mem_free(uct_md_h md, uct_mem_h tl_memh) {
    (void)md;
    void *memory = ((tl_memh_t *)tl_memh)->base;
    const ucs_status_t status = deregister(tl_memh);
    sdma_device_free(memory);
    return status;
}

/* ---- keys -------------------------------------------------------------------------------------------- */

/* An invalidation retires the whole allocation, also for memory handles of it that UCP keeps and goes on to use:
 * those are registered anew when a key is asked for. False: they cannot be. */
static bool device_key(tl_md_t *md, tl_memh_t *memh, sdma_key_t *key) {
    pthread_mutex_lock(&md->lock);
    sdma_memory_t *memory = atomic_load(&memh->memory), *again = NULL;
    bool good = !sdma_memory_retired(memory);
    if (!good) {
        sdma_reason_t reason = SDMA_REASON_none;
        good = export_memory(memh->base, memh->bytes, &again, &reason) == SDMA_OK;
        if (good) {
            atomic_store(&memh->memory, again);
            sdma_memory_release(memory);
            memory = again;
        } else {
            ucs_debug("sdma: %zu bytes at %p, taken back before, are not for peers: %s", memh->bytes, memh->base,
                      sdma_reason_text(reason));
        }
    }
    if (good) {
        sdma_memory_key(memory, key);
    }
    pthread_mutex_unlock(&md->lock);
    return good;
}

static ucs_status_t pack_key(uct_md_h tl_md, uct_mem_h tl_memh, void *buffer) {
    tl_md_t *md = (tl_md_t *)tl_md;
    tl_memh_t *memh = tl_memh;
    tl_key_t key = {.magic = KEY_MAGIC,
                    .kind = memh->kind,
                    .base = (uintptr_t)memh->base,
                    .bytes = memh->bytes,
                    .pid = (uint64_t)getpid()};
    if (memh->kind == TL_MEMORY_DEVICE) {
        key.kind = device_key(md, memh, &key.key) ? TL_MEMORY_DEVICE : TL_MEMORY_NONE;
    } else if (!md->host_open) {
        key.kind = TL_MEMORY_NONE;
    }
    memcpy(buffer, &key, sizeof(key));
    return UCS_OK;
}

#if UCX_RELEASE >= 118
static ucs_status_t mkey_pack(uct_md_h md, uct_mem_h memh, void *address, size_t length,
                              const uct_md_mkey_pack_params_t *params, void *buffer) {
    (void)address, (void)length, (void)params;
    return pack_key(md, memh, buffer);
}
#else
static ucs_status_t mkey_pack(uct_md_h md, uct_mem_h memh, const uct_md_mkey_pack_params_t *params, void *buffer) {
    (void)params;
    return pack_key(md, memh, buffer);
}
#endif

ucs_status_t tl_key_unpack(const void *buffer, uct_rkey_t *rkey, void **handle) {
    tl_key_t key;
    memcpy(&key, buffer, sizeof(key));
    if (key.magic != KEY_MAGIC || (key.kind != TL_MEMORY_DEVICE && key.kind != TL_MEMORY_HOST)) {
        return UCS_ERR_UNREACHABLE;
    }
    tl_key_t *copy = malloc(sizeof(*copy));
    if (copy == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *copy = key;
    *rkey = (uct_rkey_t)copy;
    *handle = copy;
    return UCS_OK;
}

/* ---- memory types ------------------------------------------------------------------------------------ */

#if UCX_RELEASE >= 123
static ucs_status_t mem_query(uct_md_h md, const void *address, size_t length, uct_md_mem_attr_v2_t *attr) {
    enum {
        TYPE = UCT_MD_MEM_ATTR_V2_FIELD_MEM_TYPE,
        SYS_DEV = UCT_MD_MEM_ATTR_V2_FIELD_SYS_DEV,
        BASE = UCT_MD_MEM_ATTR_V2_FIELD_BASE_ADDRESS,
        BYTES = UCT_MD_MEM_ATTR_V2_FIELD_ALLOC_LENGTH,
        FLAGS = UCT_MD_MEM_ATTR_V2_FIELD_MEM_FLAGS
    };
#else
static ucs_status_t mem_query(uct_md_h md, const void *address, size_t length, uct_md_mem_attr_t *attr) {
    enum {
        TYPE = UCT_MD_MEM_ATTR_FIELD_MEM_TYPE,
        SYS_DEV = UCT_MD_MEM_ATTR_FIELD_SYS_DEV,
        BASE = UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS,
        BYTES = UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH
    };
#endif
    (void)md;
    if (!sdma_is_device(address)) {
        return UCS_ERR_INVALID_ADDR;
    }
    if (attr->field_mask & TYPE) {
        attr->mem_type = UCS_MEMORY_TYPE_ROCM;
    }
    if (attr->field_mask & SYS_DEV) {
        attr->sys_dev = UCS_SYS_DEVICE_ID_UNKNOWN;
    }
    if (attr->field_mask & BASE) {
        attr->base_address = (void *)(uintptr_t)address;
    }
    if (attr->field_mask & BYTES) {
        attr->alloc_length = length;
    }
#if UCX_RELEASE >= 123
    if (attr->field_mask & FLAGS) {
        attr->mem_flags = 0;
    }
#endif
    return UCS_OK;
}

static ucs_status_t detect_memory_type(uct_md_h md, const void *address, size_t length, ucs_memory_type_t *type) {
    (void)md, (void)length;
    if (!sdma_is_device(address)) {
        return UCS_ERR_INVALID_ADDR;
    }
    *type = UCS_MEMORY_TYPE_ROCM;
    return UCS_OK;
}

/* UCX asks its cache of memory types first and takes what is not in it for host memory; only UCX's own module for
 * ROCm fills it. Without that module UCX asks us, at each operation, once the cache is off. */
static void ask_us_for_memory_types(void) {
    if (ucs_global_opts.enable_memtype_cache == UCS_TRY) {
        ucs_global_opts.enable_memtype_cache = UCS_NO;
    }
}

static bool rocm_transport_is_here(void) {
    uct_component_t *component;
    ucs_list_for_each(component, &uct_components_list, list) {
        if (strcmp(component->name, "rocm_cpy") == 0) {
            return true;
        }
    }
    return false;
}

/* ---- the domain -------------------------------------------------------------------------------------- */

#if UCX_RELEASE >= 118
static ucs_status_t query(uct_md_h tl_md, uct_md_attr_v2_t *attr) {
    const tl_md_t *md = (tl_md_t *)tl_md;
    const uint64_t asked = attr->field_mask;
    memset(attr, 0, sizeof(*attr));
    attr->field_mask = asked;
    attr->max_reg = ULONG_MAX;
    attr->flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY | UCT_MD_FLAG_INVALIDATE |
                  UCT_MD_FLAG_INVALIDATE_RMA;
    if (md->copier) {
        attr->flags |= UCT_MD_FLAG_ALLOC;
        attr->alloc_mem_types = UCS_BIT(UCS_MEMORY_TYPE_ROCM);
        attr->max_alloc = ULONG_MAX;
    }
    attr->reg_mem_types = MEMORY_TYPES;
    attr->cache_mem_types = MEMORY_TYPES;
    attr->detect_mem_types = md->copier ? UCS_BIT(UCS_MEMORY_TYPE_ROCM) : 0;
    attr->access_mem_types = md->copier ? UCS_BIT(UCS_MEMORY_TYPE_ROCM) : 0;
    attr->reg_cost = md->reg_cost;
    attr->rkey_packed_size = sizeof(tl_key_t);
    attr->reg_alignment = 1;
    memset(&attr->local_cpus, 0xff, sizeof(attr->local_cpus));
    return UCS_OK;
}
#else
static ucs_status_t query(uct_md_h tl_md, uct_md_attr_t *attr) {
    const tl_md_t *md = (tl_md_t *)tl_md;
    memset(attr, 0, sizeof(*attr));
    attr->cap.max_reg = ULONG_MAX;
    attr->cap.flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY | UCT_MD_FLAG_INVALIDATE;
    if (md->copier) {
        attr->cap.flags |= UCT_MD_FLAG_ALLOC;
        attr->cap.alloc_mem_types = UCS_BIT(UCS_MEMORY_TYPE_ROCM);
        attr->cap.max_alloc = ULONG_MAX;
    }
    attr->cap.reg_mem_types = MEMORY_TYPES;
    attr->cap.detect_mem_types = md->copier ? UCS_BIT(UCS_MEMORY_TYPE_ROCM) : 0;
    attr->cap.access_mem_types = md->copier ? UCS_BIT(UCS_MEMORY_TYPE_ROCM) : 0;
    attr->reg_cost = md->reg_cost;
    attr->rkey_packed_size = sizeof(tl_key_t);
    memset(&attr->local_cpus, 0xff, sizeof(attr->local_cpus));
    return UCS_OK;
}
#endif

static void md_close(uct_md_h tl_md) {
    tl_md_t *md = (tl_md_t *)tl_md;
    if (md->has_address) {
        sdma_address_release();
    }
    pthread_mutex_destroy(&md->lock);
    free(md);
}

static uct_md_ops_t md_ops = {
    .close = md_close,
    .query = query,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .mem_advise = (void *)ucs_empty_function_return_unsupported,
    .mem_reg = mem_reg,
    .mem_dereg = mem_dereg,
    .mem_query = mem_query,
    .mkey_pack = mkey_pack,
#if UCX_RELEASE >= 118
    .mem_attach = (void *)ucs_empty_function_return_unsupported,
#else
    .is_sockaddr_accessible = (void *)ucs_empty_function_return_zero_int,
#endif
    .detect_memory_type = detect_memory_type,
#if UCX_RELEASE >= 123
    .mem_elem_pack = (void *)ucs_empty_function_return_unsupported,
    .mem_elem_release = (void *)ucs_empty_function,
#endif
};

bool tl_md_take_address(tl_md_t *md) {
    sdma_reason_t reason = SDMA_REASON_none;
    if (!md->has_address && sdma_address(&md->address, &reason) != SDMA_OK) {
        ucs_debug("sdma: not used: %s", sdma_reason_text(reason));
        return false;
    }
    md->has_address = true;
    return true;
}

/* A process without a GPU runtime has nothing for us to move: UCX chooses among its own transports. */
ucs_status_t tl_query_devices(uct_md_h tl_md, uct_tl_device_resource_t **devices, unsigned *count) {
    tl_md_t *md = (tl_md_t *)tl_md;
    if (!md->always && !sdma_runtime_loaded()) {
        return UCS_ERR_NO_DEVICE;
    }
    if (!tl_md_take_address(md)) {
        return UCS_ERR_NO_DEVICE;
    }
    return uct_single_device_resource(tl_md, TL_DEVICE, UCT_DEVICE_TYPE_SHM, UCS_SYS_DEVICE_ID_UNKNOWN, devices, count);
}

ucs_status_t tl_md_open(uct_component_t *component, const char *name, const uct_md_config_t *config, uct_md_h *made) {
    (void)name;
    const tl_md_config_t *settings = (const tl_md_config_t *)config;
    tl_md_t *md = calloc(1, sizeof(*md));
    if (md == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    tl_apply_layer_params(settings);
    pthread_mutex_init(&md->lock, NULL);
#if UCX_RELEASE < 118
    ucs_list_head_init(&md->invalid);
#endif
    md->super.ops = &md_ops;
    md->super.component = component;
    md->copier = !rocm_transport_is_here();
    md->always = settings->always != 0;
    md->host_open = tl_host_open();
    md->reg_cost = ucs_linear_func_make(settings->reg_overhead, 0);
    if (md->copier) {
        ask_us_for_memory_types();
    }
    *made = &md->super;
    return UCS_OK;
}
