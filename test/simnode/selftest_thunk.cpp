// SPDX-License-Identifier: BSD-3-Clause
//
// The simulated thunk by itself, as ROCr and the user-queue back end use it. Run under
// sdma_simnode --gpus 4 --vram 256M.
#include <atomic>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <hsakmt.h>
#include <sys/mman.h>

#include "test/simnode/selftest.hpp"

namespace {

constexpr uint32_t gpus = 4;
constexpr uint32_t ordinary_engines = 2;

// Of the two kinds of GPU that this is run with.
uint32_t xgmi_engines() { return getenv("SDMA_SIMNODE_GFX") == std::string("gfx942") ? 14 : 3; }
constexpr size_t mebibyte = size_t{1} << 20;
constexpr size_t vram = 256 * mebibyte;

// Not in the header of ROCm 5.2.
using Available = HSAKMT_STATUS (*)(HSAuint32, HSAuint64 *);
using Create_ext = HSAKMT_STATUS (*)(HSAuint32, HSA_QUEUE_TYPE, HSAuint32, HSA_QUEUE_PRIORITY, HSAuint32, void *,
                                     HSAuint64, HsaEvent *, HsaQueueResource *);
constexpr auto by_engine_id = static_cast<HSA_QUEUE_TYPE>(6);

template <typename F> F later(const char *name) {
    auto function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
    REQUIRE(function);
    return function;
}

size_t available(uint32_t node) {
    HSAuint64 bytes = 0;
    REQUIRE(later<Available>("hsaKmtAvailableMemory")(node, &bytes) == HSAKMT_STATUS_SUCCESS);
    return bytes;
}

HsaMemFlags device_flags(bool executable = false) {
    HsaMemFlags flags{};
    flags.ui32.NonPaged = 1;
    flags.ui32.HostAccess = 1;
    flags.ui32.ExecuteAccess = executable;
    flags.ui32.Uncached = executable;
    return flags;
}

void *allocate(uint32_t node, size_t bytes, HsaMemFlags flags = device_flags()) {
    void *memory = nullptr;
    return hsaKmtAllocMemory(node, bytes, flags, &memory) == HSAKMT_STATUS_SUCCESS ? memory : nullptr;
}

void *allocate_mapped(uint32_t node, size_t bytes, HsaMemFlags flags = device_flags()) {
    void *memory = allocate(node, bytes, flags);
    HSAuint64 alternate;
    REQUIRE(memory && hsaKmtMapMemoryToGPU(memory, bytes, &alternate) == HSAKMT_STATUS_SUCCESS);
    return memory;
}

void release(void *memory, size_t bytes) {
    CHECK(hsaKmtUnmapMemoryToGPU(memory) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtFreeMemory(memory, bytes) == HSAKMT_STATUS_SUCCESS);
}

void test_topology() {
    HsaSystemProperties system;
    CHECK(hsaKmtAcquireSystemProperties(&system) == HSAKMT_STATUS_SUCCESS);
    CHECK(system.NumNodes == gpus + 1);
    std::set<uint32_t> places;
    for (uint32_t node = 1; node <= gpus; ++node) {
        HsaNodeProperties properties;
        CHECK(hsaKmtGetNodeProperties(node, &properties) == HSAKMT_STATUS_SUCCESS);
        CHECK(properties.NumFComputeCores > 0 && properties.NumIOLinks == gpus);
        CHECK(properties.NumSdmaEngines == ordinary_engines && properties.NumSdmaXgmiEngines == xgmi_engines());
        places.insert(properties.LocationId >> 8);
        std::vector<HsaIoLinkProperties> links(properties.NumIOLinks);
        CHECK(hsaKmtGetNodeIoLinkProperties(node, gpus, links.data()) == HSAKMT_STATUS_SUCCESS);
        for (const HsaIoLinkProperties &link : links)
            CHECK(link.NodeFrom == node && link.NodeTo != node && link.NodeTo <= gpus);
    }
    CHECK(places.size() == gpus);
    CHECK(hsaKmtGetNodeProperties(gpus + 1, nullptr) == HSAKMT_STATUS_INVALID_PARAMETER);
}

void test_pointers() {
    constexpr size_t bytes = 3 * mebibyte;
    void *memory = allocate(2, bytes);
    REQUIRE(memory);
    CHECK(reinterpret_cast<uint64_t>(memory) % (2 * mebibyte) == 0);
    HSAuint64 alternate = 0;
    uint32_t nodes[2] = {2, 4};
    CHECK(hsaKmtMapMemoryToGPUNodes(memory, bytes, &alternate, HsaMemMapFlags{}, 2, nodes) == HSAKMT_STATUS_SUCCESS);
    CHECK(alternate == reinterpret_cast<uint64_t>(memory));
    int mark = 0;
    CHECK(hsaKmtSetMemoryUserData(memory, &mark) == HSAKMT_STATUS_SUCCESS);
    HsaPointerInfo info;
    CHECK(hsaKmtQueryPointerInfo(static_cast<char *>(memory) + bytes - 1, &info) == HSAKMT_STATUS_SUCCESS);
    CHECK(info.Type == HSA_POINTER_ALLOCATED && info.Node == 2 && info.CPUAddress == memory);
    CHECK(info.SizeInBytes == bytes && info.UserData == &mark);
    CHECK(info.NMappedNodes == 2 && info.MappedNodes[0] == 2 && info.MappedNodes[1] == 4);
    CHECK(hsaKmtQueryPointerInfo(&mark, &info) != HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtFreeMemory(memory, bytes) != HSAKMT_STATUS_SUCCESS); // still mapped
    release(memory, bytes);
    CHECK(hsaKmtQueryPointerInfo(memory, &info) != HSAKMT_STATUS_SUCCESS);
}

void test_registration() {
    const int fd = memfd_create("segment", MFD_CLOEXEC);
    constexpr size_t bytes = 4 * 4096;
    REQUIRE(fd >= 0 && ftruncate(fd, bytes) == 0);
    void *segment = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(segment != MAP_FAILED);
    close(fd);
    HsaMemFlags flags{};
    HSAuint64 alternate;
    CHECK(hsaKmtRegisterMemoryWithFlags(segment, bytes, flags) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtMapMemoryToGPU(segment, bytes, &alternate) == HSAKMT_STATUS_SUCCESS);
    // The GPUs' address is another one, of the same memory.
    auto *seen = reinterpret_cast<uint32_t *>(alternate);
    CHECK(seen != segment);
    static_cast<uint32_t *>(segment)[2000] = 77;
    CHECK(seen[2000] == 77);
    for (const void *pointer :
         {static_cast<const void *>(static_cast<char *>(segment) + 5000), static_cast<const void *>(seen + 1250)}) {
        HsaPointerInfo info;
        CHECK(hsaKmtQueryPointerInfo(pointer, &info) == HSAKMT_STATUS_SUCCESS);
        CHECK(info.Type == HSA_POINTER_REGISTERED_USER && info.NMappedNodes == gpus && info.SizeInBytes == bytes);
        CHECK(info.CPUAddress == segment && info.GPUAddress == alternate);
    }
    HsaPointerInfo info;
    // A part of it once more, and the whole twice.
    void *part = static_cast<char *>(segment) + 4096;
    CHECK(hsaKmtRegisterMemoryWithFlags(part, 4096, flags) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtMapMemoryToGPU(part, 4096, &alternate) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtUnmapMemoryToGPU(part) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtDeregisterMemory(part) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtRegisterMemoryWithFlags(segment, bytes, flags) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtDeregisterMemory(segment) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtQueryPointerInfo(segment, &info) == HSAKMT_STATUS_SUCCESS && info.SizeInBytes == bytes);
    CHECK(hsaKmtUnmapMemoryToGPU(segment) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtDeregisterMemory(segment) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtDeregisterMemory(segment) == HSAKMT_STATUS_MEMORY_NOT_REGISTERED);
    // Two ranges from one start: an address alone does not say which, and neither is given up.
    HSAuint64 longer;
    CHECK(hsaKmtRegisterMemoryWithFlags(segment, 4096, flags) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtMapMemoryToGPU(segment, 4096, &alternate) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtRegisterMemoryWithFlags(segment, bytes, flags) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtMapMemoryToGPU(segment, bytes, &longer) == HSAKMT_STATUS_SUCCESS);
    CHECK(alternate != longer);
    CHECK(hsaKmtDeregisterMemory(segment) == HSAKMT_STATUS_MEMORY_NOT_REGISTERED);
    for (const HSAuint64 address : {alternate, longer})
        CHECK(hsaKmtQueryPointerInfo(reinterpret_cast<void *>(address), &info) == HSAKMT_STATUS_SUCCESS &&
              info.NMappedNodes == gpus);
    munmap(segment, bytes);
    CHECK(hsaKmtRegisterMemoryWithFlags(segment, bytes / 2, flags) != HSAKMT_STATUS_SUCCESS);
}

// Of several threads that register the same range none loses it to another that gives it up.
void test_registration_by_threads() {
    constexpr size_t bytes = 4096;
    void *range = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(range != MAP_FAILED);
    *static_cast<char *>(range) = 1;
    std::atomic<int> lost{0};
    const auto use = [&] {
        for (int i = 0; i < 20000; ++i) {
            HsaPointerInfo info;
            lost += hsaKmtRegisterMemoryWithFlags(range, bytes, HsaMemFlags{}) != HSAKMT_STATUS_SUCCESS;
            lost += hsaKmtQueryPointerInfo(range, &info) != HSAKMT_STATUS_SUCCESS;
            lost += hsaKmtDeregisterMemory(range) != HSAKMT_STATUS_SUCCESS;
        }
    };
    std::thread other(use);
    use();
    other.join();
    CHECK(lost == 0);
    munmap(range, bytes);
}

void test_out_of_memory() {
    CHECK(available(1) == vram);
    CHECK(!allocate(1, vram + 4096));
    void *most = allocate(1, vram - 2 * mebibyte);
    REQUIRE(most);
    CHECK(available(1) == 2 * mebibyte && available(2) == vram);
    void *refused = nullptr;
    CHECK(hsaKmtAllocMemory(1, 3 * mebibyte, device_flags(), &refused) == HSAKMT_STATUS_NO_MEMORY);
    CHECK(hsaKmtFreeMemory(most, vram - 2 * mebibyte) == HSAKMT_STATUS_SUCCESS);
    CHECK(available(1) == vram);
}

struct Offer {
    HsaSharedMemoryHandle handle;
    uint64_t bytes;
};

// Attach, check and change the memory, wait, detach.
int attach_for_parent() {
    REQUIRE(hsaKmtOpenKFD() == HSAKMT_STATUS_SUCCESS);
    const auto offer = receive_from<Offer>(STDIN_FILENO);
    void *memory = nullptr;
    HSAuint64 bytes = 0, alternate;
    REQUIRE(hsaKmtRegisterSharedHandle(&offer.handle, &memory, &bytes) == HSAKMT_STATUS_SUCCESS);
    CHECK(bytes == offer.bytes);
    CHECK(hsaKmtMapMemoryToGPU(memory, bytes, &alternate) == HSAKMT_STATUS_SUCCESS);
    HsaPointerInfo info;
    CHECK(hsaKmtQueryPointerInfo(memory, &info) == HSAKMT_STATUS_SUCCESS);
    CHECK(info.Type == HSA_POINTER_REGISTERED_SHARED && info.Node == 3);
    auto *words = static_cast<uint32_t *>(memory);
    CHECK(words[7] == 1234);
    words[8] = 4321;
    send_to(STDOUT_FILENO, 'a');
    receive_from<char>(STDIN_FILENO);
    CHECK(words[9] == 5); // still there after the owner's free
    CHECK(hsaKmtUnmapMemoryToGPU(memory) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtDeregisterMemory(memory) == HSAKMT_STATUS_SUCCESS);
    send_to(STDOUT_FILENO, 'd');
    return failures;
}

void test_sharing(bool killed) {
    constexpr size_t bytes = 64 * mebibyte;
    Other other("attach");
    void *memory = allocate_mapped(3, bytes);
    auto *words = static_cast<uint32_t *>(memory);
    words[7] = 1234;
    words[9] = 5;
    Offer offer{{}, bytes};
    CHECK(hsaKmtShareMemory(memory, bytes / 2, &offer.handle) != HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtShareMemory(memory, bytes, &offer.handle) == HSAKMT_STATUS_SUCCESS);
    CHECK(offer.handle[6] == 0 && offer.handle[7] == 0);
    other.send(offer);
    CHECK(other.receive<char>() == 'a');
    CHECK(words[8] == 4321);
    CHECK(available(3) == vram - bytes); // charged once
    release(memory, bytes);
    CHECK(available(3) == vram - bytes); // the peer still holds it
    if (killed) {
        other.kill_it();
    } else {
        other.send('g');
        CHECK(other.receive<char>() == 'd');
    }
    CHECK(available(3) == vram);
    HSAuint64 size;
    CHECK(hsaKmtRegisterSharedHandle(&offer.handle, &memory, &size) != HSAKMT_STATUS_SUCCESS); // stale
}

// The exporter's descriptor may be another allocation's by the time it is opened: all or nothing.
void test_reused_descriptor() {
    constexpr size_t bytes = 4096;
    auto *memory = static_cast<uint32_t *>(allocate_mapped(3, bytes));
    *memory = 77;
    HsaSharedMemoryHandle handle;
    REQUIRE(hsaKmtShareMemory(memory, bytes, &handle) == HSAKMT_STATUS_SUCCESS);
    const int number = static_cast<int>(handle[2]), right = dup(number), wrong = memfd_create("wrong", MFD_CLOEXEC);
    REQUIRE(right >= 0 && wrong >= 0 && ftruncate(wrong, bytes) == 0);
    std::atomic<bool> stop{false};
    std::thread swapper([&] {
        while (!stop)
            for (const int fd : {wrong, right})
                dup2(fd, number);
    });
    int mapped = 0;
    for (int i = 0; i < 3000; ++i) {
        void *seen = nullptr;
        HSAuint64 size = 0;
        if (hsaKmtRegisterSharedHandle(&handle, &seen, &size) != HSAKMT_STATUS_SUCCESS)
            continue;
        ++mapped;
        CHECK(*static_cast<uint32_t *>(seen) == 77);
        CHECK(hsaKmtDeregisterMemory(seen) == HSAKMT_STATUS_SUCCESS);
    }
    stop = true;
    swapper.join();
    CHECK(mapped > 0);
    close(right);
    close(wrong);
    release(memory, bytes);
}

int hold_for_parent() {
    REQUIRE(hsaKmtOpenKFD() == HSAKMT_STATUS_SUCCESS);
    REQUIRE(allocate_mapped(4, 128 * mebibyte));
    send_to(STDOUT_FILENO, 'h');
    receive_from<char>(STDIN_FILENO);
    return 0;
}

void test_killed_owner() {
    Other other("hold");
    CHECK(other.receive<char>() == 'h');
    CHECK(available(4) == vram - 128 * mebibyte);
    CHECK(!allocate(4, 192 * mebibyte));
    other.kill_it();
    void *memory = allocate(4, 192 * mebibyte);
    CHECK(memory && hsaKmtFreeMemory(memory, 192 * mebibyte) == HSAKMT_STATUS_SUCCESS);
}

HsaEvent *make_event(bool manual) {
    HsaEventDescriptor descriptor{};
    descriptor.EventType = HSA_EVENTTYPE_SIGNAL;
    HsaEvent *event = nullptr;
    REQUIRE(hsaKmtCreateEvent(&descriptor, manual, false, &event) == HSAKMT_STATUS_SUCCESS);
    CHECK(event->EventId != 0 && event->EventData.HWData2 != 0);
    return event;
}

void test_events() {
    HsaEvent *first = make_event(false), *second = make_event(false), *manual = make_event(true);
    const int64_t before = milliseconds_now();
    CHECK(hsaKmtWaitOnEvent(first, 50) == HSAKMT_STATUS_WAIT_TIMEOUT);
    CHECK(milliseconds_now() - before >= 50);
    CHECK(hsaKmtSetEvent(first) == HSAKMT_STATUS_SUCCESS); // nobody waits: stays set for the next
    CHECK(hsaKmtWaitOnEvent(first, 0) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtWaitOnEvent(first, 0) == HSAKMT_STATUS_WAIT_TIMEOUT);
    CHECK(hsaKmtSetEvent(manual) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtWaitOnEvent(manual, 0) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtWaitOnEvent(manual, 0) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtResetEvent(manual) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtWaitOnEvent(manual, 0) == HSAKMT_STATUS_WAIT_TIMEOUT);

    HsaEvent *both[] = {first, second};
    std::thread setter([&] { hsaKmtSetEvent(second); });
    CHECK(hsaKmtWaitOnMultipleEvents(both, 2, false, patience_ms) == HSAKMT_STATUS_SUCCESS);
    setter.join();
    std::thread pair([&] {
        hsaKmtSetEvent(first);
        hsaKmtSetEvent(second);
    });
    CHECK(hsaKmtWaitOnMultipleEvents(both, 2, true, patience_ms) == HSAKMT_STATUS_SUCCESS);
    pair.join();
    for (HsaEvent *event : {first, second, manual})
        CHECK(hsaKmtDestroyEvent(event) == HSAKMT_STATUS_SUCCESS);
}

// A child of fork gets nothing and takes nothing.
void test_fork() {
    void *memory = allocate_mapped(1, mebibyte);
    HsaEvent *event = make_event(false);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const bool refused = !allocate(1, 4096) && hsaKmtFreeMemory(memory, mebibyte) != HSAKMT_STATUS_SUCCESS &&
                             hsaKmtOpenKFD() != HSAKMT_STATUS_KERNEL_ALREADY_OPENED &&
                             hsaKmtWaitOnEvent(event, HSA_EVENTTIMEOUT_INFINITE) != HSAKMT_STATUS_SUCCESS;
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(available(1) == vram - mebibyte);
    CHECK(hsaKmtDestroyEvent(event) == HSAKMT_STATUS_SUCCESS);
    release(memory, mebibyte);
}

constexpr size_t ring_bytes = 64 << 10;

HSAKMT_STATUS create(uint32_t node, uint32_t engine, void *ring, size_t bytes, HsaQueueResource &queue) {
    queue = {};
    return later<Create_ext>("hsaKmtCreateQueueExt")(node, by_engine_id, 100, HSA_QUEUE_PRIORITY_MAXIMUM, engine, ring,
                                                     bytes, nullptr, &queue);
}

void test_rings() {
    HsaQueueResource queue{};
    void *plain = allocate_mapped(1, ring_bytes);
    CHECK(create(1, 0, plain, ring_bytes, queue) == HSAKMT_STATUS_INVALID_PARAMETER); // not executable
    release(plain, ring_bytes);
    void *ring = allocate(1, ring_bytes, device_flags(true));
    CHECK(create(1, 0, ring, ring_bytes, queue) == HSAKMT_STATUS_INVALID_PARAMETER); // not mapped
    HSAuint64 alternate;
    CHECK(hsaKmtMapMemoryToGPU(ring, ring_bytes, &alternate) == HSAKMT_STATUS_SUCCESS);
    CHECK(create(1, 0, ring, ring_bytes / 2, queue) == HSAKMT_STATUS_INVALID_PARAMETER); // part of an allocation
    CHECK(create(1, 0, static_cast<char *>(ring) + 4096, 4096, queue) == HSAKMT_STATUS_INVALID_PARAMETER);
    const uint32_t none = ordinary_engines + xgmi_engines();
    CHECK(create(1, none, ring, ring_bytes, queue) == HSAKMT_STATUS_INVALID_PARAMETER);
    CHECK(hsaKmtCreateQueue(1, by_engine_id, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, ring_bytes, nullptr, &queue) !=
          HSAKMT_STATUS_SUCCESS);
    release(ring, ring_bytes);
}

int take_slots_for_parent() {
    REQUIRE(hsaKmtOpenKFD() == HSAKMT_STATUS_SUCCESS);
    int made = 0;
    HsaQueueResource queue{};
    while (create(1, 3, allocate_mapped(1, ring_bytes, device_flags(true)), ring_bytes, queue) == HSAKMT_STATUS_SUCCESS)
        ++made;
    send_to(STDOUT_FILENO, made);
    receive_from<char>(STDIN_FILENO);
    return 0;
}

void test_slots() {
    void *ring = allocate_mapped(1, ring_bytes, device_flags(true));
    HsaQueueResource own{}, other_engine{}, refused{};
    CHECK(create(1, 3, ring, ring_bytes, own) == HSAKMT_STATUS_SUCCESS);
    Other other("slots");
    CHECK(other.receive<int>() == 7); // of eight, one is ours
    CHECK(create(1, 3, ring, ring_bytes, refused) == HSAKMT_STATUS_NO_MEMORY);
    CHECK(create(1, 4, ring, ring_bytes, other_engine) == HSAKMT_STATUS_SUCCESS);
    other.kill_it();
    CHECK(create(1, 3, ring, ring_bytes, refused) == HSAKMT_STATUS_SUCCESS);
    for (const HsaQueueResource &queue : {own, other_engine, refused})
        CHECK(hsaKmtDestroyQueue(queue.QueueId) == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtDestroyQueue(own.QueueId) != HSAKMT_STATUS_SUCCESS);
    release(ring, ring_bytes);
}

// A copy and a fence, by hand: what the queue does is the affair of other tests, this one sees that
// ring, pointers and doorbell are connected.
void test_queue_runs(HSA_QUEUE_TYPE type) {
    auto *ring = static_cast<uint32_t *>(allocate_mapped(1, ring_bytes, device_flags(true)));
    auto *data = static_cast<uint32_t *>(allocate_mapped(1, mebibyte));
    HsaQueueResource queue{};
    REQUIRE(hsaKmtCreateQueue(1, type, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, ring_bytes, nullptr, &queue) ==
            HSAKMT_STATUS_SUCCESS);
    CHECK(*queue.Queue_write_ptr_aql == 0 && *queue.Queue_read_ptr_aql == 0);
    data[0] = 0xabcd;
    const auto address = [&](size_t word) { return reinterpret_cast<uint64_t>(data + word); };
    const auto low = [&](size_t word) { return static_cast<uint32_t>(address(word)); };
    const auto high = [&](size_t word) { return static_cast<uint32_t>(address(word) >> 32); };
    const uint32_t packets[] = {1,       3,         0,          low(0),
                                high(0), low(1000), high(1000),      // linear copy of 4 bytes
                                5,       low(2000), high(2000), 77}; // fence
    memcpy(ring, packets, sizeof packets);
    __atomic_store_n(queue.Queue_write_ptr_aql, sizeof packets, __ATOMIC_RELEASE);
    __atomic_store_n(queue.Queue_DoorBell_aql, sizeof packets, __ATOMIC_RELEASE);
    const int64_t until = milliseconds_now() + patience_ms;
    while (__atomic_load_n(&data[2000], __ATOMIC_ACQUIRE) != 77 && milliseconds_now() < until)
        sched_yield();
    CHECK(data[2000] == 77 && data[1000] == 0xabcd);
    CHECK(hsaKmtDestroyQueue(queue.QueueId) == HSAKMT_STATUS_SUCCESS);
    release(ring, ring_bytes);
    release(data, mebibyte);
}

} // namespace

int main(int argc, char **argv) {
    if (argc > 1) {
        const char *role = argv[1];
        return strcmp(role, "attach") == 0 ? attach_for_parent()
               : strcmp(role, "hold") == 0 ? hold_for_parent()
                                           : take_slots_for_parent();
    }
    REQUIRE(hsaKmtOpenKFD() == HSAKMT_STATUS_SUCCESS);
    CHECK(hsaKmtOpenKFD() == HSAKMT_STATUS_KERNEL_ALREADY_OPENED);
    test_topology();
    test_pointers();
    test_registration();
    test_registration_by_threads();
    test_out_of_memory();
    test_sharing(false);
    test_sharing(true);
    test_reused_descriptor();
    test_killed_owner();
    test_fork();
    test_events();
    test_rings();
    test_slots();
    test_queue_runs(HSA_QUEUE_SDMA);
    test_queue_runs(HSA_QUEUE_SDMA_XGMI);
    CHECK(hsaKmtCloseKFD() == HSAKMT_STATUS_SUCCESS);
    printf("selftest_thunk: %s\n", failures ? "failed" : "passed");
    return failures ? 1 : 0;
}
