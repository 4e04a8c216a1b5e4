// SPDX-License-Identifier: BSD-3-Clause
#include "code_object.hpp"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <elf.h>

#include "test/simnode/simnode.hpp"

namespace simnode {
namespace {

constexpr uint64_t page = 4096;
constexpr uint64_t farthest = uint64_t{256} << 20; // a larger code object is not looked through
constexpr uint8_t osabi_amdgpu_hsa = 64;
constexpr uint16_t machine_amdgpu = 224;
constexpr uint32_t note_metadata = 32; // NT_AMDGPU_METADATA

// A loaded code object: everything relative to its ELF header, everything checked.
class Loaded {
public:
    Loaded(unsigned gpu, uint64_t base) : gpu_(gpu), base_(base) {}

    template <typename T> const T *view(uint64_t offset, uint64_t count = 1) const {
        uint64_t bytes = count * sizeof(T);
        if (count > farthest || offset > farthest || bytes > farthest || !accessible(gpu_, base_ + offset, bytes))
            return nullptr;
        return reinterpret_cast<const T *>(static_cast<uintptr_t>(base_ + offset));
    }

    bool is_code_object() const {
        auto *header = view<Elf64_Ehdr>(0);
        return header && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
               header->e_ident[EI_OSABI] == osabi_amdgpu_hsa && header->e_machine == machine_amdgpu;
    }

    const Elf64_Phdr *segment(uint32_t type, unsigned skip = 0) const {
        auto *header = view<Elf64_Ehdr>(0);
        auto *segments = view<Elf64_Phdr>(header->e_phoff, header->e_phnum);
        for (unsigned i = 0; segments && i < header->e_phnum; i++)
            if (segments[i].p_type == type && skip-- == 0)
                return segments + i;
        return nullptr;
    }

    // Name of the dynamic symbol at this offset that ends in ".kd"; "" if there is none.
    std::string descriptor_at(uint64_t offset) const {
        uint64_t symbols_at = dynamic(DT_SYMTAB), strings_at = dynamic(DT_STRTAB), strings = dynamic(DT_STRSZ);
        uint64_t count = symbol_count();
        auto *symbols = view<Elf64_Sym>(symbols_at, count);
        auto *names = view<char>(strings_at, strings);
        for (uint64_t i = 0; symbols && names && i < count; i++) {
            if (symbols[i].st_value != offset || symbols[i].st_name >= strings)
                continue;
            std::string name(names + symbols[i].st_name,
                             strnlen(names + symbols[i].st_name, strings - symbols[i].st_name));
            if (name.size() > 3 && name.compare(name.size() - 3, 3, ".kd") == 0)
                return name;
        }
        return "";
    }

    bool arguments(const std::string &symbol, std::vector<Argument> &arguments) const {
        const Elf64_Phdr *notes;
        for (unsigned skip = 0; (notes = segment(PT_NOTE, skip)); skip++) {
            auto *bytes = view<uint8_t>(notes->p_vaddr, notes->p_memsz);
            for (uint64_t at = 0; bytes && at + sizeof(Elf64_Nhdr) <= notes->p_memsz;) {
                Elf64_Nhdr note;
                memcpy(&note, bytes + at, sizeof note);
                uint64_t name = at + sizeof note, text = name + round4(note.n_namesz);
                if (text + note.n_descsz > notes->p_memsz)
                    break;
                if (note.n_type == note_metadata && note.n_namesz == 7 && memcmp(bytes + name, "AMDGPU", 7) == 0)
                    return parse_arguments(bytes + text, note.n_descsz, symbol, arguments);
                at = text + round4(note.n_descsz);
            }
        }
        return false;
    }

private:
    unsigned gpu_;
    uint64_t base_;

    static uint64_t round4(uint64_t value) { return (value + 3) & ~uint64_t{3}; }

    uint64_t dynamic(int64_t tag) const {
        const Elf64_Phdr *segment = this->segment(PT_DYNAMIC);
        uint64_t count = segment ? segment->p_memsz / sizeof(Elf64_Dyn) : 0;
        auto *entries = segment ? view<Elf64_Dyn>(segment->p_vaddr, count) : nullptr;
        for (uint64_t i = 0; entries && i < count && entries[i].d_tag != DT_NULL; i++)
            if (entries[i].d_tag == tag)
                return entries[i].d_un.d_val;
        return 0;
    }

    uint64_t symbol_count() const {
        if (uint64_t at = dynamic(DT_HASH)) {
            auto *hash = view<uint32_t>(at, 2);
            return hash ? hash[1] : 0; // nchain
        }
        uint64_t at = dynamic(DT_GNU_HASH);
        auto *hash = at ? view<uint32_t>(at, 4) : nullptr;
        if (!hash)
            return 0;
        uint64_t buckets_at = at + 16 + uint64_t{hash[2]} * 8, chains_at = buckets_at + uint64_t{hash[0]} * 4;
        auto *buckets = view<uint32_t>(buckets_at, hash[0]);
        uint64_t last = 0;
        for (uint32_t i = 0; buckets && i < hash[0]; i++)
            last = buckets[i] > last ? buckets[i] : last;
        if (last < hash[1])
            return hash[1];
        for (;; last++) { // the chain's end has its low bit set
            auto *chain = view<uint32_t>(chains_at + (last - hash[1]) * 4);
            if (!chain)
                return 0;
            if (*chain & 1)
                return last + 1;
        }
    }
};

} // namespace

std::string find_kernel(unsigned gpu, uint64_t kernel_object, Kernel &kernel) {
    char text[128];
    uint64_t base = kernel_object & ~(page - 1);
    for (uint64_t gone = 0; gone < farthest && accessible(gpu, base, page); gone += page, base -= page) {
        Loaded object(gpu, base);
        if (!object.is_code_object())
            continue;
        std::string symbol = object.descriptor_at(kernel_object - base);
        if (symbol.empty()) {
            snprintf(text, sizeof text, "no kernel descriptor at 0x%" PRIx64 " of the code object at 0x%" PRIx64,
                     kernel_object - base, base);
            return text;
        }
        kernel.name = symbol.substr(0, symbol.size() - 3);
        if (!object.arguments(symbol, kernel.arguments))
            return "no metadata of kernel " + kernel.name;
        return "";
    }
    snprintf(text, sizeof text, "no loaded code object before kernel object 0x%" PRIx64, kernel_object);
    return text;
}

} // namespace simnode
