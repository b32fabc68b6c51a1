// What a decoder keeps of the sentences that it will attend to: their keys and values, layer by layer.
#pragma once

#include "parts.h"

extern "C" {
struct Prefill {
    const Linear* const* layers;  // of each block: all keys, then all values
    const float* x;               // (positions, width), the sentences one after another
    const int64_t* starts;        // (sentences + 1), where each begins and the last one ends
    void* const* rooms;           // of each sentence, (layers, keys and values, groups, positions, head)
    int64_t n_layers, n_sentences, n_groups, d_head;
    int64_t half;  // they are kept in bfloat16
};
}

// `Number` is what keys and values are kept in.
template <class Number>
class Filling {
  public:
    explicit Filling(const Prefill& call)
        : c(call), N(c.starts[c.n_sentences]), d_kept(2 * c.n_groups * c.d_head), room(N * (bytes() + 4 + 4 * d_kept) + 256) {
        in = Inputs{room.take<uint8_t>(N * bytes()), room.take<float>(N), bytes()};
        made = room.take<float>(N * d_kept);
    }

    void run(Team& team) {
        make_all_ready(team, *c.layers[0], c.x, in, N);  // as all the others want it
        for (int64_t l = 0; l < c.n_layers; l++) {
            linear(team, *c.layers[l], in, N, made, l + 1 < c.n_layers ? c.layers[l + 1] : nullptr);
            team.each(c.n_sentences * 2 * c.n_groups, [&](int64_t item) { keep(l, item); });
        }
    }

  private:
    const Prefill& c;
    const int64_t N, d_kept;
    Room room;
    Inputs in;
    float* made;

    int64_t bytes() const { return widest({c.layers[0]}); }

    // The keys or the values of one sentence and group, brought together.
    void keep(int64_t layer, int64_t item) {
        const int64_t sentence = item / (2 * c.n_groups), part = item % (2 * c.n_groups), E = c.d_head;
        const int64_t first = c.starts[sentence], n = c.starts[sentence + 1] - first;
        Number* to = (Number*)c.rooms[sentence] + (layer * 2 * c.n_groups + part) * n * E;
        for (int64_t p = 0; p < n; p++) {
            const float* from = made + (first + p) * d_kept + part * E;
            for (int64_t i = 0; i < E; i++) to[p * E + i] = (Number)from[i];
        }
    }
};
