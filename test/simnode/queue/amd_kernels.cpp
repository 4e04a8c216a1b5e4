// SPDX-License-Identifier: BSD-3-Clause
#include "amd_kernels.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include <hsa/amd_hsa_kernel_code.h>

#include "idle.hpp"
#include "test/simnode/simnode.hpp"

namespace simnode {
namespace {

template <typename T> T *at(uint64_t address) {
    return reinterpret_cast<T *>(static_cast<uintptr_t>(cpu_address(address)));
}

struct Fault_error {
    std::string text;
};

// Arguments of one launch by index, and checked memory of its GPU.
class Launch {
public:
    Launch(const Kernel &kernel, const Dispatch &dispatch) : kernel_(kernel), dispatch_(dispatch) {}

    size_t arguments() const { return kernel_.arguments.size(); }
    uint64_t items(unsigned dimension = 0) const { return dispatch_.grid[dimension]; }
    bool stopped() const { return dispatch_.stopped(); }

    // Argument `index`, or word `word` of a vector argument.
    uint64_t operator()(size_t index, unsigned word = 0) const {
        if (index >= kernel_.arguments.size())
            throw Fault_error{"has no argument " + std::to_string(index)};
        const Argument &argument = kernel_.arguments[index];
        uint64_t value = 0;
        size_t skip = word * sizeof value;
        memcpy(&value, dispatch_.kernarg + argument.offset + skip,
               std::min<size_t>(sizeof value, argument.bytes - skip));
        return value;
    }

