// SPDX-License-Identifier: BSD-3-Clause
//
// Counters and parameters of the component through MPI_T, as a tool would use them.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

// All performance variables coll_sdma_* and osc_sdma_*: both are the library's. A handle counts from its allocation, so
// make this before the work.
class Counters {
public:
    Counters() = default;
    ~Counters() = default;
    Counters(const Counters &) = delete;
    Counters &operator=(const Counters &) = delete;

    // After MPI_Init. Without the component there are none, and every value is 0.
    void open() {
        int provided = 0;
        MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
        MPI_T_pvar_session_create(&session_);
        int count = 0;
        MPI_T_pvar_get_num(&count);
        for (int i = 0; i < count; ++i) {
            char name[256];
            int name_length = sizeof(name);
            int help_length = 0;
            int verbosity = 0;
            int kind = 0;
            int bind = 0;
            int read_only = 0;
            int continuous = 0;
            int atomic = 0;
            MPI_Datatype type = MPI_DATATYPE_NULL;
            MPI_T_enum enumeration = MPI_T_ENUM_NULL;
            if (MPI_T_pvar_get_info(i, name, &name_length, &verbosity, &kind, &type, &enumeration, nullptr,
                                    &help_length, &bind, &read_only, &continuous, &atomic) != MPI_SUCCESS) {
                continue;
            }
            const std::string full = name;
            const size_t prefix = full.find("_sdma_");
            if ((full.rfind("coll_sdma_", 0) != 0 && full.rfind("osc_sdma_", 0) != 0) ||
                kind != MPI_T_PVAR_CLASS_COUNTER || type != MPI_UNSIGNED_LONG_LONG) {
                continue;
            }
            MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
            int elements = 0;
            if (MPI_T_pvar_handle_alloc(session_, i, nullptr, &handle, &elements) == MPI_SUCCESS && elements == 1) {
                handles_[full.substr(prefix + std::string("_sdma_").size())] = handle;
            }
        }
    }

    bool known(const std::string &name) const { return handles_.count(name) != 0; }

    unsigned long long operator[](const std::string &name) const {
        unsigned long long value = 0;
        const auto found = handles_.find(name);
        if (found != handles_.end()) {
            MPI_T_pvar_read(session_, found->second, &value);
        }
        return value;
    }

    // " name=value" for every counter above 0 whose name starts so.
    std::string text(const std::string &start) const {
        std::string text;
        for (const auto &[name, handle] : handles_) {
            if (name.rfind(start, 0) == 0 && (*this)[name] > 0) {
                text += " " + name + "=" + std::to_string((*this)[name]);
            }
        }
        return text;
    }

private:
    MPI_T_pvar_session session_ = MPI_T_PVAR_SESSION_NULL;
    std::map<std::string, MPI_T_pvar_handle> handles_;
};

// One control variable.
class Variable {
public:
    explicit Variable(const char *name) {
        int index = 0;
        good_ = MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
                MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &elements_) == MPI_SUCCESS;
    }
    bool good() const { return good_; }

protected:
    MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
    int elements_ = 0;
    bool good_ = false;
};

// Read and written as the C type it has.
template <class Type> class Control : public Variable {
public:
    explicit Control(const char *name) : Variable(name) { good_ = good_ && elements_ == 1; }
    Type read() const {
        Type value{};
        if (good_) {
            MPI_T_cvar_read(handle_, &value);
        }
        return value;
    }
    bool write(Type value) { return good_ && MPI_T_cvar_write(handle_, &value) == MPI_SUCCESS; }
};

// A string, of which MPI_T takes the characters themselves.
class Text_control : public Variable {
public:
    explicit Text_control(const char *name) : Variable(name) {}
    std::string read() const {
        std::string value(static_cast<size_t>(elements_) + 1, '\0');
        if (good_) {
            MPI_T_cvar_read(handle_, value.data());
        }
        return value.c_str();
    }
    bool write(const std::string &text) { return good_ && MPI_T_cvar_write(handle_, text.c_str()) == MPI_SUCCESS; }
};
