// SPDX-License-Identifier: BSD-3-Clause
//
// sdma_simnode: run a command on a simulated node. It makes a private run directory (accounts of
// GPU memory and queues, a sysfs tree), puts the simulated libhsakmt.so.1 first on the library path,
// runs the command and removes the directory again.
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <dlfcn.h>
#include <elf.h>
#include <getopt.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/simnode/launcher/sysfs.hpp"
#include "test/simnode/simnode.hpp"
#include "test/simnode/thunk/model.hpp"
#include "test/simnode/thunk/node.hpp"

namespace fs = std::filesystem;

namespace {

constexpr char usage[] =
    R"(Usage: sdma_simnode [OPTION]... [--] COMMAND [ARGUMENT]...
Run COMMAND on a simulated node: the ROCr and HIP installed here, on simulated GPUs.
It shows that protocol, data movement and API use are right; it says nothing about
cache coherence, memory ordering or speed of real hardware.

  --gpus N         GPUs of the node, 1 to 16 (default 8)
  --gfx NAME       kind of GPU: gfx90a, gfx942, gfx950, ... (default: what SDMA_SIMNODE_GFX
                   says, or gfx90a); the installed ROCr must know it
  --vram SIZE      memory of each GPU, with suffix K, M, G (default 4G); shared by all
                   processes of the node
  --chaos SEED     engines late and in any order allowed, from a seed above 0
  --fault KIND[,rank=R][,at=K]
                   make something fail, in every process or in MPI rank R only; at: which
                   call or packet. May be given more than once.
                     device-open       the GPU device cannot be opened
                     attach            a peer's memory cannot be attached
                     slots             no SDMA queue can be created
                     no-ring-doorbell  kernels cannot reach the doorbells
                     stall, die        an engine stops, the process is killed, at packet K
  --trace FILE     write what the queues execute to FILE
  --help           show this and exit

Exit status: that of COMMAND, 128 + N if signal N killed it, 125 if this program failed,
127 if COMMAND was not found.
)";

constexpr int exit_own_failure = 125;

struct Run_directory {
    fs::path path;
    Run_directory() {
        const char *base = getenv("TMPDIR");
        std::string name = std::string(base && *base ? base : "/tmp") + "/sdma_simnode.XXXXXX";
        if (!mkdtemp(name.data()))
            throw fs::filesystem_error("cannot make a run directory", name,
                                       std::error_code(errno, std::generic_category()));
        path = name;
    }
    ~Run_directory() {
        std::error_code ignored; // somebody may have been faster
        fs::remove_all(path, ignored);
    }
    Run_directory(const Run_directory &) = delete;
};

int refuse(const std::string &why) {
    fprintf(stderr, "sdma_simnode: %s\n", why.c_str());
    return exit_own_failure;
}

// The folder of the simulated libhsakmt.so.1: beside this program in a build tree, else where it is installed.
fs::path library_folder() {
    const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
    for (const fs::path &folder : {here / ".libs", fs::path(SIMNODE_LIBRARY_FOLDER)})
        if (fs::exists(folder / "libhsakmt.so.1"))
            return folder;
    return {};
}

bool needs(const link_map *library, const char *wanted) {
    const char *names = nullptr;
    for (const ElfW(Dyn) *entry = library->l_ld; entry->d_tag != DT_NULL; ++entry)
        if (entry->d_tag == DT_STRTAB)
            names = reinterpret_cast<const char *>(entry->d_un.d_ptr);
    for (const ElfW(Dyn) *entry = library->l_ld; names && entry->d_tag != DT_NULL; ++entry)
        if (entry->d_tag == DT_NEEDED && strcmp(names + entry->d_un.d_val, wanted) == 0)
            return true;
    return false;
}

