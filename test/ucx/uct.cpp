// SPDX-License-Identifier: BSD-3-Clause
//
// The UCX transport as UCP uses it, between two processes with a GPU each: the target only owns memory, the origin does
// everything. UCX's own tests skip most of this for a transport without active messages.
//   uct TEST     one of: data pending order fence event keys invalidate invalidate-bound own kill (run with
//   UCX_SDMA_TX_QUEUE_LEN=2 for little room)
#include "test/ucx/uct_pair.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <functional>
#include <map>

namespace {

std::vector<uint8_t> pattern(size_t bytes, unsigned seed) {
    std::vector<uint8_t> made(bytes);
    for (size_t i = 0; i < bytes; ++i) {
        made[i] = static_cast<uint8_t>(i * 13 + i / 255 + seed * 37 + 1);
    }
    return made;
}

size_t give(void *to, void *arg) {
    const auto &from = *static_cast<std::vector<uint8_t> *>(arg);
    std::memcpy(to, from.data(), from.size());
    return from.size();
}

void take(void *arg, const void *data, size_t length) {
    const auto *bytes = static_cast<const uint8_t *>(data);
    static_cast<std::vector<uint8_t> *>(arg)->assign(bytes, bytes + length);
}

// Short, buffered and zero-copy, each at its sizes, interleaved, both ways; nothing beside the target is touched.
void test_data(Origin &o) {
    const auto blank = pattern(window_bytes, 99);
    o.memory.fill(blank);
    check(o.put(o.ep, 0, 0, window_bytes) == UCS_INPROGRESS, "put");
    o.flush(o.ep);
    auto expected = blank;
    size_t at = 1;
    unsigned seed = 0;
    const auto place = [&](size_t bytes) {
        const auto data = pattern(bytes, ++seed);
        std::copy(data.begin(), data.end(), expected.begin() + static_cast<ptrdiff_t>(at));
        return data;
    };
    for (const size_t bytes : {size_t{1}, size_t{8}, size_t{100}, o.transport.attr.cap.put.max_short}) {
        const auto data = place(bytes);
        o.until(
            [&] {
                return uct_ep_put_short(o.ep, data.data(), static_cast<unsigned>(bytes), o.hello.base + at,
                                        o.key.rkey) == UCS_OK;
            },
            "put_short");
        at += bytes + 3;
    }
    for (const size_t bytes : {size_t{1}, size_t{4000}, o.transport.attr.cap.put.max_bcopy}) {
        auto data = place(bytes);
        o.until(
            [&] {
                return uct_ep_put_bcopy(o.ep, give, &data, o.hello.base + at, o.key.rkey) ==
                       static_cast<ssize_t>(bytes);
            },
            "put_bcopy");
        at += bytes + 5;
    }
    for (const size_t bytes : {size_t{3}, size_t{70000}, size_t{1} << 20}) {
        o.flush(o.ep); // the origin's memory is still being read
        o.memory.fill(place(bytes), at);
        check(o.put(o.ep, at, at, bytes) == UCS_INPROGRESS, "put_zcopy");
        at += bytes + 7;
    }
    o.flush(o.ep);
    check(o.target_content(0, window_bytes) == expected, "the target holds what was put");
    check(o.fetched(13, window_bytes - 13) == std::vector<uint8_t>(expected.begin() + 13, expected.end()), "get_zcopy");
    std::vector<uint8_t> seen(o.transport.attr.cap.get.max_short);
    o.until(
        [&] {
            return uct_ep_get_short(o.ep, seen.data(), static_cast<unsigned>(seen.size()), o.hello.base + 5,
                                    o.key.rkey) == UCS_OK;
        },
        "get_short");
    check(std::equal(seen.begin(), seen.end(), expected.begin() + 5), "get_short");
    uct_completion_t comp = completion();
    const ucs_status_t status = o.answer(
        [&] { return uct_ep_get_bcopy(o.ep, take, &seen, 9000, o.hello.base + 77, o.key.rkey, &comp); }, "get_bcopy");
    o.until([&] { return status == UCS_OK || comp.count == 0; }, "get_bcopy");
    check(seen.size() == 9000 && std::equal(seen.begin(), seen.end(), expected.begin() + 77), "get_bcopy");
    check(uct_ep_put_zcopy(o.ep, nullptr, 0, o.hello.base, o.key.rkey, nullptr) == UCS_OK, "no bytes");
}

struct Queued {
    uct_pending_req_t request{};
    Origin *origin = nullptr;
    size_t index = 0;
    std::vector<size_t> *order = nullptr;
};

ucs_status_t try_queued(uct_pending_req_t *request) {
    auto *queued = reinterpret_cast<Queued *>(request);
    const uct_iov_t iov = queued->origin->memory.iov(queued->index * 4096, 4096);
    const ucs_status_t status =
        uct_ep_put_zcopy(queued->origin->ep, &iov, 1, queued->origin->hello.base + queued->index * 4096,
                         queued->origin->key.rkey, nullptr);
    if (status == UCS_ERR_NO_RESOURCE) {
        return status;
    }
    queued->order->push_back(queued->index);
    return UCS_OK;
}

// A queue that is too short: what does not fit is queued, goes in order, and a flush ends under new posts.
void test_pending(Origin &o) {
    const auto data = pattern(window_bytes, 5);
    o.memory.fill(data);
    constexpr size_t count = 200;
    std::deque<Queued> queued;
    std::vector<size_t> order;
    size_t refused = 0;
    for (size_t i = 0; i < count; ++i) {
        queued.push_back({{try_queued, {}}, &o, i, &order});
        if (!order.empty() && order.size() == i && try_queued(&queued.back().request) == UCS_OK) {
            continue;
        }
        if (i == 0 && try_queued(&queued.back().request) == UCS_OK) {
            continue;
        }
        ++refused;
        must(uct_ep_pending_add(o.ep, &queued.back().request, 0), "pending_add");
    }
    check(refused > 0, "the queue was never full");
    check(uct_ep_flush(o.ep, 0, nullptr) == UCS_ERR_NO_RESOURCE, "a flush with requests pending has no resource");
    o.until([&] { return order.size() == count; }, "pending requests");
    check(std::is_sorted(order.begin(), order.end()), "pending requests go in order");
    o.flush(o.ep);
    check(o.target_content(0, count * 4096) == std::vector<uint8_t>(data.begin(), data.begin() + count * 4096),
          "what was pending has arrived");

    // zcopy flush: it ends while new posts go on, and only once what came before is there.
    int ended = 0;
    static int *ended_at = nullptr;
    ended_at = &ended;
    uct_completion_t first = completion();
    check(o.put(o.ep, 0, 1 << 20, 1 << 20, &first) == UCS_INPROGRESS, "put");
    uct_completion_t flushed{[](uct_completion_t *) { *ended_at = 1; }, 1, UCS_OK};
    must(uct_ep_flush(o.ep, 0, &flushed) == UCS_INPROGRESS, "a flush with a put outstanding is in progress");
    size_t posted = 0;
    o.until(
        [&] {
            const uct_iov_t iov = o.memory.iov(0, 4096);
            const ucs_status_t status = uct_ep_put_zcopy(o.ep, &iov, 1, o.hello.base, o.key.rkey, nullptr);
            posted += status == UCS_INPROGRESS;
            return ended != 0;
        },
        "a flush under new posts");
    check(first.count == 0, "the put is complete before the flush is");
    check(posted > 0, "nothing was posted meanwhile");
    check(o.target_content(1 << 20, 1 << 20) == std::vector<uint8_t>(data.begin(), data.begin() + (1 << 20)),
          "what was flushed has arrived");

    // purge: each request comes back once, none is issued.
    order.clear();
    uct_completion_t busy = completion();
    o.put(o.ep, 0, 0, 1 << 20, &busy);
    std::deque<Queued> purged;
    for (size_t i = 0; i < 10; ++i) {
        purged.push_back({{try_queued, {}}, &o, i, &order});
        must(uct_ep_pending_add(o.ep, &purged.back().request, 0), "pending_add");
    }
    std::vector<size_t> back;
    uct_ep_pending_purge(
        o.ep,
        [](uct_pending_req_t *request, void *arg) {
            static_cast<std::vector<size_t> *>(arg)->push_back(reinterpret_cast<Queued *>(request)->index);
        },
        &back);
    check(back.size() == 10 && std::is_sorted(back.begin(), back.end()), "purge gives each request back");
    o.flush(o.ep);
    check(order.empty(), "purged requests are not issued");
}

struct Held { // a request that does not go before it is let
    uct_pending_req_t request{[](uct_pending_req_t *request) { return reinterpret_cast<Held *>(request)->go(); }, {}};
    std::function<ucs_status_t()> post;
    bool let = false;
    int went = 0;

