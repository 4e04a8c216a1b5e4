// SPDX-License-Identifier: BSD-3-Clause
//
// What -c found: a line for the first wrong byte of a rank, and Pass or Fail for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "options.hpp"

namespace tools {

class Verdict {
public:
    explicit Verdict(const Options &options) : options_(options) {}
    void complain(size_t bytes, uint32_t iteration, const std::string &where, unsigned found, unsigned expected);
    // Collective. Rank 0 prints it if -c was given.
    bool all_correct() const;

private:
    const Options &options_;
    int wrong_ = 0; // iterations of this rank with a wrong byte
};

} // namespace tools
