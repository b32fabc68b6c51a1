// A whole encoder: sentences one after another, each of its own length, padded where a mask says so. Attention aside, all
// positions go through the layers together, and none feels the others.
#pragma once

#include "head_products.h"
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
    // For sentences `first` to `end` of a run.
    Encoder(const EncoderRun& run, int64_t first, int64_t end, int64_t n_threads)
        : r(run), heads{r.n_heads, r.n_groups, r.d_head, (float)r.scale}, starts(r.starts + first),
          n_sentences(end - first), N(r.starts[end] - starts[0]), n_threads(n_threads), x(r.x + starts[0] * r.d_model),
          room(bytes()) {
        all = room.take<float>(N * heads.d_all());
        seen = room.take<float>(N * heads.d_query());
        desks = room.take<uint8_t>(n_threads * desk_bytes());
    }

    // So many sentences from `first` on that what is between two layers stays near: one at least.
    static int64_t near(const EncoderRun& run, int64_t first) {
        constexpr int64_t POSITIONS = 512;
        int64_t end = first + 1;
        while (end < run.n_sentences && run.starts[end + 1] - run.starts[first] <= POSITIONS) end++;
        return end;
    }

    void run(Team& team) {
        const EncoderBlock& first = r.blocks[0];
        each_rows(team, [&](Team& own, const Desk& desk) {
            end(own, desk, {nullptr, nullptr, first.pre ? &first.norms[0] : nullptr, &first.all});
        });
        for (int64_t b = 0; b < r.n_blocks; b++) {
            look(team);
            each_rows(team, [&](Team& own, const Desk& desk) { rest(own, desk, b); });
        }
    }

  private:
    static constexpr int64_t AT_ONCE = 96;  // rows, whose inner features then stay near

    struct Desk {  // where some rows are worked on
        int64_t row, n;
        float *part, *inner;
        Inputs in;
    };

    const EncoderRun& r;
    const Heads heads;
    const int64_t* starts;
    const int64_t n_sentences, N, n_threads;
    float* x;
    Room room;
    float *all, *seen;
    uint8_t* desks;  // one for each member

    int64_t input_bytes() const {
        const EncoderBlock& b = r.blocks[0];
        return widest({&b.all, &b.out, &b.inner, &b.outer});
    }

    int64_t d_inner() const { return r.blocks[0].inner.n_out; }

    int64_t desk_bytes() const { return AT_ONCE * (input_bytes() + 4 * (d_inner() + r.d_model + 16)); }

    int64_t bytes() const {
        return N * 4 * (heads.d_all() + heads.d_query()) + n_threads * desk_bytes() + 16 * 64;
    }

    // Rows enough: each member takes as many by itself, and they stay near it. Otherwise all work on the same ones.
    template <class Work>
    void each_rows(Team& team, Work work) {
        if (N < n_threads * AT_ONCE) {
            for (int64_t row = 0; row < N; row += AT_ONCE) work(team, desk(0, row, AT_ONCE));
            return;
        }
        const int64_t parts = ceil_div(N, n_threads * AT_ONCE) * n_threads, n = ceil_div(ceil_div(N, parts), 8) * 8;
        team.each(ceil_div(N, n), [&](int64_t i) {
            Table table;
            Team alone(table, 1);
            work(alone, desk(team.seat, i * n, n));
        });
    }

    Desk desk(int64_t seat, int64_t row, int64_t n) const {
        float* part = (float*)(desks + seat * desk_bytes());
        float *inner = part + AT_ONCE * r.d_model, *sizes = inner + AT_ONCE * d_inner();
        const Inputs in{(uint8_t*)(sizes + AT_ONCE * 16), sizes, input_bytes()};
        return {row, std::min(n, N - row), part, inner, in};
    }

    // Each sentence by itself and each head by itself. What is kept with few digits is compared with few.
    void look(Team& team) {
        team.each(n_sentences * heads.n_groups, [&](int64_t item) {
#ifdef __AVX512BF16__
            if (r.blocks[0].all.kind != SINGLE) return look<Bfloat>(item / heads.n_groups, item % heads.n_groups);
#endif
            look<Single>(item / heads.n_groups, item % heads.n_groups);
        });
    }

    template <class K>
    void look(int64_t sentence, int64_t g) {
        const int64_t E = heads.d_head, per_group = heads.n_heads / heads.n_groups, stride = heads.d_all();
        const int64_t first = starts[sentence] - starts[0], T = starts[sentence + 1] - starts[sentence];
        const float* rows = all + first * stride;
        const uint8_t* mask = r.mask == nullptr ? nullptr : r.mask + starts[sentence];
        static thread_local std::vector<const float*> keys;
        keys.clear();
        for (int64_t t = 0; t < T; t++)
            if (mask == nullptr || mask[t]) keys.push_back(rows + t * stride + heads.d_query() + g * E);
        HeadProducts<K> head(E, keys, heads.d_key());
        for (int64_t h = g * per_group; h < (g + 1) * per_group; h++)
            head.attend(rows + h * E, T, stride, heads.scale, seen + first * heads.d_query() + h * E, heads.d_query());
    }

    // All of a block that follows its attention, and the next one's queries, keys and values.
    void rest(Team& team, const Desk& desk, int64_t b) {
        const EncoderBlock& block = r.blocks[b];
        const EncoderBlock* next = b + 1 < r.n_blocks ? &block + 1 : nullptr;
        const bool pre = block.pre;
        make_all_ready(team, block.out, seen + desk.row * heads.d_query(), desk.in, desk.n);
        linear(team, block.out, desk.in, desk.n, desk.part);
        settle(team, desk, {desk.part, pre ? nullptr : &block.norms[0], pre ? &block.norms[1] : nullptr, &block.inner});
        linear(team, block.inner, desk.in, desk.n, desk.inner);
        make_all_ready(team, block.outer, desk.inner, desk.in, desk.n);
        linear(team, block.outer, desk.in, desk.n, desk.part);
        end(team, desk, {desk.part, pre ? nullptr : &block.norms[1], next && next->pre ? &next->norms[0] : nullptr,
                         next ? &next->all : nullptr});
    }

    void end(Team& team, const Desk& desk, const Between& between) {
        settle(team, desk, between);
        if (between.next) linear(team, *between.next, desk.in, desk.n, all + desk.row * heads.d_all());
    }

    void settle(Team& team, const Desk& desk, const Between& between) {
        between.settle(team, x + desk.row * r.d_model, desk.n, r.d_model, desk.in);
    }
};