    ucs_status_t go() {
        const ucs_status_t status = let ? post() : UCS_ERR_NO_RESOURCE;
        went += status != UCS_ERR_NO_RESOURCE;
        return status == UCS_ERR_NO_RESOURCE ? status : UCS_OK;
    }
};

// What is posted later does not overtake what is pending, whatever there is room for; nor, across a fence, in its
// effect.
void test_order(Origin &o) {
    constexpr size_t big = 1 << 20, tail = 4096;
    const auto first = pattern(big, 1), second = pattern(tail, 2);
    o.memory.fill(first);
    o.memory.fill(second, big);
    const auto post = [&](size_t from, size_t to, size_t bytes) {
        const uct_iov_t iov = o.memory.iov(from, bytes);
        return uct_ep_put_zcopy(o.ep, &iov, 1, o.hello.base + to, o.key.rkey, nullptr);
    };
    for (int round = 0; round < 20; ++round) {
        Held before, after;
        before.post = [&] { return post(0, 0, big); };
        after.post = [&] { return post(big, big - tail, tail); };
        after.let = true;
        must(uct_ep_pending_add(o.ep, &before.request, 0), "pending_add");
        for (int i = 0; i < 100; ++i) {
            uct_worker_progress(o.transport.worker);
        }
        must(uct_ep_fence(o.ep, 0), "fence");
        check(post(big, big - tail, tail) == UCS_ERR_NO_RESOURCE, "a zcopy overtakes what is pending");
        auto data = second;
        check(uct_ep_put_short(o.ep, data.data(), 8, o.hello.base, o.key.rkey) == UCS_ERR_NO_RESOURCE,
              "a put_short overtakes what is pending");
        check(uct_ep_put_bcopy(o.ep, give, &data, o.hello.base, o.key.rkey) == UCS_ERR_NO_RESOURCE,
              "a put_bcopy overtakes what is pending");
        must(uct_ep_pending_add(o.ep, &after.request, 0), "pending_add");
        before.let = true;
        o.until([&] { return after.went == 1; }, "pending requests");
        check(before.went == 1, "the second request goes before the first");
        o.flush(o.ep);
        check(o.target_content(big - tail, tail) == second, "round %d: the put after the fence wins", round);
        check(o.target_content(0, tail) == std::vector<uint8_t>(first.begin(), first.begin() + tail), "data");
    }

    // Host memory, of this process: copied at once, but not before what is pending.
    uint64_t there = 1, here = 2;
    uct_mem_h memh = nullptr;
    uct_rkey_bundle_t key{};
    must(uct_md_mem_reg(o.transport.md, &there, sizeof(there), UCT_MD_MEM_ACCESS_ALL, &memh), "registration");
    const Introduction me(o.transport, memh, &there);
    must(uct_rkey_unpack(o.transport.component, me.key, &key), "unpacking the key");
    uct_ep_h own = o.connect(me);
    const auto put = [&] { return uct_ep_put_short(own, &here, sizeof(here), me.base, key.rkey); };
    Held before;
    before.post = [] { return UCS_OK; };
    must(uct_ep_pending_add(own, &before.request, 0), "pending_add");
    check(put() == UCS_ERR_NO_RESOURCE && there == 1, "a copy of host memory overtakes what is pending");
    before.let = true;
    o.until([&] { return before.went == 1; }, "the pending request");
    check(put() == UCS_OK && there == 2, "a copy of host memory");
    uct_ep_destroy(own);
    uct_rkey_release(o.transport.component, &key);
    must(uct_md_mem_dereg(o.transport.md, memh), "deregistration");
}

// Short operations on GPU memory of this process are done on return, also while the interface is full.
void test_own(Origin &o) {
    Memory memory(o.transport.md, 4096);
    const Introduction me(o.transport, memory.memh, memory.address);
    uct_rkey_bundle_t key{};
    must(uct_rkey_unpack(o.transport.component, me.key, &key), "unpacking the key");
    uct_ep_h own = o.connect(me);
    auto data = pattern(4096, 1);
    const uct_iov_t iov = o.memory.iov(0, 4096);
    while (uct_ep_put_bcopy(o.ep, give, &data, o.hello.base, o.key.rkey) > 0 ||
           uct_ep_put_zcopy(o.ep, &iov, 1, o.hello.base, o.key.rkey, nullptr) == UCS_INPROGRESS) {
    }
    uint64_t there = 3, here = 0;
    check(uct_ep_put_short(own, &there, 8, me.base, key.rkey) == UCS_OK, "put_short");
    check(uct_ep_get_short(own, &here, 8, me.base, key.rkey) == UCS_OK && here == there, "get_short");
    o.flush(o.ep);
    uct_ep_destroy(own);
    uct_rkey_release(o.transport.component, &key);
}

// The second write to a place wins, on one endpoint and between two.
void test_fence(Origin &o) {
    constexpr size_t big = 1 << 20, tail = 4096;
    const auto first = pattern(big, 1), second = pattern(tail, 2);
    o.memory.fill(first);
    o.memory.fill(second, big);
    uct_ep_h other = o.connect();
    for (int round = 0; round < 20; ++round) {
        const bool two = round % 2 == 1;
        check(o.put(o.ep, 0, 0, big) == UCS_INPROGRESS, "put");
        must(two ? uct_iface_fence(o.transport.iface, 0) : uct_ep_fence(o.ep, 0), "fence");
        check(o.put(two ? other : o.ep, big, big - tail, tail) == UCS_INPROGRESS, "put");
        o.flush(two ? other : o.ep);
        o.flush(o.ep);
        check(o.target_content(big - tail, tail) == second, "round %d: the put after the fence wins", round);
        check(o.target_content(0, tail) == std::vector<uint8_t>(first.begin(), first.begin() + tail), "data");
    }
    o.until([&] { return uct_iface_flush(o.transport.iface, 0, nullptr) == UCS_OK; }, "flush of the interface");
    uct_ep_destroy(other);
}

// A completion wakes a sleeper; nothing else is needed.
void test_event(Origin &o) {
    int fd = -1;
    must(uct_iface_event_fd_get(o.transport.iface, &fd), "event descriptor");
    constexpr unsigned events = UCT_EVENT_SEND_COMP | UCT_EVENT_RECV;
    size_t sleeps = 0;
    for (int round = 0; round < 20; ++round) {
        uct_completion_t comp = completion();
        check(o.put(o.ep, 0, 0, window_bytes, &comp) == UCS_INPROGRESS, "put");
        while (comp.count > 0) {
            const ucs_status_t status = uct_iface_event_arm(o.transport.iface, events);
            if (status == UCS_OK) {
                struct pollfd event = {fd, POLLIN, 0};
                must(poll(&event, 1, 30000) == 1, "a completion wakes the sleeper");
                ++sleeps;
            } else {
                check(status == UCS_ERR_BUSY, "arm: %s", ucs_status_string(status));
            }
            uct_worker_progress(o.transport.worker);
        }
    }
    check(sleeps > 0, "never slept");
    o.flush(o.ep);
    o.until([&] { return uct_iface_event_arm(o.transport.iface, events) == UCS_OK; }, "arming with nothing to do");
}

// Keys that the owner did not make, or has taken back, are refused; the endpoint serves good ones all the same.
void test_keys(Origin &o) {
    const auto data = pattern(4096, 3);
    o.memory.fill(data);
    size_t refused = 0;
    for (size_t word = 0; word < sizeof(o.hello.key) / 8; ++word) {
        for (const uint64_t change : {uint64_t{1}, uint64_t{1} << 12, uint64_t{1} << 40, ~uint64_t{0}}) {
            Introduction spoilt = o.hello;
            uint64_t value;
            std::memcpy(&value, spoilt.key + 8 * word, 8);
            value ^= change;
            std::memcpy(spoilt.key + 8 * word, &value, 8);
            uct_rkey_bundle_t key;
            if (uct_rkey_unpack(o.transport.component, spoilt.key, &key) != UCS_OK) {
                ++refused;
                continue;
            }
            const uct_iov_t iov = o.memory.iov(0, 4096);
            for (const uint64_t at : {o.hello.base, o.hello.base + window_bytes - 4096, o.hello.base - 4096,
                                      o.hello.base + window_bytes, ~uint64_t{0} - 100}) {
                const ucs_status_t status =
                    o.answer([&] { return uct_ep_put_zcopy(o.ep, &iov, 1, at, key.rkey, nullptr); }, "an answer");
                refused += status != UCS_OK && status != UCS_INPROGRESS;
            }
            uct_rkey_release(o.transport.component, &key);
        }
    }
    check(refused > 50, "%zu refusals only", refused);
    const uct_iov_t iov = o.memory.iov(0, 4096);
    check(uct_ep_put_zcopy(o.ep, &iov, 1, o.hello.base, UCT_INVALID_RKEY, nullptr) == UCS_ERR_INVALID_PARAM, "no key");
    check(o.put(o.ep, 0, window_bytes - 100, 4096) == UCS_ERR_INVALID_PARAM, "beyond the end");
    check(o.errors == 0, "no error of the endpoint");
    check(o.put(o.ep, 0, 0, 4096) == UCS_INPROGRESS, "a good key serves");
    o.flush(o.ep);
    check(o.target_content(0, 4096) == data, "data");

    // The target frees its memory and allocates again: the old key ends, soon, and the new one serves.
    uct_rkey_bundle_t old{};
    must(uct_rkey_unpack(o.transport.component, o.hello.key, &old), "unpacking the key");
    const uint64_t old_base = o.hello.base;
    o.renew();
    for (int i = 0; i < 200; ++i) { // mappings are looked through now and then
        uct_worker_progress(o.transport.worker);
    }
    const ucs_status_t status = uct_ep_put_zcopy(o.ep, &iov, 1, old_base, old.rkey, nullptr);
    check(status != UCS_OK && status != UCS_INPROGRESS, "a key of freed memory serves");
    uct_rkey_release(o.transport.component, &old);
    check(o.put(o.ep, 0, 4096, 4096) == UCS_INPROGRESS, "the new key serves");
    o.flush(o.ep);
    check(o.target_content(4096, 4096) == data, "data");
}

// The target takes its memory back, which ends once nobody maps it any more, or the origin has not moved for `still`;
// then it gives it out again.
Invalidation take_back(Origin &o, std::chrono::milliseconds still) {
    const auto data = pattern(window_bytes, 8);
    o.memory.fill(data);
    check(o.put(o.ep, 0, 0, window_bytes) == UCS_INPROGRESS, "put");
    o.target.send(Order::invalidate);
    check(o.target.receive<int>() == 1, "the target is invalidating");
    std::this_thread::sleep_for(still);
    o.until([&] { return o.target.has_sent(); }, "the target has its memory for itself");
    const auto end = o.target.receive<Invalidation>();
    o.flush(o.ep);
    const uct_iov_t iov = o.memory.iov(0, 4096);
    const ucs_status_t status = uct_ep_put_zcopy(o.ep, &iov, 1, o.hello.base, o.key.rkey, nullptr);
    check(status != UCS_OK && status != UCS_INPROGRESS, "a key that was taken back serves");
    o.hello = o.target.receive<Introduction>();
    uct_rkey_release(o.transport.component, &o.key);
    o.unpack();
    check(o.put(o.ep, 0, 0, 4096) == UCS_INPROGRESS, "the new key serves");
    o.flush(o.ep);
    check(o.target_content(0, window_bytes) == data, "data");
    return end;
}

// What maps the memory is a line of the process that takes it back, with a put on its way.
void take_back_own(Origin &o) {
    Memory memory(o.transport.md, window_bytes);
    const Introduction me(o.transport, memory.memh, memory.address);
    uct_rkey_bundle_t key{};
    must(uct_rkey_unpack(o.transport.component, me.key, &key), "unpacking the key");
    uct_ep_h own = o.connect(me);
    const uct_iov_t iov = o.memory.iov(0, window_bytes);
    check(uct_ep_put_zcopy(own, &iov, 1, me.base, key.rkey, nullptr) == UCS_INPROGRESS, "put to the own process");
    uct_completion_t comp = completion();
    const Deregistration deregistration{7, 1, memory.memh, &comp};
    must(uct_md_mem_dereg_v2(o.transport.md, &deregistration), "invalidation");
    check(!invalidates_at_once || comp.count == 0, "the invalidation is not complete on return");
    o.until([&] { return comp.count == 0; }, "the end of the invalidation");
    check(comp.status == UCS_OK, "own memory: %s", ucs_status_string(comp.status));
    o.flush(own);
    uct_ep_destroy(own);
    uct_rkey_release(o.transport.component, &key);
    must(uct_md_mem_reg(o.transport.md, memory.address, window_bytes, UCT_MD_MEM_ACCESS_ALL, &memory.memh),
         "registration");
}

void test_invalidate(Origin &o) {
    take_back_own(o);
    const Invalidation end = take_back(o, std::chrono::milliseconds(300));
    check(end.status == UCS_OK && end.ms >= 200, "%s after %ld ms", ucs_status_string(end.status), end.ms);
}

// Run with a hardware timeout of 500 ms. The origin must not keep the target in a call for longer than that.
void test_invalidate_bound(Origin &o) {
    const Invalidation end = take_back(o, std::chrono::milliseconds(2000));
    if (invalidates_at_once) {
        check(end.status == UCS_ERR_TIMED_OUT && end.ms >= 500 && end.ms < 1800, "%s after %ld ms",
              ucs_status_string(end.status), end.ms);
    } else {
        check(end.status == UCS_OK && end.ms >= 1900, "%s after %ld ms", ucs_status_string(end.status), end.ms);
    }
}

// The target is killed: everything outstanding ends, the handler is called once, later operations are refused.
void test_kill(Origin &o) {
    uct_completion_t comp = completion();
    check(uct_ep_check(o.ep, 0, nullptr) == UCS_OK, "check of a living peer");
    uct_worker_progress(o.transport.worker);
    check(o.errors == 0, "a living peer is no error");
    o.put(o.ep, 0, 0, window_bytes, &comp);
    must(kill(o.child, SIGKILL) == 0, "kill");
    siginfo_t info;
    must(waitid(P_PID, static_cast<id_t>(o.child), &info, WEXITED | WNOWAIT) == 0, "wait"); // it stays a zombie
    check(uct_ep_check(o.ep, 0, nullptr) == UCS_OK, "check");
    o.until([&] { return o.errors > 0 && comp.count == 0; }, "the error handler");
    for (int i = 0; i < 1000; ++i) {
        uct_worker_progress(o.transport.worker);
    }
    check(o.errors == 1 && o.error == UCS_ERR_ENDPOINT_TIMEOUT, "%d errors, the last: %s", o.errors,
          ucs_status_string(o.error));
    const uct_iov_t iov = o.memory.iov(0, 4096);
    const ucs_status_t status = uct_ep_put_zcopy(o.ep, &iov, 1, o.hello.base, o.key.rkey, nullptr);
    check(status == UCS_ERR_ENDPOINT_TIMEOUT, "a put to the dead: %s", ucs_status_string(status));
    check(uct_ep_flush(o.ep, UCT_FLUSH_FLAG_CANCEL, nullptr) == UCS_OK, "nothing is left to flush");
}

} // namespace