bool has_text(const char *path, const std::string &text) {
    std::ifstream file(path, std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    return content.find(text) != std::string::npos;
}

// Empty if the installed ROCr calls its thunk through the shared library and has this GPU in its list
// (it would leave out one it does not know without a word).
std::string why_not_this_rocr(const std::string &gfx) {
    void *rocr = dlopen("libhsa-runtime64.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!rocr)
        return std::string("no ROCr here (Debian: apt-get install libhsa-runtime64-1): ") + dlerror();
    link_map *library = nullptr;
    if (dlinfo(rocr, RTLD_DI_LINKMAP, &library) != 0)
        return std::string("cannot inspect ROCr: ") + dlerror();
    if (!needs(library, "libhsakmt.so.1"))
        return std::string(library->l_name) +
               " does not use a shared libhsakmt.so.1: ROCm 6.4 and later hide it inside ROCr, where nothing can take "
               "its place. Use the ROCr of Debian 12 or 13.";
    if (!has_text(library->l_name, gfx))
        return std::string(library->l_name) + " does not know " + gfx;
    return "";
}

struct Command {
    simnode::Options options;
    std::string faults; // as the environment variable holds them
    char **arguments = nullptr;
};

// Empty, or why the command line cannot be used.
std::string parse(int argc, char **argv, Command &command) {
    const option long_options[] = {
        {"gpus", required_argument, nullptr, 'g'},  {"gfx", required_argument, nullptr, 'x'},
        {"vram", required_argument, nullptr, 'v'},  {"chaos", required_argument, nullptr, 'c'},
        {"fault", required_argument, nullptr, 'f'}, {"trace", required_argument, nullptr, 't'},
        {"help", no_argument, nullptr, 'h'},        {nullptr, 0, nullptr, 0}};
    simnode::Options &options = command.options;
    simnode::Gpu_model model;
    char *end = nullptr;
    if (const char *gfx = getenv("SDMA_SIMNODE_GFX"); gfx && simnode::find_model(gfx, model))
        options.gfx = gfx;
    for (int found; (found = getopt_long(argc, argv, "+h", long_options, nullptr)) != -1;) {
        switch (found) {
        case 'g':
            options.gpus = static_cast<unsigned>(strtoul(optarg, &end, 10));
            if (*end || options.gpus < 1 || options.gpus > simnode::most_gpus)
                return std::string("--gpus takes 1 to 16, not ") + optarg;
            break;
        case 'x':
            options.gfx = optarg;
            if (!simnode::find_model(options.gfx, model))
                return std::string("--gfx takes a name like gfx90a, not ") + optarg;
            break;
        case 'v':
            if (!simnode::parse_bytes(optarg, options.vram))
                return std::string("--vram takes a size like 4G, not ") + optarg;
            break;
        case 'c':
            options.chaos = strtoull(optarg, &end, 0);
            if (*end || !isdigit(static_cast<unsigned char>(*optarg)) || options.chaos == 0)
                return std::string("--chaos takes a number above 0, not ") + optarg;
            break;
        case 'f': {
            simnode::Fault fault;
            if (!simnode::parse_fault(optarg, fault))
                return std::string("--fault cannot read ") + optarg + "; see --help";
            command.faults += (command.faults.empty() ? "" : ";") + std::string(optarg);
            break;
        }
        case 't':
            options.trace = fs::absolute(optarg);
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            return "see --help";
        }
    }
    if (optind == argc)
        return "no command given; see --help";
    command.arguments = argv + optind;
    return "";
}

void prepend(const char *name, const std::string &folder) {
    const char *old = getenv(name);
    setenv(name, (old && *old ? folder + ":" + old : folder).c_str(), 1);
}

void set_environment(const Command &command, const fs::path &directory, const fs::path &library) {
    const simnode::Options &options = command.options;
    auto set = [](const char *name, const std::string &value) {
        if (value.empty())
            unsetenv(name);
        else
            setenv(name, value.c_str(), 1);
    };
    set("SDMA_SIMNODE_DIR", directory);
    set("SDMA_SIMNODE_GPUS", std::to_string(options.gpus));
    set("SDMA_SIMNODE_GFX", options.gfx);
    set("SDMA_SIMNODE_VRAM", std::to_string(options.vram));
    set("SDMA_SIMNODE_CHAOS", options.chaos ? std::to_string(options.chaos) : "");
    set("SDMA_SIMNODE_FAULT", command.faults);
    set("SDMA_SIMNODE_TRACE", options.trace);
    prepend("LD_LIBRARY_PATH", library);
    set("OMPI_MCA_coll_sdma_sysfs", directory / "sysfs");
    // The user's own choice wins over what only makes many ranks run on few cores, also as root, and Open MPI 5.0
    // silent about addresses of the one machine that it cannot pair by IPv6 (its issue 14079).
    const char *const defaults[][2] = {
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
        {"PRTE_ALLOW_RUN_AS_ROOT", "1"},
        {"PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
        {"OMPI_MCA_hwloc_base_binding_policy", "none"},
        {"OMPI_MCA_mpi_yield_when_idle", "1"},
        {"OMPI_MCA_btl_tcp_disable_family", "6"},
        {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
        {"PRTE_MCA_hwloc_default_binding_policy", "none"},
    };
    for (const auto &[name, value] : defaults)
        setenv(name, value, 0);
}

// Every allocation keeps a descriptor open.
void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

// Run the command; pass on signals sent to this process (what a terminal sends reaches the command
// anyway) until it has ended. Its exit status.
int run(char **arguments) {
    sigset_t watched, before;
    sigemptyset(&watched);
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD})
        sigaddset(&watched, number);
    sigprocmask(SIG_BLOCK, &watched, &before);
    const pid_t own = getpid(), child = fork();
    if (child < 0)
        return refuse(std::string("cannot fork: ") + strerror(errno));
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, nullptr);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != own)
            _exit(exit_own_failure);
        raise_descriptor_limit();
        execvp(arguments[0], arguments);
        const int error = errno;
        fprintf(stderr, "sdma_simnode: cannot run %s: %s\n", arguments[0], strerror(error));
        _exit(error == ENOENT ? 127 : 126);
    }
    for (;;) {
        siginfo_t signal{};
        if (sigwaitinfo(&watched, &signal) < 0)
            continue;
        int status = 0;
        if (signal.si_signo == SIGCHLD && waitpid(child, &status, WNOHANG) == child)
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (signal.si_signo != SIGCHLD && signal.si_code <= 0)
            kill(child, signal.si_signo);
    }
}

} // namespace

int main(int argc, char **argv) {
    try {
        Command command;
        if (const std::string why = parse(argc, argv, command); !why.empty())
            return refuse(why);
        const fs::path library = library_folder();
        if (library.empty())
            return refuse(std::string("no libhsakmt.so.1 beside this program or in ") + SIMNODE_LIBRARY_FOLDER);
        if (const std::string why = why_not_this_rocr(command.options.gfx); !why.empty())
            return refuse(why);
        const Run_directory directory;
        if (!simnode::create_node(directory.path.c_str()))
            return refuse("cannot write " + directory.path.string() + ": " + strerror(errno));
        simnode::write_sysfs(directory.path / "sysfs", command.options);
        set_environment(command, directory.path, library);
        return run(command.arguments);
    } catch (const std::exception &failure) {
        return refuse(failure.what());
    }
}
