// What is done to one row by itself: made ready for a linear layer, added to another, normed.
#pragma once

#include <cmath>

#include "blocks.h"

template <class Work>
static inline void each_lanes(int64_t n, Work work) {  // work(start, how many of the lanes)
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) work(i, LANES);
    if (i < n) work(i, (int)(n - i));
}

// The largest size in a row; not a number where one of the row is none, or infinite.
static inline float size_of_row(const float* x, int64_t n) {
    Floats most = every(0.0f), nothing = every(0.0f);
    each_lanes(n, [&](int64_t i, int m) {
        Floats some_of_it = some(x + i, m);
        most = larger(most, size_of(some_of_it));
        nothing = nothing + (some_of_it - some_of_it);
    });
    return largest(most) + sum(nothing);
}

// Rounded to 8 bits, in steps of the row's largest size; what fills the last group of four is multiplied by zeros.
static inline void round_to_bytes(const float* x, int64_t n, bool positive, uint8_t* y, float* size) {
    const int zero = positive ? 0 : 1 << (BITS - 1), steps = positive ? (1 << BITS) - 1 : zero - 1;
    *size = std::max(size_of_row(x, n), FLT_MIN);
    const Floats scale = every((float)steps / *size);
    each_lanes(n, [&](int64_t i, int m) { store_bytes(y + i, some(x + i, m) * scale, m, zero); });
    for (; n % 4; n++) y[n] = 0;
}

#ifdef __AVX512BF16__
static inline void round_to_bfloat(const float* x, int64_t n, uint8_t* y) {
    each_lanes(n, [&](int64_t i, int m) {
        _mm256_mask_storeu_epi16(y + 2 * i, first(m), (__m256i)_mm512_cvtneps_pbh(some(x + i, m).v));
    });
    if (n % 2) std::memset(y + 2 * n, 0, 2);
}
#endif

// Rounded to 8 bits, in steps of the largest size in each 32.
static inline void round_to_blocks(const float* x, int64_t n_blocks, int32_t zero, uint8_t* y) {
    const BlockRow row{y, n_blocks};
    for (int64_t b = 0; b < n_blocks; b++, x += BLOCK, y += BLOCK) {
        const float size = size_of_row(x, BLOCK), step = size / 127.0f;
        const Floats per_step = every(size == 0.0f ? 0.0f : 127.0f / size);
        Ints total = no_ints();
        for (int i = 0; i < BLOCK; i += LANES) {
            const Ints numbers = whole(load(x + i) * per_step);
            store_signed((int8_t*)y + i, numbers);
            total = total + numbers;
        }
        const int32_t all = sum(total);
        row.scales()[b] = step, row.sums()[b] = step * (float)all, row.offsets()[b] = -zero * all;
    }
}

static inline int64_t bytes_of_row(const Linear& layer) {
    return in_blocks(layer) ? BlockRow::bytes(n_blocks(layer)) : n_groups(layer) * 4;
}

static inline void make_ready(const Linear& layer, const float* x, const Inputs& in, int64_t row) {
    if (in_blocks(layer)) round_to_blocks(x, n_blocks(layer), zero_of(layer.kind), in.row(row));
    else if (layer.kind == BYTES) round_to_bytes(x, layer.n_in, layer.positive, in.row(row), in.sizes + row);
#ifdef __AVX512BF16__
    else if (layer.kind == BFLOAT) round_to_bfloat(x, layer.n_in, in.row(row));
#endif
    else std::memcpy(in.row(row), x, layer.n_in * sizeof(float));
}

extern "C" {
struct Norm {
    const float* weight;
    const float* bias;  // may be null
    double epsilon;
    int64_t centred;  // layer norm; otherwise by the root of the mean square
};
}

static inline void add(float* x, const float* more, int64_t n) {
    each_lanes(n, [&](int64_t i, int m) { put(x + i, some(x + i, m) + some(more + i, m), m); });
}

// Gates and what they weigh, side by side (2 n) → weighed (n).
static inline void gate_row(const float* x, int64_t n, float* y) {
    each_lanes(n, [&](int64_t i, int m) { put(y + i, silu(some(x + i, m)) * some(x + n + i, m), m); });
}

static inline void norm_row(const Norm& norm, const float* x, int64_t n, float* y) {
    Floats total = every(0.0f), squares = every(0.0f);
    float mean = 0.0f;
    if (norm.centred) {
        each_lanes(n, [&](int64_t i, int m) { total = total + some(x + i, m); });
        mean = sum(total) / (float)n;
    }
    const Floats middle = every(mean);
    const int64_t whole = n / LANES * LANES;
    each_lanes(whole, [&](int64_t i, int) {
        Floats apart = load(x + i) - middle;
        squares = fma(apart, apart, squares);
    });
    float square = sum(squares);
    for (int64_t i = whole; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    const Floats scale = every(1.0f / std::sqrt(square / (float)n + (float)norm.epsilon));
    each_lanes(n, [&](int64_t i, int m) {
        Floats z = (some(x + i, m) - middle) * scale;
        z = norm.weight == nullptr ? z : z * some(norm.weight + i, m);
        put(y + i, norm.bias == nullptr ? z : z + some(norm.bias + i, m), m);
    });
}
