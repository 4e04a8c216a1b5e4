// SPDX-License-Identifier: BSD-3-Clause
//
// What the UCT tests share: a domain with an interface of the transport `sdma`, as UCP would open it, GPU memory, and a
// pipe to the other process.
#pragma once

#include <hip/hip_runtime_api.h>
#include <uct/api/uct.h>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

inline int failures = 0;

__attribute__((format(printf, 2, 3))) inline bool check(bool good, const char *format, ...) {
    if (!good && failures++ < 20) {
        va_list arguments;
        va_start(arguments, format);
        std::fputs("FAILED: ", stderr);
        std::vfprintf(stderr, format, arguments);
        std::fputs("\n", stderr);
        va_end(arguments);
    }
    return good;
}

// What nothing can go on without.
inline void must(bool good, const char *what) {
    if (!check(good, "%s", what)) {
        std::_Exit(1);
    }
}
inline void must(ucs_status_t status, const char *what) {
    if (!check(status == UCS_OK, "%s: %s", what, ucs_status_string(status))) {
        std::_Exit(1);
    }
}
inline void must(hipError_t status, const char *what) {
    if (!check(status == hipSuccess, "%s: %s", what, hipGetErrorString(status))) {
        std::_Exit(1);
    }
}

// Progress until `done`, 30 s at most.
template <class Done> bool progress_until(uct_worker_h worker, Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done()) {
        uct_worker_progress(worker);
        if (std::chrono::steady_clock::now() > end) {
            return false;
        }
    }
    return true;
}

class Peer { // the other process
public:
    explicit Peer(int fd) : fd_(fd) {}
    template <class Value> void send(const Value &value) { send(&value, sizeof(value)); }
    template <class Value> Value receive() {
        Value value;
        receive(&value, sizeof(value));
        return value;
    }
    void send(const void *bytes, size_t count) {
        must(write(fd_, bytes, count) == static_cast<ssize_t>(count), "write to the other process");
    }
    bool has_sent() const {
        struct pollfd event = {fd_, POLLIN, 0};
        return poll(&event, 1, 0) == 1;
    }
    void receive(void *bytes, size_t count) {
        must(recv(fd_, bytes, count, MSG_WAITALL) == static_cast<ssize_t>(count), "read from the other process");
    }

private:
    int fd_;
};

class Memory { // on this process's GPU, registered
public:
    Memory(uct_md_h md, size_t bytes) : md_(md), bytes(bytes) {
        must(hipMalloc(&address, bytes), "hipMalloc");
        must(uct_md_mem_reg(md, address, bytes, UCT_MD_MEM_ACCESS_ALL, &memh), "registration");
    }
    ~Memory() {
        uct_md_mem_dereg(md_, memh);
        (void)hipFree(address);
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    void fill(const std::vector<uint8_t> &from, size_t at = 0) {
        must(hipMemcpy(static_cast<char *>(address) + at, from.data(), from.size(), hipMemcpyDefault), "hipMemcpy");
    }
    std::vector<uint8_t> content(size_t at, size_t count) const {
        std::vector<uint8_t> seen(count);
        must(hipMemcpy(seen.data(), static_cast<char *>(address) + at, count, hipMemcpyDefault), "hipMemcpy");
        return seen;
    }
    uct_iov_t iov(size_t at, size_t count) const { return {static_cast<char *>(address) + at, count, memh, 0, 1}; }

private:
    uct_md_h md_;

public:
    void *address = nullptr;
    uct_mem_h memh = nullptr;
    const size_t bytes;
};

class Transport {
public:
    Transport(uct_error_handler_t handler, void *arg) {
        ucs_async_context_t *async = nullptr;
        must(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async), "async context");
        must(uct_worker_create(async, UCS_THREAD_MODE_SINGLE, &worker), "worker");
        open_domain();
        uct_iface_config_t *config = nullptr;
        must(uct_md_iface_config_read(md, "sdma", nullptr, nullptr, &config), "configuration of the interface");
        uct_iface_params_t params{};
        params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
                            UCT_IFACE_PARAM_FIELD_ERR_HANDLER | UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG;
        params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
        params.mode.device.tl_name = "sdma";
        params.mode.device.dev_name = "sdma0";
        params.err_handler = handler;
        params.err_handler_arg = arg;
        must(uct_iface_open(md, worker, &params, config, &iface), "interface");
        uct_config_release(config);
        must(uct_iface_query(iface, &attr), "attributes");
        uct_iface_progress_enable(iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    }

    std::vector<uint8_t> key(uct_mem_h memh) const {
        uct_md_attr_t domain;
        must(uct_md_query(md, &domain), "attributes of the domain");
        std::vector<uint8_t> packed(domain.rkey_packed_size);
        must(uct_md_mkey_pack(md, memh, packed.data()), "key");
        return packed;
    }

    uct_component_h component = nullptr;
    uct_md_h md = nullptr;
    uct_worker_h worker = nullptr;
    uct_iface_h iface = nullptr;
    uct_iface_attr_t attr{};

private:
    void open_domain() {
        uct_component_h *components = nullptr;
        unsigned count = 0;
        must(uct_query_components(&components, &count), "components");
        for (unsigned i = 0; i < count; ++i) {
            uct_component_attr_t named{};
            named.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
            must(uct_component_query(components[i], &named), "component");
            if (std::strcmp(named.name, "sdma") == 0) {
                component = components[i];
            }
        }
        uct_release_component_list(components);
        must(component != nullptr, "the component is registered");
        uct_md_config_t *config = nullptr;
        must(uct_md_config_read(component, nullptr, nullptr, &config), "configuration of the domain");
        must(uct_md_open(component, "sdma", config, &md), "domain");
        uct_config_release(config);
    }
};
