// One step of a whole decoder: n_rows new positions, each with its past and its source.
#pragma once

#include <vector>

#include "parts.h"

extern "C" {
struct DecoderBlock {
    Linear all, own_out, query, cross_out, inner, outer;
    Norm norms[3];
    int64_t pre;
};

struct DecoderRows {  // rows that share their caches; a step may have several of these, and none feels the others
    void* const* keys;  // of each block's past, (past rows, groups, capacity, head); the new positions go behind
    void* const* values;
    const void* const* source_keys;  // (source rows, groups, source_capacity, head)
    const void* const* source_values;
    const uint8_t* own;          // which of its past each row may see, (rows, length + past_width), or null: all
    const uint8_t* source_mask;  // (source rows, n_source), or null
    int64_t n_rows;
    int64_t length, capacity, past_width;             // positions so far, room, and rows that share a row of the past
    int64_t n_source, source_capacity, source_width;  // the same of the source
};

struct DecoderStep {
    const DecoderBlock* blocks;
    const DecoderRows* parts;
    float* x;  // (rows, d_model), those of the parts one after another, replaced
    int64_t n_blocks, n_parts, n_rows, d_model;
    int64_t n_heads, n_groups, d_head;
    int64_t half;  // keys and values are bfloat16
    double scale;
};
}

// `Number` is what keys and values are kept in.
template <class Number>
class Decoder {
  public:
    explicit Decoder(const DecoderStep& step)
        : s(step), heads{s.n_heads, s.n_groups, s.d_head, (float)s.scale}, N(s.n_rows), room(bytes()) {
        in = Inputs{room.take<uint8_t>(N * input_bytes()), room.take<float>(N), input_bytes()};
        all = room.take<float>(N * heads.d_all());
        seen = room.take<float>(N * heads.d_query());
        inner = room.take<float>(N * d_inner());
        part = room.take<float>(N * s.d_model);
        for (int64_t i = 0; i < s.n_parts; i++) add(s.parts[i]);
    }

    void run(Team& team) {
        for (const Rows& own : parts) {
            list(team, own.s.own, own.s.n_rows, own.past);
            list(team, own.s.source_mask, own.s.n_rows / own.s.source_width, own.sources);
        }
        const DecoderBlock& first = s.blocks[0];
        settle(team, {nullptr, nullptr, first.pre ? &first.norms[0] : nullptr, &first.all});
        for (int64_t b = 0; b < s.n_blocks; b++) step(team, s.blocks[b], b);
    }

  private:
    using There = Positions<Number>;

    struct Seen {  // the positions that rows may see
        int32_t* places;
        int32_t* counts;
        int64_t stride;
    };

    struct Rows {  // a part of the step: its first row, and how many rows of pasts and of sources come before its own
        const DecoderRows& s;
        int64_t first, pasts, sources_before;
        Seen past, sources;
    };

    const DecoderStep& s;
    const Heads heads;
    const int64_t N;
    Room room;
    Inputs in;
    float *all, *seen, *inner, *part;
    std::vector<Rows> parts;
    int64_t n_pasts = 0, n_sources = 0;

    void add(const DecoderRows& rows) {
        const int64_t n = rows.n_rows, first = parts.empty() ? 0 : parts.back().first + parts.back().s.n_rows;
        const Seen past{room.take<int32_t>(n * n_past(rows)), room.take<int32_t>(n), n_past(rows)};
        const Seen sources{room.take<int32_t>(n * rows.n_source), room.take<int32_t>(n), rows.n_source};
        parts.push_back({rows, first, n_pasts, n_sources, past, sources});
        n_pasts += n / rows.past_width;
        n_sources += n / rows.source_width;
    }

    static int64_t n_past(const DecoderRows& rows) { return rows.length + rows.past_width; }

    int64_t input_bytes() const {
        const DecoderBlock& b = s.blocks[0];
        return widest({&b.all, &b.own_out, &b.query, &b.cross_out, &b.inner, &b.outer});
    }

    int64_t d_inner() const { return s.blocks[0].inner.n_out; }

    int64_t bytes() const {
        const int64_t numbers = 1 + heads.d_all() + heads.d_query() + d_inner() + s.d_model;
        int64_t listed = 0;
        for (int64_t i = 0; i < s.n_parts; i++)
            listed += s.parts[i].n_rows * (n_past(s.parts[i]) + s.parts[i].n_source + 2);
        return N * (input_bytes() + 4 * numbers) + 4 * listed + (16 + 4 * s.n_parts) * 64;
    }

    // The part that the so many-th row of all pasts, or of all sources, belongs to.
    const Rows& owner(int64_t row, int64_t Rows::*before) const {
        size_t low = 0, high = parts.size();
        while (high - low > 1) {
            const size_t middle = (low + high) / 2;
            (parts[middle].*before <= row ? low : high) = middle;
        }
        return parts[low];
    }

    void step(Team& team, const DecoderBlock& block, int64_t b) {
        const bool pre = block.pre;
        const DecoderBlock* next = b + 1 < s.n_blocks ? &block + 1 : nullptr;
        linear(team, block.all, in, N, all, &block.own_out);
        look_back(team, b);
        make_all_ready(team, block.own_out, seen, in, N);
        linear(team, block.own_out, in, N, part, &block.query);
        settle(team, {part, pre ? nullptr : &block.norms[0], pre ? &block.norms[1] : nullptr, &block.query});
        linear(team, block.query, in, N, all, &block.cross_out);
        look_over(team, b);
        make_all_ready(team, block.cross_out, seen, in, N);
        linear(team, block.cross_out, in, N, part, &block.inner);
        settle(team, {part, pre ? nullptr : &block.norms[1], pre ? &block.norms[2] : nullptr, &block.inner});
        linear(team, block.inner, in, N, inner, &block.outer);
        make_all_ready(team, block.outer, inner, in, N);
        linear(team, block.outer, in, N, part, next ? &next->all : nullptr);
        settle(team, {part, pre ? nullptr : &block.norms[2], next && next->pre ? &next->norms[0] : nullptr,
                      next ? &next->all : nullptr});
    }

