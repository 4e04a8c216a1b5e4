// SPDX-License-Identifier: BSD-3-Clause
//
// A peer that dies, as a user of UCP sees it who asked to be told (UCP_ERR_HANDLING_MODE_PEER): two processes with GPU
// memory, puts of one to the other, which is killed in the middle of them. Everything that was begun ends, the handler
// is called once with an error, later puts are refused, and all can be closed.
//   ucp PUTS BYTES
// BYTES are those of each put.
#include "common/sdma/sdma.h"
#include "test/ucx/uct.hpp"

#include <ucp/api/ucp.h>

#include <sys/wait.h>

#include <csignal>

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto bound = std::chrono::seconds(60); // for whatever must come

class Process {
public:
    explicit Process(size_t bytes) : bytes(bytes) {
        ucp_config_t *config = nullptr;
        must(ucp_config_read(nullptr, nullptr, &config), "configuration");
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_RMA;
        must(ucp_init(&params, config, &context), "context");
        ucp_config_release(config);
        ucp_worker_params_t single{};
        single.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        single.thread_mode = UCS_THREAD_MODE_SINGLE;
        must(ucp_worker_create(context, &single, &worker), "worker");
        must(hipMalloc(&memory, bytes), "hipMalloc");
        must(hipMemset(memory, 1, bytes), "hipMemset");
        ucp_mem_map_params_t map{};
        map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        map.address = memory;
        map.length = bytes;
        must(ucp_mem_map(context, &map, &memh), "registration");
    }
    ~Process() {
        check(ucp_mem_unmap(context, memh) == UCS_OK, "deregistration");
        ucp_worker_destroy(worker);
        ucp_cleanup(context);
        (void)hipFree(memory);
    }
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    // How long it took, in milliseconds.
    template <class Done> long until(Done done, const char *what) {
        const auto begin = Clock::now();
        while (!done()) {
            ucp_worker_progress(worker);
            must(Clock::now() - begin < bound, what);
        }
        return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
    }
    // NULL: done at once.
    ucs_status_t finish(ucs_status_ptr_t request, const char *what) {
        if (request == nullptr || UCS_PTR_IS_ERR(request)) {
            return UCS_PTR_STATUS(request);
        }
        until([&] { return ucp_request_check_status(request) != UCS_INPROGRESS; }, what);
        const ucs_status_t status = ucp_request_check_status(request);
        ucp_request_free(request);
        return status;
    }

    ucp_context_h context = nullptr;
    ucp_worker_h worker = nullptr;
    void *memory = nullptr;
    ucp_mem_h memh = nullptr;
    const size_t bytes;
};

uint64_t counter(const char *name) {
    size_t count = 0;
    const sdma_counter_t *rows = sdma_counters(&count);
    for (size_t i = 0; i < count; ++i) {
        if (std::strcmp(rows[i].name, name) == 0) {
            return *rows[i].value;
        }
    }
    return 0;
}

void send_bytes(Peer &peer, const void *bytes, size_t count) {
    peer.send(count);
    peer.send(bytes, count);
}

std::vector<char> receive_bytes(Peer &peer) {
    std::vector<char> bytes(peer.receive<size_t>());
    peer.receive(bytes.data(), bytes.size());
    return bytes;
}

// Tells where it is and makes progress until it is killed, or the other process is gone.
int be_target(Peer origin, size_t bytes) {
    must(hipSetDevice(1), "hipSetDevice");
    const Process me(bytes);
    ucp_address_t *address = nullptr;
    size_t length = 0;
    must(ucp_worker_get_address(me.worker, &address, &length), "address");
    send_bytes(origin, address, length);
    void *key = nullptr;
    must(ucp_rkey_pack(me.context, me.memh, &key, &length), "key");
    send_bytes(origin, key, length);
    origin.send(reinterpret_cast<uint64_t>(me.memory));
    const auto end = Clock::now() + 2 * bound;
    while (Clock::now() < end) {
        ucp_worker_progress(me.worker);
    }
    return 1;
}