int main(int argc, char **argv) {
    static const std::map<std::string, void (*)(Origin &)> tests = {
        {"data", test_data},
        {"pending", test_pending},
        {"order", test_order},
        {"fence", test_fence},
        {"event", test_event},
        {"keys", test_keys},
        {"invalidate", test_invalidate},
        {"invalidate-bound", test_invalidate_bound},
        {"own", test_own},
        {"kill", test_kill},
    };
    const auto test = tests.find(argc > 1 ? argv[1] : "");
    if (test == tests.end()) {
        std::fprintf(stderr, "usage: uct data|pending|order|fence|event|keys|invalidate|invalidate-bound|own|kill\n");
        return 2;
    }
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    const pid_t child = fork(); // before any runtime is started
    if (child == 0) {
        close(pair[0]);
        std::_Exit(be_target(Peer(pair[1])));
    }
    close(pair[1]);
    must(hipSetDevice(0), "hipSetDevice");
    int status = 0;
    {
        Origin origin(Peer(pair[0]), child);
        test->second(origin);
        if (test->second != test_kill) {
            origin.target.send(Order::leave);
        }
    }
    waitpid(child, &status, 0);
    check(test->second == test_kill || (WIFEXITED(status) && WEXITSTATUS(status) == 0), "the target failed");
    std::fflush(nullptr);
    return failures != 0;
}
