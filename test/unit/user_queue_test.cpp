// SPDX-License-Identifier: BSD-3-Clause
//
// User-mode SDMA queues: created through the real thunk interface, fed by kernels and by the host.
// Under sdma_simnode, see rocr_test.sh.
#include <set>
#include <string_view>

#include <sys/wait.h>
#include <unistd.h>

#include "common/sdma/engine/thunk.hpp"
#include "common/sdma/engine/user.hpp"
#include "common/sdma/ring/initiate.hpp"
#include "rocr_application.hpp"

namespace sdma {

using engine::Producer;
namespace thunk = engine::thunk;

class User_queue : public Rocr {
protected:
    void SetUp() override {
        Rocr::SetUp();
        params().engine = "user";
        if (runtime)
            engines = std::make_unique<engine::Engines>(runtime);
    }
    engine::Queue *queue(int device, int peer, Producer producer = Producer::device) {
        return engines->queue(device, runtime->devices()[peer].pci, producer, reason);
    }
    std::unique_ptr<engine::Engines> engines;
    sdma_reason_t reason = SDMA_REASON_none;
};

TEST_F(User_queue, KernelMovesBytesThroughTheEngine) {
    engine::Queue *own = queue(0, 1);
    ASSERT_TRUE(own) << sdma_reason_name(reason);
    EXPECT_EQ(own->back_end, "user");
    EXPECT_TRUE(own->gpu_ringable);
    EXPECT_EQ(queue(0, 1), own);
    EXPECT_NE(own->describe().find("user queue"), std::string::npos);
    void *src = buffer(0, 4 * MiB, 3), *dst = buffer(1, 4 * MiB, 4);
    for (int round = 0; round < 60; round++) { // around the ring more than once
        Record *record = make_record(*runtime, own->ring, src, dst, 4 * MiB);
        ASSERT_EQ(run(0, gpu::Kernel::issue, 1, record), Status::ok);
        EXPECT_EQ(record->work.status, static_cast<uint64_t>(SDMA_WORK_ISSUED));
        ASSERT_TRUE(within_limit([&] { return load(record->arrival) == 1 && load(record->departure) == 1; }))
            << own->describe();
        runtime->free_shared(record);
    }
    EXPECT_EQ(read(dst, 4 * MiB), pattern(4 * MiB, 3));
    hsa_amd_memory_pool_free(src);
    hsa_amd_memory_pool_free(dst);
}

TEST_F(User_queue, HostMovesBytesThroughTheEngine) {
    engine::Queue *own = queue(0, 1, Producer::host);
    ASSERT_TRUE(own) << sdma_reason_name(reason);
    void *src = buffer(0, 4 * MiB, 3), *dst = buffer(1, 4 * MiB, 4);
    for (int round = 0; round < 60; round++) {
        Record *record = make_record(*runtime, own->ring, src, dst, 4 * MiB);
        EXPECT_EQ(initiate_on_host(&record->work), static_cast<uint64_t>(SDMA_WORK_ISSUED));
        ASSERT_TRUE(within_limit([&] { return load(record->arrival) == 1 && load(record->departure) == 1; }))
            << own->describe();
        runtime->free_shared(record);
    }
    EXPECT_EQ(read(dst, 4 * MiB), pattern(4 * MiB, 3));
    hsa_amd_memory_pool_free(src);
    hsa_amd_memory_pool_free(dst);
}

TEST_F(User_queue, OnePerDeviceEngineAndProducer) {
    engine::Queue *device = queue(0, 1), *back = queue(1, 0), *host = queue(0, 1, Producer::host);
    ASSERT_TRUE(device && back && host);
    EXPECT_EQ(std::set<engine::Queue *>({device, back, host}).size(), 3u);
    EXPECT_EQ(std::set<uint64_t>({device->generation, back->generation, host->generation}).size(), 3u);
    EXPECT_EQ(host->placement, engine::Placement::host_pinned);
    std::set<uint32_t> seen;
    for (size_t peer = 1; peer < runtime->devices().size(); peer++) {
        engine::Queue *to_peer = queue(0, static_cast<int>(peer));
        ASSERT_TRUE(to_peer);
        seen.insert(to_peer->engine);
    }
    EXPECT_GE(seen.size(), std::min<size_t>(runtime->devices().size() - 1, 3));
    EXPECT_EQ(engines->queue(99, runtime->devices()[1].pci, Producer::device, reason), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_no_gpu);
}

TEST_F(User_queue, AnAbandonedEngineStaysOut) {
    engine::Queue *own = queue(0, 1);
    ASSERT_TRUE(own);
    engines->abandon(*own);
    EXPECT_EQ(own->ring, nullptr);
    EXPECT_NE(own->describe().find("destroyed"), std::string::npos);
    engines->abandon(*own); // a second team saw the fault as well
    EXPECT_EQ(queue(0, 1), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_fault);
    EXPECT_TRUE(queue(1, 0));
}

TEST_F(User_queue, SlotsComeBack) {
    for (int round = 0; round < 12; round++) { // an engine has eight
        engines = std::make_unique<engine::Engines>(runtime);
        ASSERT_TRUE(queue(0, 1)) << "round " << round << ": " << sdma_reason_name(reason);
    }
}

TEST_F(User_queue, SharesWhenTheEnginesAreFull) {
    std::vector<std::unique_ptr<engine::Engines>> others; // as many processes would
    engine::Queue *last = nullptr;
    for (int i = 0; i < 200; i++) {
        others.push_back(std::make_unique<engine::Engines>(runtime));
        last = others.back()->queue(0, runtime->devices()[1].pci, Producer::device, reason);
        if (!last)
            break;
    }
    EXPECT_FALSE(last);
    EXPECT_EQ(reason, SDMA_REASON_slots_full);
    EXPECT_EQ(others.back()->report(0)[0].reason, SDMA_REASON_slots_full);
    others.pop_back();
    // One that has a queue on the device uses it for all peers.
    if (runtime->devices().size() > 2) {
        engine::Queue *first = others[0]->queue(0, runtime->devices()[1].pci, Producer::device, reason);
        EXPECT_EQ(others[0]->queue(0, runtime->devices()[2].pci, Producer::device, reason), first);
    }
}

TEST_F(User_queue, AsksAgainWhenOthersMayHaveGivenBack) {
    std::vector<std::unique_ptr<engine::Engines>> others;
    do
        others.push_back(std::make_unique<engine::Engines>(runtime));
    while (others.back()->queue(0, runtime->devices()[1].pci, Producer::device, reason));
    ASSERT_FALSE(queue(0, 1));
    ASSERT_EQ(reason, SDMA_REASON_slots_full);
    others.clear();
    EXPECT_TRUE(within_limit([&] { return queue(0, 1) != nullptr; })) << sdma_reason_name(reason);
    EXPECT_EQ(engines->report(0)[0].reason, SDMA_REASON_none);
}

TEST_F(User_queue, ParameterAndUserCanSwitchItOff) {
    EXPECT_EQ(engines->report(0)[0].reason, SDMA_REASON_none);
    EXPECT_EQ(engines->report(0)[1].reason, SDMA_REASON_disabled);
    setenv("HSA_ENABLE_SDMA", "0", 1);
    EXPECT_EQ(queue(0, 1), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_sdma_disabled);
    unsetenv("HSA_ENABLE_SDMA");
    params().engine = "none";
    engines = std::make_unique<engine::Engines>(runtime);
    EXPECT_EQ(queue(0, 1), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_disabled);
}

// Nobody finalizes: the application shuts ROCr down, or forgets that too, and the process ends with
// a queue, a kernel queue and a watched allocation alive.
TEST_F(User_queue, TheProcessMayEndAtAnyTime) {
    for (const char *how : {"forget", "shut-down", "late-destructor"}) {
        const pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", "end", "--end", how, nullptr);
            _exit(99);
        }
        int status = -1;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << how << ": status " << status;
    }
}

