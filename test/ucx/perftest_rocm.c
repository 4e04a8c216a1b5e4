/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GPU memory for `ucx_perftest -m rocm` where UCX has no module of its own for it (Debian 12): preload this.
 * PERFTEST_GPU: which GPU, default 0. The table and its rows are ucx_perftest's, which exports the table; the
 * domain to register with is the last one that it opened.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hip/hip_runtime_api.h>
#include <uct/api/uct.h>

typedef struct allocator {
    ucs_memory_type_t type;
    ucs_status_t (*init)(void *perf);
    ucs_status_t (*alloc)(const void *perf, size_t length, unsigned flags, uct_allocated_memory_t *memory);
    void (*free)(const void *perf, uct_allocated_memory_t *memory);
    void (*copy)(void *dst, ucs_memory_type_t dst_type, const void *src, ucs_memory_type_t src_type, size_t count);
    void *(*set)(void *dst, int value, size_t count);
} allocator_t;

extern const allocator_t *ucx_perf_mem_type_allocators[] __attribute__((weak));

static uct_md_h domain;

static int must(hipError_t status, const char *what) {
    if (hipSuccess != status) {
        fprintf(stderr, "%s: %s\n", what, hipGetErrorString(status));
        exit(1);
    }
    return 0;
}

ucs_status_t uct_md_open(uct_component_h component, const char *name, const uct_md_config_t *config, uct_md_h *md) {
    ucs_status_t (*real)(uct_component_h, const char *, const uct_md_config_t *, uct_md_h *);
    *(void **)&real = dlsym(RTLD_NEXT, "uct_md_open");
    const ucs_status_t status = real(component, name, config, md);
    if (UCS_OK == status) {
        domain = *md;
    }
    return status;
}

static ucs_status_t init(void *perf) {
    (void)perf;
    const char *gpu = getenv("PERFTEST_GPU");
    must(hipSetDevice(gpu ? atoi(gpu) : 0), "hipSetDevice");
    return UCS_OK;
}

static ucs_status_t alloc(const void *perf, size_t length, unsigned flags, uct_allocated_memory_t *memory) {
    (void)perf;
    must(hipMalloc(&memory->address, length), "hipMalloc");
    memory->length = length;
    memory->mem_type = UCS_MEMORY_TYPE_ROCM;
    memory->md = domain;
    return uct_md_mem_reg(domain, memory->address, length, flags, &memory->memh);
}

static void release(const void *perf, uct_allocated_memory_t *memory) {
    (void)perf;
    uct_md_mem_dereg(memory->md, memory->memh);
    must(hipFree(memory->address), "hipFree");
}

static void copy(void *dst, ucs_memory_type_t dst_type, const void *src, ucs_memory_type_t src_type, size_t count) {
    (void)dst_type, (void)src_type;
    must(hipMemcpy(dst, src, count, hipMemcpyDefault), "hipMemcpy");
}

static void *set(void *dst, int value, size_t count) {
    void *bytes = malloc(count);
    memset(bytes, value, count);
    must(hipMemcpy(dst, bytes, count, hipMemcpyDefault), "hipMemcpy");
    free(bytes);
    return dst;
}

__attribute__((constructor)) static void offer(void) {
    static const allocator_t rocm = {UCS_MEMORY_TYPE_ROCM, init, alloc, release, copy, set};
    if (ucx_perf_mem_type_allocators) {
        ucx_perf_mem_type_allocators[UCS_MEMORY_TYPE_ROCM] = &rocm;
    }
}
