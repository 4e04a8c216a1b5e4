// SPDX-License-Identifier: BSD-3-Clause
//
// The C interface: owns the process's one context, which lives from the first team to the last,
// and keeps exceptions in. No static destructor here touches a GPU runtime: at exit it may be gone.
#include "sdma.h"

#include <cstring>
#include <mutex>
#include <new>

#include "../../kernels/bundle.h"
#include "base/base.hpp"
#include "op/context.hpp"
#include "op/describe.hpp"
#include "op/op.hpp"

using namespace sdma;

struct sdma_team {
    op::Context &context;
    team::Team team;
    bool added = false;
};

struct sdma_op {
    op::Op op;
};

namespace {

op::Platform process_platform() {
    return {{gpu::runtime_loaded, gpu::open_runtime},
            [](const std::string &target) { return !kernels::code_object(target).empty(); }};
}

constinit std::mutex context_mutex;
constinit op::Context *context = nullptr; // while teams > 0
constinit size_t teams = 0;

op::Context &hold_context() {
    std::lock_guard lock(context_mutex);
    if (!context)
        context = new op::Context(process_platform());
    teams++;
    return *context;
}

void let_context_go() {
    std::lock_guard lock(context_mutex);
    if (--teams > 0)
        return;
    delete context;
    context = nullptr;
}

std::shared_ptr<gpu::Runtime> running_runtime() {
    sdma_reason_t reason;
    return gpu::runtime_loaded() ? gpu::open_runtime(reason) : nullptr;
}

// Runs `body`; an exception, which can only be lack of memory, becomes `otherwise`.
template <class Result, class Body> Result guarded(Result otherwise, Body body) noexcept {
    try {
        return body();
    } catch (const std::exception &error) {
        log(0, "%s", error.what());
        return otherwise;
    }
}

} // namespace

extern "C" {

sdma_status_t sdma_team_start(const sdma_bootstrap_t *bootstrap, sdma_team_t **team) {
    *team = nullptr;
    return guarded(SDMA_ERROR, [&] {
        op::Context &held = hold_context();
        const sdma_reason_t refused = held.faulted() ? SDMA_REASON_fault : SDMA_REASON_none;
        try {
            *team = new sdma_team{held, {held.memory(), *bootstrap, refused}};
        } catch (...) {
            let_context_go();
            throw;
        }
        return refused == SDMA_REASON_none && bootstrap->size > 1 ? SDMA_OK : SDMA_DECLINED;
    });
}

sdma_status_t sdma_team_test(sdma_team_t *team) {
    return guarded(SDMA_ERROR, [&] {
        const sdma_status_t status = team->team.test();
        if (status == SDMA_OK && !team->added) {
            team->context.add(team->team);
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
        team->context.remove(team->team);
    delete team;
    let_context_go();
}

sdma_status_t sdma_op_start(sdma_team_t *team, const sdma_desc_t *desc, sdma_op_t **op) {
    *op = nullptr;
    if (!team->team.live())
        return SDMA_ERROR;
    return guarded(SDMA_ERROR, [&] {
        *op = new sdma_op{{team->context, team->team, *desc}};
        return SDMA_OK;
    });
}

sdma_status_t sdma_op_test(sdma_op_t *op) {
    return guarded(SDMA_ERROR, [&] { return op->op.test(); });
}

sdma_reason_t sdma_op_reason(const sdma_op_t *op) { return op->op.reason(); }

void sdma_op_free(sdma_op_t *op) { delete op; }

int sdma_progress(void) {
    // Whoever holds the lock makes or ends the context, or is here already.
    std::unique_lock lock(context_mutex, std::try_to_lock);
    return lock && context ? guarded(0, [] { return context->memory().progress(); }) : 0;
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

char *sdma_describe(int json) {
    return guarded(static_cast<char *>(nullptr), [&] { return strdup(op::describe(process_platform(), json != 0).c_str()); });
}

} // extern "C"
