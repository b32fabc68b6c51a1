// One step of self-attention between its products: new keys and values go behind each row's past, and its queries look
// at all of it. Rows may belong to several decodings, each with a past of its own; none feels the others.
#pragma once

#include <vector>

#include "parts.h"

extern "C" {
struct LookBackRows {  // the rows of one decoding, (rows, groups, capacity, head)
    float* keys;
    float* values;
    int64_t first, n_rows, length, capacity;  // the first of all rows, how many, positions so far, and room
};

struct LookBack {
    const float* all;  // queries, keys and values of the new positions, (rows, heads and twice the groups, head)
    float* seen;       // (rows, heads, head)
    const LookBackRows* parts;
    int64_t n_parts, n_heads, n_groups, d_head;
    double scale;
};
}

class LookingBack {
  public:
    explicit LookingBack(const LookBack& call) : c(call), heads{c.n_heads, c.n_groups, c.d_head, (float)c.scale} {
        for (int64_t p = 0; p < c.n_parts; p++) {
            for (int64_t row = 0; row < c.parts[p].n_rows; row++) rows.push_back({&c.parts[p], row});
            positions += c.parts[p].n_rows * (c.parts[p].length + 1);
        }
    }

    // Whether it is sooner done than shared.
    bool is_small() const { return positions * heads.d_query() < 1 << 17; }

    void run(Team& team) {
        team.each((int64_t)rows.size() * heads.n_groups, [&](int64_t item) {
            look(rows[item / heads.n_groups], item % heads.n_groups);
        });
    }

  private:
    struct Row {
        const LookBackRows* part;
        int64_t number;
    };

    const LookBack& c;
    const Heads heads;
    std::vector<Row> rows;
    int64_t positions = 0;

    void look(const Row& row, int64_t g) const {
        const LookBackRows& part = *row.part;
        const int64_t E = heads.d_head, at = part.first + row.number, per_group = heads.n_heads / heads.n_groups;
        const int64_t from = (row.number * heads.n_groups + g) * part.capacity * E;
        const float* mine = c.all + at * heads.d_all();
        float *keys = part.keys + from, *values = part.values + from;
        std::memcpy(keys + part.length * E, mine + heads.d_query() + g * E, E * sizeof(float));
        std::memcpy(values + part.length * E, mine + heads.d_query() + heads.d_key() + g * E, E * sizeof(float));
        const Positions<float> there{keys, values, E, part.length + 1, nullptr};
        for (int64_t h = g * per_group; h < (g + 1) * per_group; h++)
            attend(mine + h * E, there, heads.scale, c.seen + at * heads.d_query() + h * E);
    }
};