int end_main(const char *how) {
    if (application().gpus.size() < 2)
        return 1;
    const auto runtime = open();
    params().engine = "user";
    static std::unique_ptr<engine::Engines> engines;
    engines = std::make_unique<engine::Engines>(runtime);
    sdma_reason_t reason;
    if (!engines->queue(0, runtime->devices()[1].pci, Producer::device, reason))
        return 2;
    if (runtime->classify(allocate(application().vram[0], MiB)).kind != gpu::Memory_kind::device)
        return 3;
    const std::string_view way = how;
    if (way != "late-destructor")
        engines.release(); // kept by the process
    if (way != "forget")
        hsa_shut_down();
    return 0;
}

TEST_F(User_queue, UnderFaultSlots) {
    EXPECT_EQ(queue(0, 1), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_slots_full);
    EXPECT_EQ(engines->report(0)[0].reason, SDMA_REASON_slots_full);
}

TEST_F(User_queue, UnderFaultDoorbell) {
    EXPECT_EQ(queue(0, 1), nullptr);
    EXPECT_EQ(reason, SDMA_REASON_not_ringable);
    EXPECT_EQ(engines->report(0)[0].reason, SDMA_REASON_not_ringable);
}

// A kernel, where hardware reads what it writes.
TEST_F(User_queue, PacketsAreTheGpusUnlessAThreadReadsThem) {
    EXPECT_EQ(engines->producer(0, "auto"), Producer::device);
    EXPECT_EQ(engines->producer(0, "host"), Producer::host);
    params().engine = "proxy";
    engine::Engines proxy(runtime);
    params().engine = "user";
    EXPECT_EQ(proxy.producer(0, "auto"), Producer::host);
    EXPECT_EQ(proxy.producer(0, "gpu"), Producer::device);
    EXPECT_EQ(proxy.producer(-1, "auto"), Producer::device);
}

