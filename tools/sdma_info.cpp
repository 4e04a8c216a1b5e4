// SPDX-License-Identifier: BSD-3-Clause
//
// sdma_info: what mpi-sdma sees on this machine and would use. It is an application like any other:
// the GPU runtime is started here, never by the library.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>

#include "common/sdma/sdma.h"
#include "device_memory.hpp"

namespace {

// Where a machine has ROCr but no HIP. hsa_status_t is an int with 0 for success.
bool start_rocr(std::string &error) {
    void *library = dlopen("libhsa-runtime64.so.1", RTLD_NOW | RTLD_GLOBAL); // stays open
    const auto init = library ? reinterpret_cast<int (*)()>(dlsym(library, "hsa_init")) : nullptr;
    const int status = init ? init() : 0;
    if (!init)
        error = "libhsa-runtime64.so.1 cannot be loaded";
    else if (status != 0)
        error = "hsa_init failed with status " + std::to_string(status);
    return error.empty();
}

// CUDA starts a device at its first use, and the library looks at those only that the application has started.
void start_devices(tools::Device_memory &gpus) {
    for (int device = 0; device < gpus.devices(); device++)
        if (void *memory = gpus.select(device) ? gpus.allocate(1) : nullptr)
            gpus.deallocate(memory);
}

// Starts the first runtime that works; what the others lacked is in `missing` if none does.
bool start_runtime(std::vector<std::string> &missing) {
    for (const tools::Memory memory : {tools::Memory::rocm, tools::Memory::cuda}) {
        std::string error;
        if (const auto gpus = tools::Device_memory::open(memory, error)) {
            if (memory == tools::Memory::cuda)
                start_devices(*gpus);
            return true;
        }
        missing.push_back((memory == tools::Memory::rocm ? "HIP: " : "CUDA: ") + error);
    }
    std::string error;
    if (start_rocr(error))
        return true;
    missing.push_back("ROCr: " + error);
    return false;
}

void print_help() {
    std::puts("usage: sdma_info [--json]\n\n"
              "Prints the GPUs of this machine, the ways to get SDMA queues and why some are not in use,\n"
              "and the parameters. Exit status 0, also where there is no GPU.");
}

} // namespace

int main(int argc, char **argv) {
    bool json = false;
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        if (argument == "--json")
            json = true;
        else if (argument == "--help" || argument == "-h") {
            print_help();
            return EXIT_SUCCESS;
        } else {
            std::fprintf(stderr, "sdma_info: %s: unknown argument\n", argv[i]);
            return EXIT_FAILURE;
        }
    }

    std::vector<std::string> missing;
    const bool started = start_runtime(missing);
    const std::unique_ptr<char, decltype(&std::free)> description(sdma_describe(json), &std::free);
    if (!description) {
        std::fprintf(stderr, "sdma_info: out of memory\n");
        return EXIT_FAILURE;
    }
    std::fputs(description.get(), stdout);
    if (!started) {
        // JSON stays alone on standard output.
        FILE *const notes = json ? stderr : stdout;
        std::fputs("no GPU runtime could be started on this machine:\n", notes);
        for (const std::string &line : missing)
            std::fprintf(notes, "  %s\n", line.c_str());
    }
    return EXIT_SUCCESS;
}
