// SPDX-License-Identifier: BSD-3-Clause
#include "describe.hpp"

#include <cstdio>

#include "../base/base.hpp"

namespace sdma::op {

namespace {

// Text: indented "name: value" lines. JSON: the same tree; values are strings, numbers or booleans.
class Writer {
public:
    explicit Writer(bool json) : json_(json) {}

    void value(const char *name, const std::string &text) { item(name, json_ ? quoted(text) : text); }
    void value(const char *name, const char *text) { value(name, std::string(text)); }
    void value(const char *name, bool flag) { item(name, flag ? "true" : "false"); }
    void value(const char *name, uint64_t number) { item(name, std::to_string(number)); }
    void value(const char *name, int number) { item(name, std::to_string(number)); }

    // `name` is nullptr within an array.
    void open(const char *name, char bracket) {
        if (json_)
            item(name, std::string(1, bracket));
        else if (name)
            item(name, "");
        first_ = true;
        depth_++;
    }
    void close(char bracket) {
        depth_--;
        if (json_)
            text_ += (first_ ? "" : "\n" + indent()) + bracket;
        else if (first_ && depth_ > 0)
            text_ += indent() + "  none\n";
        first_ = false;
    }
    std::string text() && { return std::move(text_) + (json_ ? "\n" : ""); }

private:
    std::string indent() const { return std::string(json_ ? 2 * depth_ : depth_ > 1 ? 2 * (depth_ - 1) : 0, ' '); }

    void item(const char *name, const std::string &text) {
        if (json_) {
            if (depth_ > 0)
                text_ += std::string(first_ ? "" : ",") + "\n" + indent();
            text_ += (name ? quoted(name) + ": " : "") + text;
        } else {
            text_ += indent() + name + ":" + (text.empty() ? "" : " ") + text + "\n";
        }
        first_ = false;
    }

    static std::string quoted(const std::string &text) {
        std::string out = "\"";
        for (char c : text) {
            char escaped[8];
            if (c == '"' || c == '\\')
                snprintf(escaped, sizeof escaped, "\\%c", c);
            else if (static_cast<unsigned char>(c) < 0x20)
                snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
            else
                snprintf(escaped, sizeof escaped, "%c", c);
            out += escaped;
        }
        return out + '"';
    }

    bool json_;
    bool first_ = true;
    size_t depth_ = 0;
    std::string text_;
};

void describe_gpu(Writer &out, const Platform &platform, engine::Engines &engines, int index,
                  const gpu::Device &device) {
    out.open(nullptr, '{');
    out.value("pci", gpu::to_string(device.pci));
    out.value("target", device.target);
    out.value("compute_units", static_cast<uint64_t>(device.workgroups));
    out.value("kernels", platform.has_kernels(device.target));
    out.open("engines", '{');
    // Whether a queue can be had, and rung by the GPU, shows only when it is made.
    sdma_reason_t refusal;
    const engine::Queue *queue = engines.queue(index, device.pci, engines.producer(index, params().initiator), refusal);
    for (const auto &[back_end, reason] : engines.report(index)) {
        if (reason != SDMA_REASON_none)
            out.value(back_end.c_str(), sdma_reason_text(reason));
        else if (queue && queue->back_end != back_end)
            out.value(back_end.c_str(), "available, after " + queue->back_end);
        else
            out.value(back_end.c_str(), "in use");
    }
    out.close('}');
    out.close('}');
}

void describe_parameters(Writer &out) {
    size_t count;
    const sdma_param_t *rows = sdma_params(&count);
    out.open("parameters", '{');
    for (const sdma_param_t *row = rows; row != rows + count; row++)
        switch (row->type) {
        case SDMA_PARAM_BOOL:
            out.value(row->name, *static_cast<bool *>(row->value));
            break;
        case SDMA_PARAM_INT:
            out.value(row->name, *static_cast<int *>(row->value));
            break;
        case SDMA_PARAM_SIZE:
            out.value(row->name, static_cast<uint64_t>(*static_cast<size_t *>(row->value)));
            break;
        case SDMA_PARAM_STRING:
            out.value(row->name, *static_cast<const char **>(row->value));
            break;
        }
    out.close('}');
}

} // namespace

std::string describe(const Platform &platform, bool json) {
    Writer out(json);
    sdma_reason_t reason = SDMA_REASON_no_runtime;
    std::shared_ptr<gpu::Runtime> runtime = platform.gpu.loaded() ? platform.gpu.open(reason) : nullptr;
    out.open(nullptr, '{');
    out.value("version", sdma_version());
    out.value("runtime", runtime ? runtime->name() + (" " + runtime->version())
                                 : std::string("none: ") + sdma_reason_text(reason));
    out.open("gpus", '[');
    if (runtime) {
        engine::Engines engines(runtime);
        for (size_t i = 0; i < runtime->devices().size(); i++)
            describe_gpu(out, platform, engines, static_cast<int>(i), runtime->devices()[i]);
    }
    out.close(']');
    out.value("plug_ins", "Open MPI coll/sdma, osc/sdma, UCX transport sdma; their parameters: coll_sdma_NAME, "
                          "osc_sdma_NAME, UCX_SDMA_NAME in capitals");
    describe_parameters(out);
    out.close('}');
    return std::move(out).text();
}

} // namespace sdma::op