    void need(const char *what, uint64_t address, uint64_t bytes) const {
        if (bytes == 0 || accessible(dispatch_.gpu, address, bytes))
            return;
        char text[120];
        snprintf(text, sizeof text, "%s 0x%" PRIx64 " + %" PRIu64 " bytes is not accessible to the gpu", what, address,
                 bytes);
        throw Fault_error{text};
    }
    void copy(uint64_t destination, uint64_t source, uint64_t bytes) const {
        need("source", source, bytes);
        need("destination", destination, bytes);
        if (bytes)
            memmove(at<void>(destination), at<void>(source), bytes);
    }

private:
    const Kernel &kernel_;
    const Dispatch &dispatch_;
};

// (src, dst, source origin, destination origin, size, remain), or from HIP 6 on
// (src, dst, size, remainder, unit, end of the units, ...).
void copy_buffer(const Launch &launch) {
    if (launch.arguments() >= 8) {
        uint64_t source = launch(0), destination = launch(1), bytes = launch(2), rest = launch(3), unit = launch(4);
        uint64_t body = launch(5) > destination ? launch(5) - destination : 0;
        body = unit ? (body + unit - 1) / unit * unit : body;
        launch.copy(destination, source, body);
        launch.copy(destination + bytes - rest, source + bytes - rest, rest);
        return;
    }
    // One item a byte if `remain` is 8; else one a dword, and the last one `remain` bytes.
    uint64_t items = std::min(launch(4), launch.items()), remain = launch(5);
    uint64_t bytes = remain == 8 || items == 0 ? items : (launch(4) - 1) * 4 + remain;
    if (remain != 8 && items < launch(4))
        bytes = items * 4;
    launch.copy(launch(1) + launch(3), launch(0) + launch(2), bytes);
}

// (src, dst, source origin, destination origin, size, alignment): one item a unit of 4 or 16 bytes.
void copy_buffer_aligned(const Launch &launch) {
    uint64_t unit = launch(5) == 16 ? 16 : 4, items = std::min(launch(4), launch.items());
    launch.copy(launch(1) + launch(3) * unit, launch(0) + launch(2) * unit, items * unit);
}

// (src, dst, source rectangle, destination rectangle, size): a rectangle is {row pitch, slice
// pitch, start}, all in units.
void copy_rectangle(const Launch &launch, uint64_t unit) {
    uint64_t source = launch(0), destination = launch(1);
    uint64_t width = std::min(launch(4, 0), launch.items(0));
    uint64_t rows = std::min(launch(4, 1), launch.items(1)), planes = std::min(launch(4, 2), launch.items(2));
    for (uint64_t z = 0; z < planes; z++)
        for (uint64_t y = 0; y < rows; y++) {
            uint64_t from = launch(2, 2) + y * launch(2, 0) + z * launch(2, 1);
            uint64_t to = launch(3, 2) + y * launch(3, 0) + z * launch(3, 1);
            launch.copy(destination + to * unit, source + from * unit, width * unit);
        }
}
void copy_buffer_rect(const Launch &launch) { copy_rectangle(launch, 1); }
void copy_buffer_rect_aligned(const Launch &launch) { copy_rectangle(launch, launch(4, 3) == 16 ? 16 : 4); }

// One of the four pointers (byte, short, int, long) is set; patterns count in that unit.
struct Fill_target {
    uint64_t address, unit;
};
Fill_target fill_target(const Launch &launch) {
    for (unsigned i = 4; i-- > 0;)
        if (launch(i))
            return {launch(i), uint64_t{1} << i};
    throw Fault_error{"has no target"};
}

void repeat(const Launch &launch, uint64_t destination, uint64_t pattern, uint64_t pattern_bytes, uint64_t count) {
    launch.need("pattern", pattern, pattern_bytes);
    launch.need("destination", destination, count * pattern_bytes);
    for (uint64_t i = 0; i < count; i++)
        memcpy(at<void>(destination + i * pattern_bytes), at<void>(pattern), pattern_bytes);
}

// (byte*, short*, int*, long*, pattern, units of the pattern, offset, patterns), or from HIP 6 on
// (buffer, pattern, units of the pattern, unit, end, items in the grid, workgroup).
void fill_buffer_aligned(const Launch &launch) {
    if (launch.arguments() == 7) {
        uint64_t pattern_bytes = launch(2) * launch(3), end = launch(4);
        if (pattern_bytes && end > launch(0))
            repeat(launch, launch(0), launch(1), pattern_bytes, (end - launch(0) + pattern_bytes - 1) / pattern_bytes);
        return;
    }
    Fill_target target = fill_target(launch);
    repeat(launch, target.address + launch(6) * target.unit, launch(4), launch(5) * target.unit,
           std::min(launch(7), launch.items()));
}

// (byte*, short*, int*, long*, pattern, units of the pattern, origin, width, height, pitch)
void fill_buffer_aligned_2d(const Launch &launch) {
    Fill_target target = fill_target(launch);
    uint64_t pattern_bytes = launch(5) * target.unit;
    uint64_t width = std::min(launch(7), launch.items(0)), height = std::min(launch(8), launch.items(1));
    for (uint64_t y = 0; y < height; y++)
        for (uint64_t x = 0; x < width; x++)
            repeat(launch, target.address + (launch(6) + y * launch(9) + x) * target.unit, launch(4), pattern_bytes, 1);
}

// (int*, long*, value, ...): 32 bits if the first is set.
void stream_write(const Launch &launch) {
    if (launch(0)) {
        launch.need("word", launch(0), 4);
        __atomic_store_n(at<uint32_t>(launch(0)), static_cast<uint32_t>(launch(2)), __ATOMIC_RELEASE);
    } else {
        launch.need("word", launch(1), 8);
        __atomic_store_n(at<uint64_t>(launch(1)), launch(2), __ATOMIC_RELEASE);
    }
}

// (int*, long*, value, comparison, mask)
void stream_wait(const Launch &launch) {
    bool word = launch(0) != 0;
    launch.need("word", word ? launch(0) : launch(1), word ? 4 : 8);
    uint64_t all = word ? 0xffffffff : ~uint64_t{0}, wanted = launch(2) & all, mask = launch(4) & all;
    auto holds = [&](uint64_t value) {
        switch (launch(3)) {
        case 0:
            return (value & mask) >= wanted;
        case 1:
            return (value & mask) == wanted;
        case 2:
            return (value & mask & wanted) != 0;
        default:
            return ((value | wanted) & mask) != mask; // NOR
        }
    };
    auto load = [&] {
        return word ? __atomic_load_n(at<uint32_t>(launch(0)), __ATOMIC_ACQUIRE)
                    : __atomic_load_n(at<uint64_t>(launch(1)), __ATOMIC_ACQUIRE);
    };
    for (Backoff backoff; !holds(load()) && !launch.stopped();)
        backoff.pause();
}

// Set-up of device-side malloc and of global wave sync, neither of which twins use.
void nothing(const Launch &) {}

constexpr struct {
    const char *name;
    void (*run)(const Launch &);
} hip_kernels[] = {
    {"__amd_rocclr_copyBuffer", copy_buffer},
    {"__amd_rocclr_copyBufferAligned", copy_buffer_aligned},
    {"__amd_rocclr_copyBufferRect", copy_buffer_rect},
    {"__amd_rocclr_copyBufferRectAligned", copy_buffer_rect_aligned},
    {"__amd_rocclr_fillBufferAligned", fill_buffer_aligned},
    {"__amd_rocclr_fillBufferAligned2D", fill_buffer_aligned_2d},
    {"__amd_rocclr_streamOpsWrite", stream_write},
    {"__amd_rocclr_streamOpsWait", stream_wait},
    {"__amd_rocclr_initHeap", nothing},
    {"__amd_rocclr_gwsInit", nothing},
};

// ROCr's blit kernels carry no name. Their register allocation tells them apart (the same in all
// releases and for all targets: granules of 4 VGPRs and 8 SGPRs).
void run_raw(uint32_t registers, const Launch &launch, const uint8_t *kernarg) {
    uint64_t word[10];
    launch.need("kernel arguments", reinterpret_cast<uintptr_t>(kernarg), sizeof word);
    memcpy(word, kernarg, sizeof word);
    constexpr uint32_t copy_aligned = 2 | 3 << 6, copy_misaligned = 2 | 2 << 6, fill = 1 | 2 << 6;
    if (registers == copy_aligned) { // four phases, start to start; then the two ends
        if (word[8] - word[0] != word[9] - word[1])
            throw Fault_error{"aligned copy: source and destination differ in length"};
        launch.copy(word[1], word[0], word[8] - word[0]);
    } else if (registers == copy_misaligned) { // two phases
        if (word[4] - word[0] != word[5] - word[1])
            throw Fault_error{"misaligned copy: source and destination differ in length"};
        launch.copy(word[1], word[0], word[4] - word[0]);
    } else if (registers == fill) { // two phases, end, dword
        launch.need("destination", word[0], word[2] - word[0]);
        std::fill(at<uint32_t>(word[0]), at<uint32_t>(word[2]), static_cast<uint32_t>(word[3]));
    } else {
        throw Fault_error{"unknown kernel without a code object"};
    }
}

} // namespace

Served run_hip_kernel(const Kernel &kernel, const Dispatch &dispatch, std::string &error) {
    for (auto &entry : hip_kernels) {
        if (kernel.name != entry.name)
            continue;
        try {
            entry.run(Launch(kernel, dispatch));
            return Served::yes;
        } catch (const Fault_error &fault) {
            error = kernel.name + ": " + fault.text;
            return Served::failed;
        }
    }
    return Served::unknown;
}

Served run_rocr_kernel(uint64_t kernel_object, const Dispatch &dispatch, std::string &error) {
    if (!accessible(dispatch.gpu, kernel_object, sizeof(amd_kernel_code_t)))
        return Served::unknown;
    amd_kernel_code_t code;
    memcpy(&code, at<void>(kernel_object), sizeof code);
    if (code.kernel_code_entry_byte_offset != sizeof code)
        return Served::unknown;
    constexpr uint32_t register_fields = 0x3ff; // COMPUTE_PGM_RSRC1: VGPRs [5:0], SGPRs [9:6]
    Kernel none;
    try {
        run_raw(code.compute_pgm_rsrc1 & register_fields, Launch(none, dispatch), dispatch.kernarg);
        return Served::yes;
    } catch (const Fault_error &fault) {
        error = "ROCr blit kernel: " + fault.text;
        return Served::failed;
    }
}

} // namespace simnode
