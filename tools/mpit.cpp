// SPDX-License-Identifier: BSD-3-Clause
#include "mpit.hpp"

#include <cinttypes>
#include <cstdio>
#include <string_view>

namespace tools {

namespace {

constexpr std::string_view prefix = "coll_sdma_";
constexpr const char *switch_name = "coll_sdma_enable";
constexpr int name_bytes = 256;

// Every user of the tool interface holds it open; initialisations are counted.
void tool_interface_up() {
    int provided = 0;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
}

} // namespace

Counters::Counters() {
    tool_interface_up();
    if (MPI_T_pvar_session_create(&session_) != MPI_SUCCESS)
        return;
    int count = 0;
    MPI_T_pvar_get_num(&count);
    for (int i = 0; i < count; ++i) {
        char name[name_bytes];
        int bytes = name_bytes, verbosity, var_class, bind, read_only, continuous, atomic;
        MPI_Datatype type;
        if (MPI_T_pvar_get_info(i, name, &bytes, &verbosity, &var_class, &type, nullptr, nullptr, nullptr, &bind,
                                &read_only, &continuous, &atomic) != MPI_SUCCESS)
            continue;
        if (!std::string_view(name).starts_with(prefix) || var_class != MPI_T_PVAR_CLASS_COUNTER ||
            bind != MPI_T_BIND_NO_OBJECT)
            continue;
        Handle handle{name + prefix.size(), MPI_T_PVAR_HANDLE_NULL};
        int elements = 0;
        if (MPI_T_pvar_handle_alloc(session_, i, nullptr, &handle.handle, &elements) != MPI_SUCCESS || elements != 1)
            continue;
        if (!continuous)
            MPI_T_pvar_start(session_, handle.handle);
        handles_.push_back(handle);
    }
}

Counters::~Counters() {
    if (session_ != MPI_T_PVAR_SESSION_NULL)
        MPI_T_pvar_session_free(&session_);
    MPI_T_finalize();
}

std::vector<Counter_value> Counters::read() const {
    std::vector<Counter_value> values;
    for (const Handle &handle : handles_) {
        unsigned long long value = 0;
        if (MPI_T_pvar_read(session_, handle.handle, &value) == MPI_SUCCESS)
            values.push_back({handle.name, value});
    }
    return values;
}

void print(const Counters &counters) {
    const std::vector<Counter_value> values = counters.read();
    if (values.empty())
        return;
    std::printf("# coll/sdma counters of rank 0:");
    for (const Counter_value &counter : values)
        if (counter.value > 0)
            std::printf(" %s=%" PRIu64, counter.name.c_str(), counter.value);
    std::printf("\n");
}

Switch::Switch() {
    tool_interface_up();
    int index = -1, elements = 0;
    if (MPI_T_cvar_get_index(switch_name, &index) == MPI_SUCCESS)
        if (MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &elements) != MPI_SUCCESS)
            handle_ = MPI_T_CVAR_HANDLE_NULL;
}

Switch::~Switch() {
    if (usable())
        MPI_T_cvar_handle_free(&handle_);
    MPI_T_finalize();
}

bool Switch::set(bool enable) {
    // Implementations store a flag as a bool or as an int; this is right for both.
    const union {
        int as_int;
        bool as_bool;
    } value{enable};
    return MPI_T_cvar_write(handle_, &value) == MPI_SUCCESS;
}

} // namespace tools
