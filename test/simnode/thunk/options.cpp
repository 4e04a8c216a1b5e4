// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>

#include <unistd.h>

#include "test/simnode/simnode.hpp"
#include "test/simnode/thunk/model.hpp"

namespace simnode {

namespace {

const char *text_of(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : nullptr;
}

Options parse() {
    Options options;
    if (const char *text = text_of("SDMA_SIMNODE_GPUS"))
        options.gpus = static_cast<unsigned>(strtoul(text, nullptr, 10));
    if (options.gpus < 1 || options.gpus > most_gpus) {
        complain("%u GPUs wanted, 1 to %u are possible", options.gpus, most_gpus);
        options.gpus = options.gpus < 1 ? 1 : most_gpus;
    }
    if (const char *text = text_of("SDMA_SIMNODE_GFX"))
        options.gfx = text;
    if (const char *text = text_of("SDMA_SIMNODE_VRAM"); text && !parse_bytes(text, options.vram))
        complain("SDMA_SIMNODE_VRAM=%s is not a size", text);
    if (const char *text = text_of("SDMA_SIMNODE_CHAOS"))
        options.chaos = strtoull(text, nullptr, 0);
    if (const char *text = text_of("SDMA_SIMNODE_TRACE"))
        options.trace = text;
    if (const char *text = text_of("SDMA_SIMNODE_FAULT")) {
        std::istringstream faults(text);
        for (std::string one; std::getline(faults, one, ';');) {
            Fault fault;
            if (parse_fault(one, fault))
                options.faults.push_back(fault);
            else
                complain("SDMA_SIMNODE_FAULT: cannot read \"%s\"", one.c_str());
        }
    }
    return options;
}

bool parse_number(const std::string &text, int64_t &value) {
    const char *const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    return error == std::errc{} && end == last && value >= 0;
}

int64_t own_rank() {
    for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"})
        if (const char *text = text_of(name))
            return atoll(text);
    return -1;
}

} // namespace

bool parse_fault(const std::string &text, Fault &fault) {
    constexpr const char *kinds[] = {"device-open", "attach", "slots", "no-ring-doorbell", "stall", "die"};
    std::istringstream words(text);
    std::string word;
    std::getline(words, fault.kind, ',');
    while (std::getline(words, word, ',')) {
        bool read = false;
        if (word.rfind("rank=", 0) == 0)
            read = parse_number(word.substr(5), fault.rank);
        else if (word.rfind("at=", 0) == 0)
            read = parse_number(word.substr(3), fault.at);
        if (!read)
            return false;
    }
    return std::find(std::begin(kinds), std::end(kinds), fault.kind) != std::end(kinds);
}

const Options &options() {
    // Never destroyed: worker threads may still run while the process exits.
    static const Options &parsed = *new Options(parse());
    return parsed;
}

const Fault *fault(const char *kind) {
    static const int64_t rank = own_rank();
    for (const Fault &fault : options().faults)
        if (fault.kind == kind && (fault.rank < 0 || fault.rank == rank))
            return &fault;
    return nullptr;
}

void complain(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char line[1100];
    const int length = snprintf(line, sizeof line, "sdma_simnode: [%d] %s\n", getpid(), text);
    // One write, so that lines of several processes do not mix.
    if (write(STDERR_FILENO, line, strnlen(line, static_cast<size_t>(length))) < 0)
        return;
}

} // namespace simnode
