// SPDX-License-Identifier: BSD-3-Clause
//
// The tool interface is started, parameters are written, it is ended and started again: every parameter has its default
// back, although the library that holds the values was there all the time. Without MPI_Init: 4.1 itself does not
// survive that after MPI_T_finalize.
#include "test/mpi/mpit.hpp"

namespace {

struct Values {
    size_t size;
    int number;
    int flag;
    std::string word;
    bool operator==(const Values &) const = default;
};

class Tool {
public:
    Tool() = default;
    Tool(const Tool &) = delete;
    Tool &operator=(const Tool &) = delete;
    ~Tool() { MPI_T_finalize(); }

    Values read() const { return {size_.read(), number_.read(), flag_.read(), word_.read()}; }
    bool write(const Values &values) {
        return size_.write(values.size) && number_.write(values.number) && flag_.write(values.flag) &&
               word_.write(values.word) && read() == values;
    }

private:
    static bool start() {
        int provided = 0;
        return MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS;
    }
    bool started_ = start(); // before the variables
    Control<size_t> size_{"coll_sdma_loadstore_max_alltoall"};
    Control<int> number_{"coll_sdma_resident_idle"};
    Control<int> flag_{"coll_sdma_enable"};
    Text_control word_{"coll_sdma_initiator"};
};

void print(const char *when, const Values &values) {
    std::printf("%s: %zu, %d, %d, \"%s\"\n", when, values.size, values.number, values.flag, values.word.c_str());
}

} // namespace

int main() {
    const Values defaults = Tool().read();
    print("at first", defaults);
    setenv("OMPI_MCA_coll_sdma_initiator", "host", 1);
    const bool told = Tool().read().word == "host";
    const bool written = Tool().write({77, 78, 0, "gpu"});
    unsetenv("OMPI_MCA_coll_sdma_initiator");
    const Values again = Tool().read();
    print("again", again);
    const bool good = told && written && defaults.flag == 1 && again == defaults;
    std::printf("defaults: %s\n", good ? "passed" : "failed");
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
