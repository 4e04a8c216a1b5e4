// SPDX-License-Identifier: BSD-3-Clause
//
// Parameters and counters of libmpisdma by name, for programs that switch ways at run time.
#pragma once

#include <cstring>
#include <string>

#include "common/sdma/sdma.h"
#include "give_up.hpp"

inline const sdma_param_t &parameter(const std::string &name) {
    size_t count = 0;
    const sdma_param_t *rows = sdma_params(&count);
    for (size_t i = 0; i < count; i++)
        if (name == rows[i].name) {
            if (!rows[i].settable)
                give_up("parameter " + name + " cannot be set at run time");
            return rows[i];
        }
    give_up("there is no parameter " + name);
}

inline std::string get_parameter(const std::string &name) {
    const sdma_param_t &row = parameter(name);
    switch (row.type) {
    case SDMA_PARAM_BOOL:
        return *static_cast<bool *>(row.value) ? "1" : "0";
    case SDMA_PARAM_INT:
        return std::to_string(*static_cast<int *>(row.value));
    case SDMA_PARAM_SIZE:
        return std::to_string(*static_cast<size_t *>(row.value));
    case SDMA_PARAM_STRING:
        break;
    }
    return *static_cast<const char **>(row.value);
}

inline void set_parameter(const std::string &name, const std::string &value) {
    const sdma_param_t &row = parameter(name);
    switch (row.type) {
    case SDMA_PARAM_BOOL:
        *static_cast<bool *>(row.value) = value == "1";
        break;
    case SDMA_PARAM_INT:
        *static_cast<int *>(row.value) = std::stoi(value);
        break;
    case SDMA_PARAM_SIZE:
        *static_cast<size_t *>(row.value) = std::stoull(value);
        break;
    case SDMA_PARAM_STRING:
        sdma_param_set(&row, value.c_str());
        break;
    }
}

inline const uint64_t *counter(const char *name) {
    size_t count = 0;
    const sdma_counter_t *rows = sdma_counters(&count);
    for (size_t i = 0; i < count; i++)
        if (std::strcmp(name, rows[i].name) == 0)
            return rows[i].value;
    give_up(std::string("there is no counter ") + name);
}
