// SPDX-License-Identifier: BSD-3-Clause
//
// The two processes of the UCT tests: the target, which owns memory and obeys, and the origin, with a connection to it.
#pragma once

#include "test/ucx/uct.hpp"

#include <uct/api/version.h>

#include <algorithm>
#include <memory>
#include <thread>

constexpr size_t window_bytes = 4 << 20;
// From 1.18 on UCP's completion of an invalidation is on its stack, so that is complete on return.
constexpr bool invalidates_at_once = UCT_VERNO_MAJOR * 100 + UCT_VERNO_MINOR >= 118;

struct Introduction {
    uint8_t device[64], iface[64], key[128];
    uint64_t base;

    Introduction() = default;
    Introduction(const Transport &transport, uct_mem_h memh, const void *address)
        : base(reinterpret_cast<uint64_t>(address)) {
        must(uct_iface_get_device_address(transport.iface, reinterpret_cast<uct_device_addr_t *>(device)), "address");
        must(uct_iface_get_address(transport.iface, reinterpret_cast<uct_iface_addr_t *>(iface)), "address");
        const auto packed = transport.key(memh);
        std::memcpy(key, packed.data(), packed.size());
    }
};

// Of UCX's second interface, whose header is not installed.
struct Deregistration {
    uint64_t field_mask;
    unsigned flags;
    uct_mem_h memh;
    uct_completion_t *comp;
};
extern "C" ucs_status_t uct_md_mem_dereg_v2(uct_md_h md, const Deregistration *params);

// Its end shows in its count alone.
inline uct_completion_t completion() {
    return {[](uct_completion_t *) {}, 1, UCS_OK};
}

// Returns the completion as UCP finds it after the call; what the caller's stack held then is gone.
__attribute__((noinline)) inline uct_completion_t invalidated(uct_md_h md, uct_mem_h memh) {
    uct_completion_t comp = completion();
    const Deregistration deregistration{7, 1, memh, &comp}; // all fields; invalidate
    must(uct_md_mem_dereg_v2(md, &deregistration), "invalidation");
    return comp;
}

// Whether nobody writes where the stack of a function lay that has returned.
template <class During> __attribute__((noinline)) bool stack_is_ours(During during) {
    volatile uint8_t filled[8192];
    std::fill(std::begin(filled), std::end(filled), uint8_t{0xa5});
    during();
    return std::all_of(std::begin(filled), std::end(filled), [](uint8_t byte) { return byte == 0xa5; });
}

// ---- the target ---------------------------------------------------------------------------------------

enum class Order : uint32_t { reallocate, show, invalidate, leave };

// Tells the origin when it may let go of the memory. Returns the status and how long the call took.
struct Invalidation {
    ucs_status_t status;
    int64_t ms;
};
inline Invalidation invalidate(Transport &transport, uct_mem_h memh, Peer &origin) {
    const auto begun = std::chrono::steady_clock::now();
    // For long enough that the origin has let go, where it does not sleep for longer.
    const auto progress = [&](std::chrono::milliseconds time) {
        const auto end = std::chrono::steady_clock::now() + time;
        while (std::chrono::steady_clock::now() < end) {
            uct_worker_progress(transport.worker);
        }
    };
    if (invalidates_at_once) {
        origin.send(1);
        const uct_completion_t comp = invalidated(transport.md, memh);
        const auto passed = std::chrono::steady_clock::now() - begun;
        check(comp.count == 0, "the invalidation is not complete on return");
        check(stack_is_ours([&] { progress(std::chrono::milliseconds(600)); }),
              "the completion is used after the return");
        return {comp.status, std::chrono::duration_cast<std::chrono::milliseconds>(passed).count()};
    }
    uct_completion_t comp = completion();
    const Deregistration deregistration{7, 1, memh, &comp};
    must(uct_md_mem_dereg_v2(transport.md, &deregistration), "invalidation");
    progress(std::chrono::milliseconds(50));
    check(comp.count == 1, "invalid although a peer still maps it");
    origin.send(1);
    must(progress_until(transport.worker, [&] { return comp.count == 0; }), "the end of the invalidation");
    const auto passed = std::chrono::steady_clock::now() - begun;
    return {comp.status, std::chrono::duration_cast<std::chrono::milliseconds>(passed).count()};
}