class Origin {
public:
    Origin(Peer target, pid_t child, size_t bytes) : me_(bytes), child_(child) {
        const std::vector<char> address = receive_bytes(target);
        const std::vector<char> key = receive_bytes(target);
        base_ = target.receive<uint64_t>();
        ucp_ep_params_t params{};
        params.field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.address = reinterpret_cast<const ucp_address_t *>(address.data());
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler = {on_error, this};
        must(ucp_ep_create(me_.worker, &params, &ep_), "endpoint");
        must(ucp_ep_rkey_unpack(ep_, key.data(), &rkey_), "unpacking the key");
    }
    ~Origin() {
        ucp_rkey_destroy(rkey_);
        ucp_request_param_t force{};
        force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        force.flags = UCP_EP_CLOSE_FLAG_FORCE;
        (void)me_.finish(ucp_ep_close_nbx(ep_, &force), "the end of closing");
    }
    Origin(const Origin &) = delete;
    Origin &operator=(const Origin &) = delete;

    void run(size_t puts) {
        check(me_.finish(put(), "the first put") == UCS_OK && flush() == UCS_OK, "puts to a living peer");
        check(errors_ == 0, "a living peer is no error");
        check(counter("ucx_zcopy") > 0, "the puts are not ours");
        std::vector<ucs_status_ptr_t> begun;
        for (size_t i = 0; i < puts; ++i) {
            if (i == puts / 2) {
                must(kill(child_, SIGKILL) == 0, "kill"); // it stays a zombie
            }
            begun.push_back(put());
            ucp_worker_progress(me_.worker);
        }
        size_t failed = 0;
        for (ucs_status_ptr_t request : begun) {
            failed += me_.finish(request, "the end of a put") != UCS_OK ? 1 : 0;
        }
        // What was written before anybody looked after the peer may still have worked.
        ucs_status_t flushed = UCS_OK;
        const long noticed = me_.until(
            [&] {
                flushed = flush();
                return errors_ > 0 && flushed != UCS_OK;
            },
            "the error handler");
        const ucs_status_t refused = me_.finish(put(), "the end of a put to the dead");
        check(refused != UCS_OK, "a put to the dead worked");
        check(errors_ == 1 && error_ != UCS_OK, "%d errors, the last: %s", errors_, ucs_status_string(error_));
        std::printf("%zu of %zu puts failed; the handler had %s after %ld ms, a flush then %s, a put %s\n", failed,
                    puts, ucs_status_string(error_), noticed, ucs_status_string(flushed), ucs_status_string(refused));
    }

private:
    static void on_error(void *arg, ucp_ep_h, ucs_status_t status) {
        auto *self = static_cast<Origin *>(arg);
        ++self->errors_;
        self->error_ = status;
    }
    ucs_status_ptr_t put() {
        ucp_request_param_t param{};
        return ucp_put_nbx(ep_, me_.memory, me_.bytes, base_, rkey_, &param);
    }
    ucs_status_t flush() {
        ucp_request_param_t param{};
        return me_.finish(ucp_ep_flush_nbx(ep_, &param), "the end of a flush");
    }

    Process me_;
    pid_t child_;
    uint64_t base_ = 0;
    ucp_ep_h ep_ = nullptr;
    ucp_rkey_h rkey_ = nullptr;
    int errors_ = 0;
    ucs_status_t error_ = UCS_OK;
};

} // namespace

int main(int argc, char **argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: ucp PUTS BYTES\n");
        return 2;
    }
    const size_t puts = std::strtoull(argv[1], nullptr, 0), bytes = std::strtoull(argv[2], nullptr, 0);
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    const pid_t child = fork(); // before any runtime is started
    if (child == 0) {
        close(pair[0]);
        std::_Exit(be_target(Peer(pair[1]), bytes));
    }
    close(pair[1]);
    must(hipSetDevice(0), "hipSetDevice");
    {
        Origin origin(Peer(pair[0]), child, bytes);
        origin.run(puts);
    }
    int status = 0;
    waitpid(child, &status, 0);
    check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the target ended by itself: %d", status);
    std::fflush(nullptr);
    return failures != 0;
}
