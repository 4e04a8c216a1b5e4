// SPDX-License-Identifier: BSD-3-Clause
//
// Memory handles between the processes of the node.
#pragma once

#include <cstdint>
#include <string>

namespace simnode {

// The name of the memfd of an allocation: an importer recognises a descriptor that was closed and
// used again for something else.
std::string share_name(uint32_t object);

} // namespace simnode