inline int be_target(Peer origin) {
    must(hipSetDevice(1), "hipSetDevice");
    Transport transport(nullptr, nullptr);
    auto memory = std::make_unique<Memory>(transport.md, window_bytes);
    const auto introduce = [&] { origin.send(Introduction(transport, memory->memh, memory->address)); };
    introduce();
    for (Order order; (order = origin.receive<Order>()) != Order::leave;) {
        if (order == Order::show) {
            const auto at = origin.receive<size_t>(), bytes = origin.receive<size_t>();
            origin.send(memory->content(at, bytes).data(), bytes);
        } else if (order == Order::invalidate) {
            // Others of the same allocation, as UCP may have them: one is used later, one is taken back later.
            uct_mem_h kept = nullptr, late = nullptr;
            for (uct_mem_h *memh : {&kept, &late}) {
                must(uct_md_mem_reg(transport.md, memory->address, window_bytes, UCT_MD_MEM_ACCESS_ALL, memh),
                     "registration");
            }
            const Invalidation end = invalidate(transport, memory->memh, origin);
            memory->memh = kept;
            const auto key = transport.key(kept);
            const uct_completion_t comp = invalidated(transport.md, late);
            check(comp.count == 0 && comp.status == end.status, "what was taken back before needs no waiting");
            check(transport.key(kept) == key, "what was registered since is not taken back");
            origin.send(end);
            introduce();
        } else {
            memory = nullptr;
            memory = std::make_unique<Memory>(transport.md, window_bytes);
            introduce();
        }
    }
    return failures != 0;
}

// ---- the origin ---------------------------------------------------------------------------------------

struct Origin {
    explicit Origin(Peer to, pid_t pid)
        : target(to), child(pid), transport(on_error, this), memory(transport.md, window_bytes) {
        hello = target.receive<Introduction>();
        ep = connect();
        unpack();
    }
    ~Origin() {
        uct_rkey_release(transport.component, &key);
        if (ep != nullptr) {
            uct_ep_destroy(ep);
        }
    }
    Origin(const Origin &) = delete;
    Origin &operator=(const Origin &) = delete;

    static ucs_status_t on_error(void *arg, uct_ep_h, ucs_status_t status) {
        auto *self = static_cast<Origin *>(arg);
        ++self->errors;
        self->error = status;
        return UCS_OK;
    }
    uct_ep_h connect() { return connect(hello); }
    uct_ep_h connect(const Introduction &to) {
        const auto *device = reinterpret_cast<const uct_device_addr_t *>(to.device);
        const auto *address = reinterpret_cast<const uct_iface_addr_t *>(to.iface);
        check(uct_iface_is_reachable(transport.iface, device, address) != 0, "the target is reachable");
        uct_ep_params_t params{};
        params.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
        params.iface = transport.iface;
        params.dev_addr = device;
        params.iface_addr = address;
        uct_ep_h made = nullptr;
        must(uct_ep_create(&params, &made), "endpoint");
        return made;
    }
    void unpack() { must(uct_rkey_unpack(transport.component, hello.key, &key), "unpacking the key"); }
    void renew() {
        target.send(Order::reallocate);
        hello = target.receive<Introduction>();
        uct_rkey_release(transport.component, &key);
        unpack();
    }
    template <class Done> void until(Done done, const char *what) {
        must(progress_until(transport.worker, done), what);
    }
    void flush(uct_ep_h on) {
        until([&] { return uct_ep_flush(on, 0, nullptr) == UCS_OK; }, "flush");
    }
    // What `post` answers once there is room.
    template <class Post> ucs_status_t answer(Post post, const char *what) {
        ucs_status_t status = UCS_ERR_NO_RESOURCE;
        until([&] { return (status = post()) != UCS_ERR_NO_RESOURCE; }, what);
        return status;
    }
    ucs_status_t put(uct_ep_h on, size_t from, size_t to, size_t bytes, uct_completion_t *comp = nullptr) {
        const uct_iov_t iov = memory.iov(from, bytes);
        return answer([&] { return uct_ep_put_zcopy(on, &iov, 1, hello.base + to, key.rkey, comp); }, "room for a put");
    }
    // What is at the target, as it sees it at once.
    std::vector<uint8_t> target_content(size_t at, size_t bytes) {
        target.send(Order::show);
        target.send(at);
        target.send(bytes);
        std::vector<uint8_t> seen(bytes);
        target.receive(seen.data(), bytes);
        return seen;
    }
    // The same by a get.
    std::vector<uint8_t> fetched(size_t at, size_t bytes) {
        Memory to(transport.md, bytes);
        uct_completion_t comp = completion();
        const uct_iov_t iov = to.iov(0, bytes);
        const ucs_status_t status =
            answer([&] { return uct_ep_get_zcopy(ep, &iov, 1, hello.base + at, key.rkey, &comp); }, "room for a get");
        check(status == UCS_INPROGRESS, "get: %s", ucs_status_string(status));
        until([&] { return comp.count == 0; }, "get");
        check(comp.status == UCS_OK, "get: %s", ucs_status_string(comp.status));
        return to.content(0, bytes);
    }

    Peer target;
    pid_t child;
    Transport transport;
    Memory memory;
    Introduction hello{};
    uct_ep_h ep = nullptr;
    uct_rkey_bundle_t key{};
    int errors = 0;
    ucs_status_t error = UCS_OK;
};