TEST_F(User_queue, SaysThatAWordIsNotKnown) {
    static std::string said;
    const char *const right = params().signal;
    sdma_log_to([](int level, const char *text) { said += level == 0 ? text : ""; });
    params().signal = "fenc";
    engine::Engines wrong(runtime);
    params().signal = right;
    EXPECT_EQ(said, "parameter signal: \"fenc\" is not auto or atomic or fence; auto is used");
    said.clear();
    params().engine = "usr";
    engine::Engines all(runtime);
    params().engine = "user";
    EXPECT_EQ(said, "parameter engine: \"usr\" is not auto or user or proxy or none; auto is used");
    for (const auto &back_end : all.report(0))
        EXPECT_EQ(back_end.reason, SDMA_REASON_none) << back_end.back_end << " is taken, as with auto";
    sdma_log_to(nullptr);
}

TEST_F(User_queue, SaysWhichRingSizeIsUsed) {
    static std::string said;
    const size_t right = params().ring_bytes;
    sdma_log_to([](int level, const char *text) { said += level == 0 ? text : ""; });
    params().ring_bytes = 100000;
    engine::Engines wrong(runtime), again(runtime);
    params().ring_bytes = right;
    sdma_log_to(nullptr);
    EXPECT_EQ(said, "parameter ring_bytes: 100000 is not a power of two from 4096 to 64 MiB; 65536 is used");
    EXPECT_EQ(engine::ring_size(0), 4096u);
    EXPECT_EQ(engine::ring_size(8192), 8192u);
    EXPECT_EQ(engine::ring_size(SIZE_MAX), size_t{64} << 20);
}

// ---- the back end alone, on a thunk that the test bends ----------------------------------------------

// The loaded thunk with some of its functions replaced, counting what is held.
struct Bent_thunk {
    static inline thunk::Functions real{};
    static inline uint64_t *unreachable_doorbell = nullptr;
    static inline thunk::Status create_status = thunk::success, create_ext_status = thunk::success,
                                destroy_status = thunk::success;
    static inline int fail_allocation = -1; // this one from now on
    static inline int memory = 0, queues = 0, by_type = 0, stopped = 0;
    static inline void *allocated = nullptr; // last

    static thunk::Status allocate(uint32_t node, uint64_t bytes, uint32_t flags, void **address) {
        if (fail_allocation-- == 0)
            return thunk::no_memory;
        const auto status = real.hsaKmtAllocMemory(node, bytes, flags, address);
        memory += status == thunk::success;
        allocated = *address;
        return status;
    }
    static thunk::Status free(void *address, uint64_t bytes) {
        memory--;
        return real.hsaKmtFreeMemory(address, bytes);
    }
    static thunk::Status made(thunk::Status status, thunk::Queue_resource *resource) {
        queues += status == thunk::success;
        if (status == thunk::success && unreachable_doorbell)
            resource->doorbell = unreachable_doorbell; // a store there reaches no engine
        return status;
    }
    static thunk::Status create(uint32_t node, thunk::Queue_type type, uint32_t percentage, int64_t priority,
                                void *ring, uint64_t bytes, void *event, thunk::Queue_resource *resource) {
        by_type++;
        return create_status
                   ? create_status
                   : made(real.hsaKmtCreateQueue(node, type, percentage, priority, ring, bytes, event, resource),
                          resource);
    }
    static thunk::Status create_ext(uint32_t node, thunk::Queue_type type, uint32_t percentage, int64_t priority,
                                    uint32_t engine, void *ring, uint64_t bytes, void *event,
                                    thunk::Queue_resource *resource) {
        return create_ext_status ? create_ext_status
                                 : made(real.hsaKmtCreateQueueExt(node, type, percentage, priority, engine, ring, bytes,
                                                                  event, resource),
                                        resource);
    }
    static thunk::Status update(uint64_t id, uint32_t percentage, int64_t priority, void *ring, uint64_t bytes,
                                void *event) {
        stopped += percentage == 0;
        return real.hsaKmtUpdateQueue(id, percentage, priority, ring, bytes, event);
    }
    static thunk::Status destroy(uint64_t id) {
        const auto status = real.hsaKmtDestroyQueue(id);
        queues -= status == thunk::success;
        return destroy_status ? destroy_status : status;
    }
};