    void settle(Team& team, const Between& between) { between.settle(team, s.x, N, s.d_model, in); }

    // Each row's new key and value go behind its past, and its query looks at what it may see of that and at itself.
    void look_back(Team& team, int64_t b) {
        const int64_t E = heads.d_head, G = heads.n_groups;
        team.each(n_pasts * G, [&](int64_t item) {
            const Rows& own = owner(item / G, &Rows::pasts);
            const DecoderRows& p = own.s;
            const int64_t local = item - own.pasts * G, g = local % G, from = local * p.capacity * E;
            const int64_t row = own.first + local / G * p.past_width;
            Number *keys = (Number*)p.keys[b] + from, *values = (Number*)p.values[b] + from;
            fetch({keys + p.capacity * E, values + p.capacity * E, E, p.length, nullptr});
            for (int64_t w = 0; w < p.past_width; w++) {
                const float* mine = all + (row + w) * heads.d_all() + heads.d_query() + g * E;
                Number* at[] = {keys + (p.length + w) * E, values + (p.length + w) * E};
                for (int64_t i = 0; i < E; i++) at[0][i] = (Number)mine[i], at[1][i] = (Number)mine[heads.d_key() + i];
            }
            const There there{keys, values, E, n_past(p), nullptr};
            for (int64_t w = 0; w < p.past_width; w++)
                look(row + w, g, p.own == nullptr ? there : listed(there, own.past, row + w - own.first),
                     heads.d_all());
        }, at_once(team, n_pasts));
    }

    // Rows of one source bring its keys and values together once for all.
    void look_over(Team& team, int64_t b) {
        const int64_t E = heads.d_head, G = heads.n_groups;
        team.each(n_sources * G, [&](int64_t item) {
            const Rows& own = owner(item / G, &Rows::sources_before);
            const DecoderRows& p = own.s;
            const int64_t local = item - own.sources_before * G, source = local / G, g = local % G;
            const int64_t size = p.source_capacity * E, row = own.first + source * p.source_width;
            const Number* keys = (const Number*)p.source_keys[b] + local * size;
            const Number* values = (const Number*)p.source_values[b] + local * size;
            fetch({keys + size, values + size, E, p.n_source, nullptr});
            There there{keys, values, E, p.n_source, nullptr};
            if (p.source_mask != nullptr) there = listed(there, own.sources, source);
            if (p.source_width == 1) return look(row, g, there, heads.d_query());
            const Positions<float> near = brought_together(there);
            for (int64_t w = 0; w < p.source_width; w++) look(row + w, g, near, heads.d_query());
        }, at_once(team, n_sources));
    }

    static Positions<float> brought_together(const There& there) {
        static thread_local std::vector<float> near;
        const int64_t E = there.d_head, n = there.n;
        near.resize(2 * n * E);
        float *keys = near.data(), *values = keys + n * E;
        for (int64_t p = 0; p < n; p++)
            each_lanes(E, [&](int64_t i, int m) {
                put(keys + p * E + i, some(there.keys + there.at(p) + i, m), m);
                put(values + p * E + i, some(there.values + there.at(p) + i, m), m);
            });
        return {keys, values, E, n, nullptr};
    }

    // The query heads of one group of a row look at positions.
    template <class Kept>
    void look(int64_t row, int64_t g, const Positions<Kept>& there, int64_t query_stride) {
        const int64_t E = heads.d_head, per_group = heads.n_heads / heads.n_groups;
        for (int64_t h = g * per_group; h < (g + 1) * per_group; h++)
            attend(all + row * query_stride + h * E, there, heads.scale, seen + row * heads.d_query() + h * E);
    }

    // All heads of a row together where there are rows enough.
    int64_t at_once(const Team& team, int64_t n_rows) const { return n_rows >= 4 * team.size ? heads.n_groups : 1; }

    static There listed(There there, const Seen& seen, int64_t line) {
        return {there.keys, there.values, there.d_head, seen.counts[line], seen.places + line * seen.stride};
    }

    // Ask memory for the next head's keys and values: each begins somewhere else, which processors do not foresee.
    void fetch(const There& next) const {
        constexpr int64_t ENOUGH = 256;  // positions: of more, the first would be gone again
        for (int64_t p = 0; p < std::min(next.n, ENOUGH); p++)
            for (int64_t i = 0; i < heads.d_head; i += 64 / sizeof(Number)) {
                _mm_prefetch((const char*)(next.keys + next.at(p) + i), _MM_HINT_T0);
                _mm_prefetch((const char*)(next.values + next.at(p) + i), _MM_HINT_T0);
            }
    }

    // Write down where a mask (n, stride) allows something.
    void list(Team& team, const uint8_t* mask, int64_t n, const Seen& into) {
        if (mask == nullptr) return;
        team.each(n, [&](int64_t i) {
            int32_t* places = into.places + i * into.stride;
            int32_t count = 0;
            for (int64_t p = 0; p < into.stride; p++) {
                places[count] = (int32_t)p;
                count += mask[i * into.stride + p] != 0;
            }
            into.counts[i] = count;
        });
    }
};
