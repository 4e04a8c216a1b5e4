// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <charconv>
#include <climits>
#include <initializer_list>
#include <string_view>

namespace tools {

namespace {

// Above this many bytes OSU's collective benchmarks run fewer iterations.
constexpr size_t large_message = 8192;
constexpr int small_iterations = 1000, large_iterations = 100;
constexpr int small_warmup = 200, large_warmup = 10;

bool parse_integer(std::string_view text, size_t limit, size_t &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() && value <= limit;
}

// "4096", "4K", "4M", "1G"
bool parse_size(std::string_view text, size_t &value) {
    unsigned shift = 0;
    if (!text.empty())
        switch (text.back()) {
        case 'k':
        case 'K':
            shift = 10;
            break;
        case 'm':
        case 'M':
            shift = 20;
            break;
        case 'g':
        case 'G':
            shift = 30;
            break;
        }
    if (shift)
        text.remove_suffix(1);
    if (!parse_integer(text, size_t{INT_MAX} >> shift, value))
        return false;
    value <<= shift;
    return true;
}

bool parse_range(std::string_view text, Options &options) {
    const size_t colon = text.find(':');
    if (colon != std::string_view::npos && !parse_size(text.substr(0, colon), options.smallest))
        return false;
    return parse_size(colon == std::string_view::npos ? text : text.substr(colon + 1), options.largest) &&
           options.smallest >= 1 && options.smallest <= options.largest;
}

// Empty, or what is wrong with a number of `what`.
std::string parse_count(const std::string &text, const char *what, int least, int &value) {
    size_t parsed = 0;
    if (!parse_integer(text, INT_MAX, parsed))
        return std::string("not a number of ") + what;
    if (static_cast<int>(parsed) < least)
        return "must be at least " + std::to_string(least);
    value = static_cast<int>(parsed);
    return {};
}

// One of the names of an enumeration that ends with `last`.
template <typename Kind> bool parse_name(const std::string &name, Kind last, Kind &value) {
    for (int i = 0; i <= static_cast<int>(last); ++i)
        if (name == to_string(static_cast<Kind>(i))) {
            value = static_cast<Kind>(i);
            return true;
        }
    return false;
}

std::string parse_valued(const std::string &option, const std::string &value, Options &options) {
    if (option == "-d" && !parse_memory(value, options.memory))
        return "-d " + value + ": not one of rocm, cuda, host";
    if (option == "-m" && !parse_range(value, options))
        return "-m " + value + ": not MIN:MAX in bytes with 1 <= MIN <= MAX <= 2147483647";
    if (option == "-w" && !parse_name(value, Window_kind::dynamic, options.window))
        return "-w " + value + ": not one of create, allocate, dynamic";
    if (option == "-s" && !parse_name(value, Sync::flush_local, options.sync))
        return "-s " + value + ": not one of flush, fence, pscw, lock, lock_all, flush_local";
    std::string error;
    if (option == "-i")
        error = parse_count(value, "iterations", 1, options.iterations);
    else if (option == "-x")
        error = parse_count(value, "warm-up iterations", 0, options.warmup);
    else if (option == "-W")
        error = parse_count(value, "operations", 1, options.messages);
    return error.empty() ? error : option + " " + value + ": " + error;
}

bool takes_value(const std::string &option) {
    for (const char *known : {"-d", "-m", "-i", "-x", "-w", "-s", "-W"})
        if (option == known)
            return true;
    return false;
}

} // namespace

const char *to_string(Window_kind kind) {
    constexpr const char *names[] = {"create", "allocate", "dynamic"};
    return names[static_cast<size_t>(kind)];
}

const char *to_string(Sync sync) {
    constexpr const char *names[] = {"flush", "fence", "pscw", "lock", "lock_all", "flush_local"};
    return names[static_cast<size_t>(sync)];
}

std::string parse(int argc, const char *const *argv, Options &options) {
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (takes_value(argument)) {
            if (++i == argc)
                return argument + ": needs a value";
            if (std::string error = parse_valued(argument, argv[i], options); !error.empty())
                return error;
        } else if (argument == "-c")
            options.check = true;
        else if (argument == "-f")
            options.full = true;
        else if (argument == "--ab")
            options.compare = true;
        else if (argument == "-h" || argument == "--help")
            options.help = true;
        else if (argument.starts_with("-"))
            return argument + ": unknown option";
        else if (options.verb.empty())
            options.verb = argument;
        else if ((argument == "D" || argument == "H") && options.places.size() < 2)
            options.places += argument;
        else
            return argument + ": unknown argument (one operation is run at a time)";
    }
    if (options.verb.empty() && !options.help)
        return "no operation given";
    if (options.places.size() == 1)
        return options.places + ": two letters are needed, for the origin and for the window";
    return {};
}

bool origin_on_device(const Options &options) {
    return options.places.empty() ? options.memory != Memory::host : options.places[0] == 'D';
}

bool window_on_device(const Options &options) {
    return options.places.empty() ? options.memory != Memory::host : options.places[1] == 'D';
}

std::string check_collective(const Options &options) {
    return options.places.empty() ? "" : "D, H: only for one-sided operations; -d says where collectives' buffers are";
}

std::string check_onesided(const Options &options) {
    if (options.compare)
        return "--ab: only for collectives";
    if (options.memory == Memory::host && options.places.find('D') != std::string::npos)
        return "D: which device memory? -d rocm or -d cuda says so";
    return {};
}

int iterations_for(const Options &options, size_t bytes) {
    if (options.iterations > 0)
        return options.iterations;
    return bytes > large_message ? large_iterations : small_iterations;
}

int warmup_for(const Options &options, size_t bytes) {
    if (options.warmup >= 0)
        return options.warmup;
    return bytes > large_message ? large_warmup : small_warmup;
}

} // namespace tools
