// SPDX-License-Identifier: BSD-3-Clause
//
// What the C interfaces share: the process's one context, and keeping exceptions in.
#pragma once

#include <exception>

#include "base/base.hpp"
#include "op/context.hpp"

namespace sdma {

op::Platform process_platform();

// The context lives from the first of these to the last, after a fault for ever. No static destructor touches a GPU
// runtime: at exit it may be gone.
class Hold {
public:
    Hold();
    ~Hold();
    Hold(const Hold &) = delete;
    Hold &operator=(const Hold &) = delete;

    op::Context &context;
};

// Runs `body` with the context, if there is one and nobody is just making or ending it.
int with_context(int (*body)(op::Context &));

// Runs `body`; an exception, which can only be lack of memory, becomes `otherwise`.
template <class Result, class Body> Result guarded(Result otherwise, Body body) noexcept {
    try {
        return body();
    } catch (const std::exception &error) {
        log(0, "%s", error.what());
        return otherwise;
    }
}

} // namespace sdma
