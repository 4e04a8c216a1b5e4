// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

#include "test/simnode/simnode.hpp"

namespace simnode {

// Write under `root` what the driver and the PCI core would show of the node in /sys. Throws
// std::filesystem::filesystem_error or std::ios_base::failure.
void write_sysfs(const std::filesystem::path &root, const Options &options);

} // namespace simnode
