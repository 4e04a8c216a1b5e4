// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of the simulated node: checks that count, and a second process to talk to.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

inline int failures = 0;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: [%d] failed: %s\n", __FILE__, __LINE__, getpid(), #condition);                     \
            ++failures;                                                                                                \
        }                                                                                                              \
    } while (0)

// For what the rest of the program depends on.
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: [%d] failed: %s\n", __FILE__, __LINE__, getpid(), #condition);                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

constexpr int patience_ms = 30000;

// Fixed-size messages through pipes; a peer that says nothing for long is a failure.
template <typename T> void send_to(int fd, const T &message) {
    REQUIRE(write(fd, &message, sizeof message) == static_cast<ssize_t>(sizeof message));
}
template <typename T> T receive_from(int fd) {
    T message;
    pollfd ready{fd, POLLIN, 0};
    REQUIRE(poll(&ready, 1, patience_ms) == 1);
    REQUIRE(read(fd, &message, sizeof message) == static_cast<ssize_t>(sizeof message));
    return message;
}

// This program once more, as `role`; it speaks on its standard input and output.
class Other {
public:
    explicit Other(const char *role) {
        int down[2], up[2];
        REQUIRE(pipe(down) == 0 && pipe(up) == 0);
        process_ = fork();
        REQUIRE(process_ >= 0);
        if (process_ == 0) {
            dup2(down[0], STDIN_FILENO);
            dup2(up[1], STDOUT_FILENO);
            for (int fd : {down[0], down[1], up[0], up[1]})
                close(fd);
            execl("/proc/self/exe", "selftest", role, nullptr);
            _exit(127);
        }
        close(down[0]);
        close(up[1]);
        to_ = down[1];
        from_ = up[0];
    }
    ~Other() {
        close(to_);
        close(from_);
        if (process_ > 0)
            CHECK(wait() == 0);
    }
    Other(const Other &) = delete;

    template <typename T> void send(const T &message) { send_to(to_, message); }
    template <typename T> T receive() { return receive_from<T>(from_); }
    void kill_it() {
        REQUIRE(kill(process_, SIGKILL) == 0);
        wait();
    }

private:
    int wait() {
        int status = 0;
        REQUIRE(waitpid(process_, &status, 0) == process_);
        process_ = -1;
        return status;
    }
    pid_t process_;
    int to_, from_;
};

inline int64_t milliseconds_now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}
