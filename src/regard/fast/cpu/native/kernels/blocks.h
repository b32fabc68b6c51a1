// Linear layers whose weights stay in the blocks they were published in, llama.cpp's Q8_0, Q4_0 and Q4_1.
//
//     32 weights of one output share a scale d, and with Q4_1 a least value m:     w = d · q  or  w = d · q + m
//
// Input rows are rounded to 8 bits in blocks of 32 as well, each in steps of its own largest number, so a block of a
// product is a sum of whole numbers, which has no order, times two scales. Blocks are added up from the first to the
// last, whatever rows stand beside: a row does not feel its neighbours.
//
// Weights of 16 outputs lie together, a tile: all their blocks, (groups of four inputs, outputs, four inputs), then all
// scales, then all least values, 16 at a time. It takes as many bytes as in the file. A byte of Q4 holds inputs i and
// i + 16 of its block; weights of Q8_0 lie as 0 to 255 about a zero of 128, since products want one side unsigned.
#pragma once

#include "linear.h"

constexpr int BLOCK = 32;        // inputs that share a scale
constexpr int BLOCK_GROUPS = 8;  // of four inputs each
constexpr int MOST_ROWS = 8;     // that go through the weights together
constexpr int64_t AHEAD = 4096;  // bytes: so much earlier memory is asked for weights

static inline bool in_blocks(const Linear& layer) { return layer.kind >= Q8_0; }

static inline int64_t n_blocks(const Linear& layer) { return layer.n_in / BLOCK; }

// A row of inputs: its numbers, then for each block the scale, the sum of what they stand for, and what the zero of the
// weights takes from every sum of products.
struct BlockRow {
    const uint8_t* numbers;
    int64_t n_blocks;

    static int64_t bytes(int64_t n_blocks) { return n_blocks * (BLOCK + 12); }
    float* scales() const { return (float*)(numbers + n_blocks * BLOCK); }
    float* sums() const { return scales() + n_blocks; }
    int32_t* offsets() const { return (int32_t*)(sums() + n_blocks); }
};

static inline int32_t zero_of(int64_t kind) { return kind == Q8_0 ? 128 : kind == Q4_0 ? 8 : 0; }

// What a tile of 16 outputs holds. `weights(p, w)` are those of one block at p: a register for each group of inputs.
struct Eights {
    static constexpr int64_t BYTES = 512;
    static constexpr bool LEAST = false;
    static void weights(const uint8_t* p, Ints* w) {
        for (int g = 0; g < BLOCK_GROUPS; g++) w[g] = load_bytes((const int8_t*)p + g * 64);
    }
    static Ints begin(int32_t offset) {
#ifdef REGARD_DOTS
        return every_int(offset);
#else
        return no_ints();
#endif
    }
    static Ints dot(Ints sum, Ints w, Ints inputs) {
#ifdef REGARD_DOTS
        return dot_four(sum, w, inputs);
#else
        return dot_signed(sum, flip_signs(w), inputs);  // pairs of products would not fit into 16 bits
#endif
    }
};

template <bool HAS_LEAST>
struct Fours {
    static constexpr int64_t BYTES = 256;
    static constexpr bool LEAST = HAS_LEAST;
    static void weights(const uint8_t* p, Ints* w) {
        for (int g = 0; g < BLOCK_GROUPS / 2; g++) {
            const Ints both = load_bytes((const int8_t*)p + g * 64);
            w[g] = low_nibbles(both);
            w[g + BLOCK_GROUPS / 2] = high_nibbles(both);
        }
    }
    static Ints begin(int32_t offset) { return LEAST ? no_ints() : every_int(offset); }
    static Ints dot(Ints sum, Ints w, Ints inputs) { return dot_four(sum, w, inputs); }
};

template <class K>
static inline int64_t tile_bytes(int64_t n_blocks) {
    return n_blocks * (K::BYTES + (K::LEAST ? 4 : 2) * LANES);
}

// What stands so many bytes further on.
template <class T>
static inline T of_row(const T* of_first, int64_t further) {
    return *(const T*)((const uint8_t*)of_first + further);
}

