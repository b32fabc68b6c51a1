// A whole encoder: sentences one after another, each of its own length, padded where a mask says so. Attention aside, all
// positions go through the layers together, and none feels the others.
#pragma once

#include "parts.h"

extern "C" {
struct EncoderBlock {
    Linear all, out, inner, outer;
    Norm norms[2];
    int64_t pre;
};

struct EncoderRun {
    const EncoderBlock* blocks;
    const uint8_t* mask;    // (positions), or null
    const int64_t* starts;  // (sentences + 1), where each begins and the last one ends
    float* x;               // (positions, d_model), replaced
    int64_t n_blocks, n_sentences, d_model;
    int64_t n_heads, n_groups, d_head;
    double scale;
};
}

class Encoder {
  public:
    Encoder(const EncoderRun& run, int64_t n_threads)
        : r(run), heads{r.n_heads, r.n_groups, r.d_head, (float)r.scale}, N(r.starts[r.n_sentences]),
          n_threads(n_threads), room(bytes()) {
        in = Inputs{room.take<uint8_t>(N * input_bytes()), room.take<float>(N), input_bytes()};
        all = room.take<float>(N * heads.d_all());
        seen = room.take<float>(N * heads.d_query());
        desks = room.take<uint8_t>(n_threads * desk_bytes());
    }

    void run(Team& team) {
        const EncoderBlock& first = r.blocks[0];
        const Between begin{nullptr, nullptr, first.pre ? &first.norms[0] : nullptr, &first.all};
        begin.settle(team, r.x, N, r.d_model, in);
        // Rows enough: each member takes some through the rest of a block by itself, and they stay near it.
        const bool apart = N >= n_threads * AT_ONCE;
        for (int64_t b = 0; b < r.n_blocks; b++) {
            linear(team, r.blocks[b].all, in, N, all);
            look(team);
            if (!apart) {
                for (int64_t row = 0; row < N; row += AT_ONCE) rest(team, 0, b, row);
                continue;
            }
            team.each(ceil_div(N, AT_ONCE), [&](int64_t i) {
                Table table;
                Team alone(table, 1);
                rest(alone, team.seat, b, i * AT_ONCE);
            });
        }
    }

  private:
    static constexpr int64_t AT_ONCE = 96;  // rows, whose inner features then stay near

    const EncoderRun& r;
    const Heads heads;
    const int64_t N, n_threads;
    Room room;
    Inputs in;
    float *all, *seen;
    uint8_t* desks;  // room for each member's rows

    int64_t input_bytes() const {
        const EncoderBlock& b = r.blocks[0];
        return widest({&b.all, &b.out, &b.inner, &b.outer});
    }

    int64_t d_inner() const { return r.blocks[0].inner.n_out; }

    int64_t desk_bytes() const { return AT_ONCE * (input_bytes() + 4 * (d_inner() + r.d_model + 16)); }

    int64_t bytes() const {
        return N * (input_bytes() + 4 * (1 + heads.d_all() + heads.d_query())) + n_threads * desk_bytes() + 16 * 64;
    }

    // Each sentence by itself and each head by itself, its keys and values brought together first.
    void look(Team& team) {
        const int64_t E = heads.d_head, G = heads.n_groups, per_group = heads.n_heads / G, stride = heads.d_all();
        team.each(r.n_sentences * G, [&](int64_t item) {
            static thread_local std::vector<float> together;
            const int64_t sentence = item / G, g = item % G, first = r.starts[sentence];
            const int64_t T = r.starts[sentence + 1] - first;
            const float* rows = all + first * stride;
            const uint8_t* mask = r.mask == nullptr ? nullptr : r.mask + first;
            together.resize(2 * T * E);
            float *keys = together.data(), *values = keys + T * E;
            int64_t n = 0;
            for (int64_t t = 0; t < T; t++) {
                if (mask != nullptr && !mask[t]) continue;
                const float* key = rows + t * stride + heads.d_query() + g * E;
                std::memcpy(keys + n * E, key, E * sizeof(float));
                std::memcpy(values + n * E, key + heads.d_key(), E * sizeof(float));
                n++;
            }
            for (int64_t t = 0; t < T; t++)
                for (int64_t h = g * per_group; h < (g + 1) * per_group; h++)
                    attend(rows + t * stride + h * E, Positions<float>{keys, values, E, n, nullptr}, heads.scale,
                           seen + (first + t) * heads.d_query() + h * E);
        });
    }

    // All of a block that follows its attention, for some rows.
    void rest(Team& team, int64_t seat, int64_t b, int64_t row) {
        const EncoderBlock& block = r.blocks[b];
        const EncoderBlock* next = b + 1 < r.n_blocks ? &block + 1 : nullptr;
        const bool pre = block.pre;
        const int64_t n = std::min(AT_ONCE, N - row), D = r.d_model;
        float* part = (float*)(desks + seat * desk_bytes());
        float* inner = part + AT_ONCE * D;
        float* sizes = inner + AT_ONCE * d_inner();
        const Inputs then{(uint8_t*)(sizes + AT_ONCE * 16), sizes, input_bytes()};
        const Inputs ready{in.row(row), in.sizes + row, in.stride};
        make_all_ready(team, block.out, seen + row * heads.d_query(), then, n);
        linear(team, block.out, then, n, part);
        const Between middle{part, pre ? nullptr : &block.norms[0], pre ? &block.norms[1] : nullptr, &block.inner};
        middle.settle(team, r.x + row * D, n, D, then);
        linear(team, block.inner, then, n, inner);
        make_all_ready(team, block.outer, inner, then, n);
        linear(team, block.outer, then, n, part);
        const Between end{part, pre ? nullptr : &block.norms[1], next && next->pre ? &next->norms[0] : nullptr,
                          next ? &next->all : nullptr};
        end.settle(team, r.x + row * D, n, D, ready);
    }
};