class User_back_end : public Rocr {
protected:
    void SetUp() override {
        Rocr::SetUp();
        const auto found = thunk::find();
        ASSERT_TRUE(found);
        functions = Bent_thunk::real = *found;
        ASSERT_TRUE(functions.hsaKmtCreateQueueExt);
        functions.hsaKmtAllocMemory = Bent_thunk::allocate;
        functions.hsaKmtFreeMemory = Bent_thunk::free;
        functions.hsaKmtCreateQueue = Bent_thunk::create;
        functions.hsaKmtCreateQueueExt = Bent_thunk::create_ext;
        functions.hsaKmtUpdateQueue = Bent_thunk::update;
        functions.hsaKmtDestroyQueue = Bent_thunk::destroy;
        Bent_thunk::create_status = Bent_thunk::create_ext_status = Bent_thunk::destroy_status = thunk::success;
        Bent_thunk::fail_allocation = -1;
        Bent_thunk::memory = Bent_thunk::queues = Bent_thunk::by_type = Bent_thunk::stopped = 0;
        Bent_thunk::unreachable_doorbell = nullptr;
        topology = engine::Topology::read(params().sysfs);
    }
    sdma_reason_t create(Producer producer = Producer::device) {
        if (!back_end)
            back_end = engine::make_user_back_end(runtime, topology, &functions);
        return back_end->create(0, 0, producer, queue);
    }
    thunk::Functions functions{};
    engine::Topology topology;
    std::unique_ptr<engine::Back_end> back_end;
    std::unique_ptr<engine::Queue> queue;
};

TEST_F(User_back_end, GivesEverythingBack) {
    for (const Producer producer : {Producer::device, Producer::host}) {
        ASSERT_EQ(create(producer), SDMA_REASON_none);
        EXPECT_EQ(Bent_thunk::queues, 1);
        EXPECT_EQ(Bent_thunk::by_type, 0);
        // The engine's read pointer may lag behind what it has done.
        EXPECT_TRUE(within_limit([&] {
            return load(*reinterpret_cast<uint64_t *>(queue->ring->read_pointer)) ==
                   load(queue->visible_cursors->commit);
        }));
        back_end->destroy(*queue);
        EXPECT_EQ(queue->ring, nullptr);
        EXPECT_EQ(Bent_thunk::queues, 0);
        EXPECT_EQ(Bent_thunk::memory, 0);
    }
}

TEST_F(User_back_end, KeepsMemoryThatMayStillBeTouched) {
    ASSERT_EQ(create(), SDMA_REASON_none);
    queue->faulty = true;
    back_end->destroy(*queue);
    EXPECT_EQ(Bent_thunk::memory, 2); // ring and cursors
    Bent_thunk::memory = 0;
    ASSERT_EQ(create(), SDMA_REASON_none);
    Bent_thunk::destroy_status = thunk::error; // the engine did not stop in time
    back_end->destroy(*queue);
    EXPECT_EQ(Bent_thunk::memory, 2);
    EXPECT_EQ(queue->ring, nullptr);
}

TEST_F(User_back_end, FindsOutThatKernelsCannotRing) {
    params().hardware_timeout = 500;
    Bent_thunk::unreachable_doorbell = static_cast<uint64_t *>(runtime->allocate_shared(64));
    EXPECT_EQ(create(), SDMA_REASON_not_ringable);
    EXPECT_EQ(*Bent_thunk::unreachable_doorbell, 16u); // one FENCE was published
    EXPECT_FALSE(queue);
    EXPECT_EQ(Bent_thunk::queues, 0);
    EXPECT_EQ(back_end->available(0), SDMA_REASON_not_ringable);
    EXPECT_EQ(back_end->available(1), SDMA_REASON_none);
    EXPECT_EQ(create(), SDMA_REASON_not_ringable);
    params().hardware_timeout = 10000;
}

