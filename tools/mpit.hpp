// SPDX-License-Identifier: BSD-3-Clause
//
// The component's counters and switch, through the MPI tool interface.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mpi.h>

namespace tools {

// A counter's name without the component's prefix, and its value.
struct Counter_value {
    std::string name;
    uint64_t value;
};

// All counters named coll_sdma_*, of this process, since this object was made: a handle counts
// from its allocation. Empty where the component is not loaded.
class Counters {
public:
    Counters();
    ~Counters();
    Counters(const Counters &) = delete;
    Counters &operator=(const Counters &) = delete;

    std::vector<Counter_value> read() const;

private:
    struct Handle {
        std::string name;
        MPI_T_pvar_handle handle;
    };
    MPI_T_pvar_session session_ = MPI_T_PVAR_SESSION_NULL;
    std::vector<Handle> handles_;
};

// Those that moved, on one line.
void print(const Counters &counters);

// Writes coll_sdma_enable in this process. Every rank must do so before the next operation that
// is to see it.
class Switch {
public:
    Switch();
    ~Switch();
    Switch(const Switch &) = delete;
    Switch &operator=(const Switch &) = delete;

    bool usable() const { return handle_ != MPI_T_CVAR_HANDLE_NULL; }
    bool set(bool enable);

private:
    MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
};

} // namespace tools
