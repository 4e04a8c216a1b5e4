// SPDX-License-Identifier: BSD-3-Clause
//
// The C interface of teams and collectives.
#include "sdma.h"

#include <cstring>
#include <new>

#include "gpu/application.hpp"
#include "op/describe.hpp"
#include "op/op.hpp"
#include "process.hpp"

using namespace sdma;

struct sdma_team {
    sdma_team(const sdma_bootstrap_t &bootstrap)
        : refused(hold.context.faulted() ? SDMA_REASON_fault : SDMA_REASON_none),
          team(hold.context.memory(), bootstrap, refused) {}

    Hold hold;
    const sdma_reason_t refused;
    team::Team team;
    bool added = false;
};

struct sdma_op {
    op::Op op;
};

namespace {

std::shared_ptr<gpu::Runtime> running_runtime() {
    sdma_reason_t reason;
    return gpu::runtime_loaded() ? gpu::open_runtime(reason) : nullptr;
}

} // namespace

extern "C" {

sdma_status_t sdma_team_start(const sdma_bootstrap_t *bootstrap, sdma_team_t **team) {
    *team = nullptr;
    return guarded(SDMA_ERROR, [&] {
        *team = new sdma_team(*bootstrap);
        return (*team)->refused == SDMA_REASON_none && bootstrap->size > 1 ? SDMA_OK : SDMA_DECLINED;
    });
}

sdma_status_t sdma_team_test(sdma_team_t *team) {
    return guarded(SDMA_ERROR, [&] {
        const sdma_status_t status = team->team.test();
        if (status == SDMA_OK && !team->added) {
            team->hold.context.add(team->team);
            team->added = true;
        }
        return status;
    });
}

sdma_reason_t sdma_team_reason(const sdma_team_t *team) { return team->team.reason(); }

void sdma_team_free(sdma_team_t *team) {
    if (!team)
        return;
    if (team->added)
        team->hold.context.remove(team->team);
    delete team;
}

sdma_status_t sdma_op_start(sdma_team_t *team, const sdma_desc_t *desc, sdma_op_t **op) {
    *op = nullptr;
    if (!team->team.live())
        return SDMA_ERROR;
    return guarded(SDMA_ERROR, [&] {
        *op = new sdma_op{{team->hold.context, team->team, *desc}};
        return SDMA_OK;
    });
}

sdma_status_t sdma_op_test(sdma_op_t *op) {
    return guarded(SDMA_ERROR, [&] { return op->op.test(); });
}

sdma_reason_t sdma_op_reason(const sdma_op_t *op) { return op->op.reason(); }

void sdma_op_free(sdma_op_t *op) { delete op; }

int sdma_progress(void) {
    return guarded(0, [] { return with_context([](op::Context &context) { return context.memory().progress(); }); });
}

int sdma_runtime_loaded(void) {
    return guarded(0, [] { return gpu::runtime_loaded() ? 1 : 0; });
}

int sdma_is_device(const void *ptr) {
    return guarded(0, [&] {
        auto runtime = running_runtime();
        if (!runtime)
            return 0;
        // What cannot be exported may still be out of the host's reach.
        const gpu::Memory_kind kind = runtime->classify(ptr).kind;
        return kind == gpu::Memory_kind::device || kind == gpu::Memory_kind::unsupported ? 1 : 0;
    });
}

sdma_status_t sdma_copy(void *dst, const void *src, size_t bytes) {
    return guarded(SDMA_ERROR, [&] {
        if (bytes == 0)
            return SDMA_OK;
        auto runtime = running_runtime();
        if (!runtime) {
            memmove(dst, src, bytes); // all memory is the host's
            return SDMA_OK;
        }
        const gpu::Status status = runtime->copy(dst, src, bytes);
        if (status == gpu::Status::ok)
            return SDMA_OK;
        log(0, "copy of %zu bytes from %p to %p: %s", bytes, src, dst, gpu::to_string(status));
        return SDMA_ERROR;
    });
}

sdma_status_t sdma_device_allocate(size_t bytes, void **memory) {
    return guarded(SDMA_DECLINED, [&] {
        *memory = gpu::application_allocate(bytes);
        return *memory ? SDMA_OK : SDMA_DECLINED;
    });
}

void sdma_device_free(void *memory) {
    guarded(0, [&] {
        gpu::application_free(memory);
        return 0;
    });
}

char *sdma_describe(int json) {
    return guarded(static_cast<char *>(nullptr),
                   [&] { return strdup(op::describe(process_platform(), json != 0).c_str()); });
}

} // extern "C"
