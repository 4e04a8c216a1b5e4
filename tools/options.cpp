// SPDX-License-Identifier: BSD-3-Clause
#include "options.hpp"

#include <charconv>
#include <climits>
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

bool parse_count(std::string_view text, int least, int &value) {
    size_t parsed = 0;
    if (!parse_integer(text, INT_MAX, parsed) || static_cast<int>(parsed) < least)
        return false;
    value = static_cast<int>(parsed);
    return true;
}

std::string parse_valued(const std::string &option, const std::string &value, Options &options) {
    if (option == "-d" && !parse_memory(value, options.memory))
        return "-d " + value + ": not one of rocm, cuda, host";
    if (option == "-m" && !parse_range(value, options))
        return "-m " + value + ": not MIN:MAX bytes per peer with 1 <= MIN <= MAX <= 2147483647";
    if (option == "-i" && !parse_count(value, 1, options.iterations))
        return "-i " + value + ": not a number of iterations";
    if (option == "-x" && !parse_count(value, 0, options.warmup))
        return "-x " + value + ": not a number of warm-up iterations";
    return {};
}

} // namespace

std::string parse(int argc, const char *const *argv, Options &options) {
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "-d" || argument == "-m" || argument == "-i" || argument == "-x") {
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
        else
            return argument + ": only one operation can be run at a time";
    }
    if (options.verb.empty() && !options.help)
        return "no operation given";
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