// R rows by the 16 outputs of a tile.
template <class K, int R>
static inline void multiply_blocks(const Linear& layer, const Inputs& in, int64_t row, int64_t tile, float* out) {
    const int64_t n = n_blocks(layer);
    const uint8_t* w = layer.weights + tile * tile_bytes<K>(n);
    const uint16_t* scales = (const uint16_t*)(w + n * K::BYTES);
    const uint16_t* least = scales + n * LANES;
    Floats sums[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) sums[r] = every(0.0f);
    const BlockRow first{in.row(row), n};
    const uint8_t* a = first.numbers;
    const float *sizes = first.scales(), *totals = first.sums();
    const int32_t* offsets = first.offsets();
    const int64_t stride = in.stride;
    for (int64_t b = 0; b < n; b++, w += K::BYTES, a += BLOCK) {
        Ints weights[BLOCK_GROUPS];
        K::weights(w, weights);
        for (int64_t i = 0; i < tile_bytes<K>(1); i += 64) _mm_prefetch((const char*)w + AHEAD + i, _MM_HINT_T0);
        const Floats scale = load_half_floats(scales + b * LANES);
        const Floats low = K::LEAST ? load_half_floats(least + b * LANES) : every(0.0f);
        Ints products[R];
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) products[r] = K::begin(of_row(offsets + b, r * stride));
#pragma GCC unroll 8
        for (int g = 0; g < BLOCK_GROUPS; g++) {
#pragma GCC unroll 8
            for (int r = 0; r < R; r++)
                products[r] = K::dot(products[r], weights[g], every_four(a + r * stride + g * 4));
        }
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            sums[r] = fma(as_floats(products[r]), scale * every(of_row(sizes + b, r * stride)), sums[r]);
            if (K::LEAST) sums[r] = fma(low, every(of_row(totals + b, r * stride)), sums[r]);
        }
    }
    const int64_t column = tile * LANES, left = layer.n_out - column;
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
        Floats y = layer.bias == nullptr ? sums[r] : sums[r] + load(layer.bias + column);
        y = activated(layer.activation, y);
        put(out + (row + r) * layer.n_out + column, y, (int)std::min<int64_t>(left, LANES));
    }
}

template <class K, int R = MOST_ROWS>
static void multiply_rows_of_blocks(const Linear& layer, const Inputs& in, int64_t row, int64_t tile, int n,
                                    float* out) {
    if constexpr (R > 0) {
        if (n < R) return multiply_rows_of_blocks<K, R - 1>(layer, in, row, tile, n, out);
        multiply_blocks<K, R>(layer, in, row, tile, out);
    }
}

// One piece of the work that `n_pieces` counts: some rows by up to two tiles.
template <class K>
static void multiply_piece(const Linear& layer, const Inputs& in, int64_t n_rows, int64_t piece, float* out) {
    const int64_t chunks = ceil_div(n_rows, CHUNK_ROWS), begin = piece % chunks * CHUNK_ROWS;
    const int64_t end = std::min(n_rows, begin + CHUNK_ROWS), first = piece / chunks * (TILE / LANES);
    for (int64_t tile = first; tile < std::min(first + TILE / LANES, ceil_div(layer.n_out, LANES)); tile++) {
        const int64_t parts = ceil_div(end - begin, MOST_ROWS);
        for (int64_t row = begin, part = 0; part < parts; part++) {
            const int n = (int)ceil_div(end - row, parts - part);
            multiply_rows_of_blocks<K>(layer, in, row, tile, n, out);
            row += n;
        }
    }
}

static inline void multiply_in_blocks(const Linear& layer, const Inputs& in, int64_t n_rows, int64_t piece,
                                      float* out) {
    if (layer.kind == Q8_0) multiply_piece<Eights>(layer, in, n_rows, piece, out);
    else if (layer.kind == Q4_0) multiply_piece<Fours<false>>(layer, in, n_rows, piece, out);
    else multiply_piece<Fours<true>>(layer, in, n_rows, piece, out);
}

// The weights of one output, in single precision.
template <class K>
static void read_row(const Linear& layer, int64_t output, float* out) {
    const int64_t n = n_blocks(layer), lane = output % LANES;
    const uint8_t* tile = layer.weights + output / LANES * tile_bytes<K>(n);
    const uint16_t* scales = (const uint16_t*)(tile + n * K::BYTES) + lane;
    const auto number = [](uint16_t half) { return _cvtsh_ss(half); };
    for (int64_t b = 0; b < n; b++, out += BLOCK) {
        const float scale = number(scales[b * LANES]), low = K::LEAST ? number(scales[(n + b) * LANES]) : 0.0f;
        for (int i = 0; i < BLOCK; i++) {
            const int at = K::BYTES == 512 ? i : i % 16;
            const uint8_t byte = tile[b * K::BYTES + at / 4 * 64 + lane * 4 + at % 4];
            const int q = K::BYTES == 512 ? byte : i < 16 ? byte & 15 : byte >> 4;
            const float product = (float)(q - zero_of(layer.kind)) * scale;
            out[i] = K::LEAST ? product + low : product;
        }
    }
}

static inline void read_output(const Linear& layer, int64_t output, float* out) {
    if (layer.kind == Q8_0) read_row<Eights>(layer, output, out);
    else if (layer.kind == Q4_0) read_row<Fours<false>>(layer, output, out);
    else read_row<Fours<true>>(layer, output, out);
}

// Neighbouring pieces that a member of a team takes at once: memory is read best from one end to the other.
static inline int64_t pieces_at_once(int64_t n_pieces, int n_threads) {
    return std::clamp<int64_t>(n_pieces / (4 * n_threads), 1, 16);
}
