// SPDX-License-Identifier: BSD-3-Clause
//
// The part of the simulated node that all its processes share: who holds how much memory of which
// GPU, and who has which SDMA queue slot. It lives in one file of the launcher's run directory.
//
// Every process owns one seat, proved by a record lock that the kernel drops when the process is
// gone, however it went; what a vanished process left in the tables is removed before an answer
// depends on it. Nothing is stored twice, so a process killed inside an update leaves no total wrong.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simnode {

// Take a seat, once per process. False if the process was not started by sdma_simnode or all seats
// are taken; the reason was logged.
bool join_node();
// In a child of fork, which has neither seat nor worker threads: as with a real thunk, calls fail, and
// what the parent holds is not touched.
bool forked();

// Bytes of GPU memory, charged to `gpu` until the last process that holds the object has dropped it.
// The object's id, or 0 when the GPU has not that much left.
uint32_t charge(unsigned gpu, size_t bytes);
// Hold an object of another process (or once more). False if it does not exist any more.
bool hold(uint32_t object);
void drop(uint32_t object);
size_t available(unsigned gpu);

// A queue slot of one of `count` SDMA engines, in the driver's order: the lowest free slot number,
// among those the lowest engine. -1 when all are taken.
int take_slot(unsigned gpu, unsigned first, unsigned count, unsigned &engine);
void give_slot(unsigned gpu, unsigned engine, int slot);

// For the launcher: make the file in its run directory.
bool create_node(const char *directory);

} // namespace simnode