// It may wait behind a long kernel of the application's, and will write then.
TEST_F(User_back_end, KeepsAQueueWhoseKernelHasNotEnded) {
    params().hardware_timeout = 0;
    for (int tries = 0; tries < 20 && Bent_thunk::queues == 0; tries++) {
        back_end.reset();
        Bent_thunk::memory = 0;
        if (create() == SDMA_REASON_none) { // the kernel was faster
            back_end->destroy(*queue);
            queue.reset();
        }
    }
    params().hardware_timeout = 10000;
    ASSERT_EQ(Bent_thunk::queues, 1);
    ASSERT_EQ(Bent_thunk::memory, 2); // ring and cursors
    EXPECT_FALSE(queue);
    // A kernel writes `commit` last, behind packet, write pointer and doorbell: all of that is still there.
    const auto *cursors = static_cast<const sdma_ring_cursors *>(Bent_thunk::allocated);
    EXPECT_TRUE(within_limit([&] { return load(cursors->commit) == 16; })); // one FENCE
    EXPECT_EQ(Bent_thunk::queues, 1);
    EXPECT_EQ(Bent_thunk::memory, 2);
}

TEST_F(User_back_end, TakesAFaultyQueueOffTheHardwareOnly) {
    ASSERT_EQ(create(), SDMA_REASON_none);
    const int held = Bent_thunk::memory;
    queue->faulty = true;
    back_end->destroy(*queue);
    EXPECT_EQ(queue->ring, nullptr);
    EXPECT_EQ(Bent_thunk::stopped, 1);
    EXPECT_EQ(Bent_thunk::queues, 1) << "a kernel may yet write its pointers";
    EXPECT_EQ(Bent_thunk::memory, held);
}

TEST_F(User_back_end, TakesAnyEngineWhereNoneCanBeNamed) {
    functions.hsaKmtCreateQueueExt = nullptr; // ROCm 6.2 and before
    EXPECT_EQ(create(), SDMA_REASON_none);
    EXPECT_EQ(Bent_thunk::by_type, 1);
    back_end->destroy(*queue);
    back_end.reset();
    functions.hsaKmtCreateQueueExt = Bent_thunk::create_ext;
    Bent_thunk::create_ext_status = static_cast<thunk::Status>(3); // a driver before 1.17: invalid
    EXPECT_EQ(create(), SDMA_REASON_none);
    EXPECT_EQ(Bent_thunk::by_type, 2);
    back_end->destroy(*queue);
}

TEST_F(User_back_end, NamesWhyThereIsNone) {
    const auto refused = [&](thunk::Status status) {
        Bent_thunk::create_status = Bent_thunk::create_ext_status = status;
        return create();
    };
    EXPECT_EQ(refused(thunk::no_memory), SDMA_REASON_slots_full);
    EXPECT_EQ(refused(thunk::out_of_resources), SDMA_REASON_slots_full);
    EXPECT_EQ(refused(thunk::error), SDMA_REASON_slots_full);
    EXPECT_EQ(refused(thunk::not_opened), SDMA_REASON_no_permission);
    EXPECT_EQ(refused(static_cast<thunk::Status>(3)), SDMA_REASON_queue_refused);
    EXPECT_EQ(Bent_thunk::memory, 0);
    Bent_thunk::create_status = Bent_thunk::create_ext_status = thunk::success;
    for (const int which : {0, 1}) { // ring, cursors
        Bent_thunk::fail_allocation = which;
        EXPECT_EQ(create(), SDMA_REASON_no_memory);
        EXPECT_EQ(Bent_thunk::memory, 0);
    }
    functions.hsaKmtOpenKFD = [] { return thunk::not_opened; };
    back_end.reset();
    EXPECT_EQ(create(), SDMA_REASON_no_permission);
    back_end = engine::make_user_back_end(runtime, topology, nullptr);
    EXPECT_EQ(create(), SDMA_REASON_no_thunk);
    EXPECT_EQ(back_end->create(99, 0, Producer::device, queue), SDMA_REASON_no_gpu);
}

} // namespace sdma
