// What training does to rows by themselves, forwards and backwards: dropout, residuals with their norms, and the loss.
//
// Sums over rows are made in blocks of as many rows whatever the number of threads, and then in order.
#pragma once

#include "trained_attention.h"

extern "C" {
struct Dropping {
    const int16_t* draws;  // one for each number, or null: nothing is dropped
    int64_t least;         // draws below it drop
    double scale;          // of what stays
};
// y = norm(x + drop(part)), or without a norm where `weight` is null.
struct Residual {
    const void *x, *part;
    void *y, *sums;  // the sums are kept for the way back; without a norm they are y
    float* scales;   // (n_rows, 2): of each row its mean, and one over its deviation
    const float *weight, *bias;
    const void* d_y;  // backwards only, from here on
    void *d_x, *d_part;
    float *d_weight, *d_bias, *room;  // (blocks, 2, d)
    int64_t n_rows, d, half;
    double epsilon;
    Dropping dropping;
};
}

constexpr int64_t ROWS_AT_ONCE = 32;

// Sixteen numbers, each dropped or scaled by its draw.
static inline Floats dropped(const Dropping& dropping, Floats x, int64_t at, int n) {
    if (dropping.draws == nullptr) return x;
    return x * kept_or_zero(dropping.draws + at, n, (int)dropping.least, (float)dropping.scale);
}

template <class Number>
static void drop_all(Team& team, const Dropping& dropping, const Number* x, int64_t n, Number* y) {
    constexpr int64_t PIECE = 1 << 14;
    team.each(ceil_div(n, PIECE), [&](int64_t piece) {
        const int64_t begin = piece * PIECE;
        each_lanes(std::min(PIECE, n - begin), [&](int64_t i, int m) {
            put(y + begin + i, dropped(dropping, some(x + begin + i, m), begin + i, m), m);
        });
    });
}

template <class Number>
static void add_and_norm(const Residual& r, int64_t row) {
    const int64_t d = r.d, at = row * d;
    const Number *x = (const Number*)r.x + at, *part = (const Number*)r.part + at;
    Number* sums = (Number*)r.sums + at;
    Floats total = every(0.0f), squares = every(0.0f);
    for (int64_t i = 0; i < d; i += LANES) {
        put(sums + i, load(x + i) + dropped(r.dropping, load(part + i), at + i, LANES), LANES);
        total = total + load(sums + i);  // as it was rounded
    }
    if (r.weight == nullptr) return;
    const float mean = sum(total) / (float)d;
    for (int64_t i = 0; i < d; i += LANES) {
        const Floats apart = load(sums + i) - every(mean);
        squares = fma(apart, apart, squares);
    }
    const float scale = 1.0f / std::sqrt(sum(squares) / (float)d + (float)r.epsilon);
    r.scales[2 * row] = mean, r.scales[2 * row + 1] = scale;
    for (int64_t i = 0; i < d; i += LANES) {
        Floats y = (load(sums + i) - every(mean)) * every(scale) * load(r.weight + i);
        put((Number*)r.y + at + i, r.bias == nullptr ? y : y + load(r.bias + i), LANES);
    }
}

// Gradients of a row, and what it adds to those of weight and bias in `more` (2, d).
template <class Number>
static void add_and_norm_back(const Residual& r, int64_t row, float* more) {
    const int64_t d = r.d, at = row * d;
    const Number *sums = (const Number*)r.sums + at, *d_y = (const Number*)r.d_y + at;
    Number *d_x = (Number*)r.d_x + at, *d_part = (Number*)r.d_part + at;
    const Floats mean = every(r.scales[2 * row]), scale = every(r.scales[2 * row + 1]);
    Floats total = every(0.0f), along = every(0.0f);
    for (int64_t i = 0; i < d; i += LANES) {
        const Floats z = (load(sums + i) - mean) * scale, given = load(d_y + i), g = given * load(r.weight + i);
        total = total + g;
        along = fma(g, z, along);
        store(more + i, fma(given, z, load(more + i)));
        store(more + d + i, load(more + d + i) + given);
    }
    const Floats middle = every(sum(total) / (float)d), slope = every(sum(along) / (float)d);
    for (int64_t i = 0; i < d; i += LANES) {
        const Floats z = (load(sums + i) - mean) * scale, g = load(d_y + i) * load(r.weight + i);
        const Floats found = (g - middle - z * slope) * scale;
        put(d_x + i, found, LANES);
        if (d_part != d_x) put(d_part + i, dropped(r.dropping, load(d_x + i), at + i, LANES), LANES);
    }
}

template <class Number>
static void settle(Team& team, const Residual& r, bool back) {
    const int64_t n_blocks = ceil_div(r.n_rows, ROWS_AT_ONCE);
    team.each(n_blocks, [&](int64_t block) {
        const int64_t end = std::min(r.n_rows, (block + 1) * ROWS_AT_ONCE);
        float* more = back ? r.room + block * 2 * r.d : nullptr;
        if (back) std::memset(more, 0, 2 * r.d * sizeof(float));
        for (int64_t row = block * ROWS_AT_ONCE; row < end; row++)
            back ? add_and_norm_back<Number>(r, row, more) : add_and_norm<Number>(r, row);
    });
    if (!back) return;
    team.each(r.d / LANES, [&](int64_t i) {
        Floats weight = every(0.0f), bias = every(0.0f);
        for (int64_t block = 0; block < n_blocks; block++) {
            const float* more = r.room + block * 2 * r.d + i * LANES;
            weight = weight + load(more), bias = bias + load(more + r.d);
        }
        store(r.d_weight + i * LANES, weight);
        if (r.d_bias != nullptr) store(r.d_bias + i * LANES, bias);
    });
}

// Scores of a row become softmax(scores) − kept · 1[label]; what is told is their log-sum-exp and the label's score.
template <class Number>
static void score_gradient(Number* x, int64_t n, int64_t label, float kept, float* norm, float* gold) {
    static thread_local std::vector<float> powers;
    powers.resize(n + LANES);
    Floats most = every(-FLT_MAX), total = every(0.0f), nothing = every(0.0f);
    *gold = (float)x[label];
    each_lanes(n, [&](int64_t i, int m) {
        const Floats lanes = first_or(some(x + i, m), m, -FLT_MAX);
        most = larger(lanes, most);
        nothing = nothing + (lanes - lanes);  // what is no number, or infinite, stays none
    });
    const float peak = largest(most) + sum(nothing);
    each_lanes(n, [&](int64_t i, int m) {
        const Floats lanes = first_or(exponential(some(x + i, m) - every(peak)), m, 0.0f);
        store(powers.data() + i, lanes);
        total = total + lanes;
    });
    const float all = sum(total);
    const Floats share = every(1.0f / all);
    *norm = peak + std::log(all);
    const float own = powers[label] / all - kept;
    each_lanes(n, [&](int64_t i, int m) { put(x + i, load(powers.data() + i) * share, m); });
    x[label] = (Number)own;
}
