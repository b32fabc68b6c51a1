// One step of a whole stack of blocks that look back only, with gated feed-forward parts and norms before each part:
// Llama and its relatives. Each row is a new position with its own past.
#pragma once

#include <vector>

#include "parts.h"

extern "C" {
struct CausalBlock {
    Linear all, out, inner, outer;
    Norm norms[2];
};

struct CausalRows {  // rows that share their caches
    void* const* keys;  // of each block's past, (rows, groups, capacity, head); the new positions go behind
    void* const* values;
    const int64_t* starts;  // where the past of each row begins, or null: with the first position
    int64_t n_rows, length, capacity;
};

struct CausalStep {
    const CausalBlock* blocks;
    const CausalRows* parts;
    float* x;          // (rows, d_model), those of the parts one after another, replaced
    const float* cos;  // (rows, half a head), by which queries and keys are turned; or null
    const float* sin;
    const Norm* last;  // or null
    int64_t n_blocks, n_parts, n_rows, d_model;
    int64_t n_heads, n_groups, d_head;
    int64_t half;  // keys and values are bfloat16
    double scale;
};
}

// `Number` is what keys and values are kept in.
template <class Number>
class Causal {
  public:
    explicit Causal(const CausalStep& step)
        : s(step), heads{s.n_heads, s.n_groups, s.d_head, (float)s.scale}, N(s.n_rows), room(bytes()) {
        in = Inputs{room.take<uint8_t>(N * input_bytes()), room.take<float>(N), input_bytes()};
        all = room.take<float>(N * heads.d_all());
        seen = room.take<float>(N * heads.d_query());
        inner = room.take<float>(N * 2 * d_inner());
        part = room.take<float>(N * s.d_model);
        for (int64_t i = 0; i < s.n_parts; i++)
            for (int64_t row = 0; row < s.parts[i].n_rows; row++) rows.push_back({&s.parts[i], row});
    }

    void run(Team& team) {
        settle(team, {nullptr, nullptr, &s.blocks[0].norms[0], &s.blocks[0].all});
        for (int64_t b = 0; b < s.n_blocks; b++) step(team, s.blocks[b], b);
    }

  private:
    struct Row {
        const CausalRows* part;
        int64_t number;
    };

    const CausalStep& s;
    const Heads heads;
    const int64_t N;
    Room room;
    Inputs in;
    float *all, *seen, *inner, *part;
    std::vector<Row> rows;

    int64_t input_bytes() const {  // layers of other blocks may be kept in something else
        int64_t most = 0;
        for (const CausalBlock* b = s.blocks; b < s.blocks + s.n_blocks; b++)
            most = std::max(most, widest({&b->all, &b->out, &b->inner, &b->outer}));
        return most;
    }

    int64_t d_inner() const { return s.blocks[0].outer.n_in; }

    int64_t bytes() const {
        return N * (input_bytes() + 4 * (1 + heads.d_all() + heads.d_query() + 2 * d_inner() + s.d_model)) + 16 * 64;
    }

    void step(Team& team, const CausalBlock& block, int64_t b) {
        const CausalBlock* next = b + 1 < s.n_blocks ? &block + 1 : nullptr;
        linear(team, block.all, in, N, all, &block.out);
        team.each(N * heads.n_groups, [&](int64_t i) { look_back(i / heads.n_groups, i % heads.n_groups, b); });
        make_all_ready(team, block.out, seen, in, N);
        linear(team, block.out, in, N, part, &block.inner);
        settle(team, {part, nullptr, &block.norms[1], &block.inner});
        linear(team, block.inner, in, N, inner, &block.outer);
        team.each(N, [&](int64_t i) {
            float* row = inner + i * 2 * d_inner();
            gate_row(row, d_inner(), row);
            make_ready(block.outer, row, in, i);
        });
        linear(team, block.outer, in, N, part, next ? &next->all : nullptr);
        settle(team, {part, next ? nullptr : s.last, next ? &next->norms[0] : nullptr, next ? &next->all : nullptr});
    }

    void settle(Team& team, const Between& between) { between.settle(team, s.x, N, s.d_model, in); }

    // The first half of a head's features with the second, by the angles of its row.
    void turn(float* head, int64_t row) const {
        if (s.cos == nullptr) return;
        const int64_t half = heads.d_head / 2;
        const float *cos = s.cos + row * half, *sin = s.sin + row * half;
        each_lanes(half, [&](int64_t i, int m) {
            const Floats a = some(head + i, m), b = some(head + half + i, m), c = some(cos + i, m), d = some(sin + i, m);
            put(head + i, a * c - b * d, m);
            put(head + half + i, a * d + b * c, m);
        });
    }

    // A row's new key and value go behind its past, and the queries of their group look at all of it.
    void look_back(int64_t row, int64_t g, int64_t b) {
        const CausalRows& p = *rows[row].part;
        const int64_t E = heads.d_head, per_group = heads.n_heads / heads.n_groups;
        const int64_t from = (rows[row].number * heads.n_groups + g) * p.capacity * E;
        const int64_t start = p.starts == nullptr ? 0 : p.starts[rows[row].number];
        float* mine = all + row * heads.d_all();
        float *key = mine + heads.d_query() + g * E, *value = key + heads.d_key();
        Number *keys = (Number*)p.keys[b] + from, *values = (Number*)p.values[b] + from;
        turn(key, row);
        for (int64_t i = 0; i < E; i++) {
            keys[p.length * E + i] = (Number)key[i];
            values[p.length * E + i] = (Number)value[i];
        }
        const Positions<Number> there{keys + start * E, values + start * E, E, p.length + 1 - start, nullptr};
        for (int64_t h = g * per_group; h < (g + 1) * per_group; h++) {
            turn(mine + h * E, row);
            attend(mine + h * E, there, heads.scale, seen + row * heads.d_query() + h * E);
        }
    }
};
