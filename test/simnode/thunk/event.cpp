// SPDX-License-Identifier: BSD-3-Clause
//
// hsaKmt*: events. As the driver's: an event without manual reset wakes those who wait for it, or
// stays set for the next who will. Each event has a mailbox word for engines.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include <hsakmt.h>

#include "test/simnode/simnode.hpp"
#include "test/simnode/thunk/memory.hpp"
#include "test/simnode/thunk/node.hpp"

namespace simnode {

namespace {

constexpr uint32_t most_events = 4096; // as the driver's signal page

struct Event {
    HsaEvent *handle = nullptr; // nullptr: free
    bool manual = false;
    bool set = false;
    uint64_t age = 0; // counts sets
    unsigned waiters = 0;
};

struct Events {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Event> slots{1}; // id 0 is none
    uint64_t *mailboxes = nullptr;
};
Events &events = *new Events; // never destroyed: see memory.cpp

Event *find(const HsaEvent *handle) {
    if (!handle || handle->EventId >= events.slots.size())
        return nullptr;
    Event &event = events.slots[handle->EventId];
    return event.handle == handle ? &event : nullptr;
}

void raise(Event &event) {
    ++event.age;
    event.set = event.manual || event.waiters == 0;
    events.changed.notify_all();
}

uint32_t free_id() {
    for (uint32_t id = 1; id < events.slots.size(); ++id)
        if (!events.slots[id].handle && events.slots[id].waiters == 0)
            return id;
    if (events.slots.size() == most_events)
        return 0;
    events.slots.emplace_back();
    return static_cast<uint32_t>(events.slots.size() - 1);
}

HSAKMT_STATUS wait(HsaEvent *handles[], uint32_t count, bool all, uint32_t milliseconds) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    std::unique_lock lock(events.mutex);
    std::vector<uint32_t> ids(count);
    std::vector<uint64_t> ages(count);
    std::vector<bool> done(count);
    for (uint32_t i = 0; i < count; ++i)
        if (!find(handles[i]))
            return HSAKMT_STATUS_INVALID_HANDLE;
    for (uint32_t i = 0; i < count; ++i) {
        Event &event = *find(handles[i]);
        ids[i] = handles[i]->EventId;
        ages[i] = event.age;
        done[i] = event.set;
        if (!event.manual)
            event.set = false;
        ++event.waiters;
    }
    // The list of slots may grow, and an event may be destroyed, while this waits.
    auto satisfied = [&] {
        uint32_t number = 0;
        for (uint32_t i = 0; i < count; ++i) {
            if (events.slots[ids[i]].age != ages[i])
                done[i] = true;
            number += done[i];
        }
        return all ? number == count : number > 0;
    };
    bool success = true;
    if (milliseconds == HSA_EVENTTIMEOUT_INFINITE)
        events.changed.wait(lock, satisfied);
    else
        success = events.changed.wait_for(lock, std::chrono::milliseconds(milliseconds), satisfied);
    for (uint32_t id : ids)
        --events.slots[id].waiters;
    return success ? HSAKMT_STATUS_SUCCESS : HSAKMT_STATUS_WAIT_TIMEOUT;
}

} // namespace

void set_event(uint32_t event_id) {
    const std::lock_guard lock(events.mutex);
    if (event_id == 0 || event_id >= events.slots.size() || !events.slots[event_id].handle)
        return; // destroyed in the meantime
    raise(events.slots[event_id]);
}

} // namespace simnode

using namespace simnode;

extern "C" {

HSAKMT_STATUS hsaKmtCreateEvent(HsaEventDescriptor *descriptor, bool manual, bool set, HsaEvent **handle) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    if (!descriptor || !handle)
        return HSAKMT_STATUS_INVALID_PARAMETER;
    const std::lock_guard lock(events.mutex);
    if (!events.mailboxes)
        events.mailboxes = static_cast<uint64_t *>(make_internal(most_events * sizeof(uint64_t), all_gpus()));
    const uint32_t id = events.mailboxes ? free_id() : 0;
    if (id == 0)
        return HSAKMT_STATUS_NO_MEMORY;
    auto *made = new HsaEvent{}; // deleted by hsaKmtDestroyEvent
    made->EventId = id;
    made->EventData.EventType = descriptor->EventType;
    made->EventData.EventData.SyncVar = descriptor->SyncVar;
    made->EventData.HWData1 = id;
    made->EventData.HWData2 = reinterpret_cast<uint64_t>(&events.mailboxes[id]);
    made->EventData.HWData3 = id;
    Event &event = events.slots[id];
    event.handle = made;
    event.manual = manual;
    event.set = set;
    *handle = made;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtDestroyEvent(HsaEvent *handle) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    const std::lock_guard lock(events.mutex);
    Event *event = find(handle);
    if (!event)
        return HSAKMT_STATUS_INVALID_HANDLE;
    raise(*event); // nobody waits for it for ever
    event->handle = nullptr;
    delete handle;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtSetEvent(HsaEvent *handle) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    const std::lock_guard lock(events.mutex);
    Event *event = find(handle);
    if (!event)
        return HSAKMT_STATUS_INVALID_HANDLE;
    raise(*event);
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtResetEvent(HsaEvent *handle) {
    if (forked())
        return HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED;
    const std::lock_guard lock(events.mutex);
    Event *event = find(handle);
    if (!event)
        return HSAKMT_STATUS_INVALID_HANDLE;
    event->set = false;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtQueryEventState(HsaEvent *handle) { return hsaKmtWaitOnEvent(handle, HSA_EVENTTIMEOUT_IMMEDIATE); }

HSAKMT_STATUS hsaKmtWaitOnEvent(HsaEvent *handle, HSAuint32 milliseconds) {
    return wait(&handle, 1, true, milliseconds);
}

HSAKMT_STATUS hsaKmtWaitOnMultipleEvents(HsaEvent *handles[], HSAuint32 count, bool all, HSAuint32 milliseconds) {
    return handles && count > 0 ? wait(handles, count, all, milliseconds) : HSAKMT_STATUS_INVALID_PARAMETER;
}

// The forms of later releases; event ages need a newer driver than the one reported.
HSAKMT_STATUS hsaKmtWaitOnEvent_Ext(HsaEvent *handle, HSAuint32 milliseconds, uint64_t *) {
    return hsaKmtWaitOnEvent(handle, milliseconds);
}

HSAKMT_STATUS hsaKmtWaitOnMultipleEvents_Ext(HsaEvent *handles[], HSAuint32 count, bool all, HSAuint32 milliseconds,
                                             uint64_t *) {
    return hsaKmtWaitOnMultipleEvents(handles, count, all, milliseconds);
}

} // extern "C"
