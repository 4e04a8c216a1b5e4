// SPDX-License-Identifier: BSD-3-Clause
//
// What a process holds, as the kernel counts it.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

inline size_t entries(const char *path) {
    size_t count = 0;
    if (DIR *folder = opendir(path)) {
        while (readdir(folder) != nullptr) {
            ++count;
        }
        closedir(folder);
    }
    return count;
}

// But for sockets: we open none, and ROCr 6.1 leaves one behind with every attachment.
inline size_t descriptors_held() {
    size_t count = 0;
    if (DIR *folder = opendir("/proc/self/fd")) {
        while (const dirent *entry = readdir(folder)) {
            char target[8] = {};
            const bool link = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) > 0;
            count += link && std::string_view(target) != "socket:" ? 1 : 0;
        }
        closedir(folder);
    }
    return count;
}

struct Held {
    size_t descriptors = descriptors_held();
    size_t threads = entries("/proc/self/task");
    size_t mappings = 0;
    size_t segments = 0;      // shared with peers: our own ones and theirs that are mapped here
    size_t segment_bytes = 0; // resident
    size_t pinned_bytes = 0;  // host memory that the GPU runtime has allocated (simulated node)
    size_t own_bytes = 0;     // resident and nobody else's, GPU memory of the simulated node not counted

    Held() {
        std::ifstream maps("/proc/self/smaps");
        enum class Kind { own, segment, pinned, other } kind = Kind::other;
        for (std::string line; std::getline(maps, line);) {
            const auto has = [&line](const char *text) { return line.find(text) != std::string::npos; };
            const auto kilobytes = [&line] { return std::stoull(line.substr(line.find(':') + 1)) << 10U; };
            if (line.find('-') < line.find(' ')) {
                kind = has("/memfd:mpi-sdma-")              ? Kind::segment
                       : has("/memfd:simnode-0 ")           ? Kind::pinned
                       : has("/memfd:") || has("/dev/shm/") ? Kind::other
                                                            : Kind::own;
                ++mappings;
                segments += kind == Kind::segment ? 1 : 0;
            } else if (kind == Kind::own && line.rfind("Private_Dirty:", 0) == 0) {
                own_bytes += kilobytes();
            } else if (kind == Kind::segment && line.rfind("Rss:", 0) == 0) {
                segment_bytes += kilobytes();
            } else if (kind == Kind::pinned && line.rfind("Size:", 0) == 0) {
                pinned_bytes += kilobytes();
            }
        }
    }
    size_t host_bytes() const { return segment_bytes + pinned_bytes + own_bytes; }

    std::string text() const {
        std::ostringstream text;
        text << descriptors << " descriptors, " << threads << " threads, " << mappings << " mappings, " << segments
             << " segments of " << (segment_bytes >> 10U) << " KiB, " << (pinned_bytes >> 10U) << " KiB pinned, "
             << (own_bytes >> 10U) << " KiB own memory";
        return text.str();
    }
};
