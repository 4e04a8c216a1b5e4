/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Host memory of a peer. SDMA engines reach no other process's host memory, but UCP wants a transport that
 * copies between memory types to serve both, and in 1.13 takes every buffer for host memory when it chooses
 * one. So these bytes are copied by the kernel, at once, as UCX's `cma` does it.
 */
#include "ucx_tl_sdma/tl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

bool tl_host_open(void) {
    int scope = 0;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file != NULL) {
        if (fscanf(file, "%d", &scope) != 1) {
            scope = 3;
        }
        fclose(file);
    }
    return scope == 0 || (scope == 1 && prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0);
}

static ucs_status_t failed(tl_ep_t *ep, bool get, uint64_t remote, size_t bytes) {
    ucs_debug("sdma: %s of %zu bytes at 0x%lx of process %lu: %s", get ? "get" : "put", bytes, remote, ep->peer.pid,
              strerror(errno));
    switch (errno) {
    case ESRCH:
        tl_ep_fail_later(ep);
        return UCS_ERR_ENDPOINT_TIMEOUT;
    case EFAULT:
        return UCS_ERR_INVALID_ADDR;
    default:
        return UCS_ERR_IO_ERROR;
    }
}

static ucs_status_t copy(tl_ep_t *ep, bool get, void *local, uint64_t remote, size_t bytes) {
    while (bytes > 0) {
        struct iovec here = {local, bytes};
        struct iovec there = {(void *)(uintptr_t)remote, bytes};
        const ssize_t done = get ? process_vm_readv((pid_t)ep->peer.pid, &here, 1, &there, 1, 0)
                                 : process_vm_writev((pid_t)ep->peer.pid, &here, 1, &there, 1, 0);
        if (done <= 0) {
            return failed(ep, get, remote, bytes);
        }
        local = (char *)local + done;
        remote += (uint64_t)done;
        bytes -= (size_t)done;
    }
    return UCS_OK;
}

ucs_status_t tl_host_copy(tl_ep_t *ep, bool get, void *local, uint64_t remote, size_t bytes) {
    /* Its pid may be another process's by now. */
    if (!ep->own && !sdma_line_alive(ep->line)) {
        tl_ep_fail_later(ep);
        return UCS_ERR_ENDPOINT_TIMEOUT;
    }
    if (!sdma_is_device(local)) {
        return copy(ep, get, local, remote, bytes);
    }
    char *staging = malloc(bytes);
    if (staging == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    ucs_status_t status = UCS_OK;
    if (!get && sdma_copy(staging, local, bytes) != SDMA_OK) {
        status = UCS_ERR_IO_ERROR;
    }
    if (status == UCS_OK) {
        status = copy(ep, get, staging, remote, bytes);
    }
    if (get && status == UCS_OK && sdma_copy(local, staging, bytes) != SDMA_OK) {
        status = UCS_ERR_IO_ERROR;
    }
    free(staging);
    return status;
}
