// A linear layer with packed weights: output = input · weightᵀ + bias, with an activation where asked for.
//
// Inputs are taken in groups of four bytes: one number in single precision, two in bf16, or four rounded to 8 bits.
// Weights lie as they are read, (outputs / 32, groups, 32, four bytes), so that each read feeds two registers of 16
// sums. A block of rows goes through the weights of 32 outputs together. Every sum is added up in the order of its
// inputs, whatever rows stand beside it: a row does not feel its neighbours.
#pragma once

#include <algorithm>
#include <cfloat>

#include "lanes.h"
#include "tiles.h"

enum Kind : int64_t { SINGLE = 0, BFLOAT = 1, BYTES = 2, Q8_0 = 3, Q4_0 = 4, Q4_1 = 5 };  // from 3 on: `blocks.h`

enum Activation : int64_t { NONE = 0, RELU = 1, GELU = 2, GELU_TANH = 3 };

extern "C" {
struct Linear {
    const uint8_t* weights;
    const float* scales;     // BYTES: of each output, times the step of an input
    const int32_t* offsets;  // BYTES: what the zero of the inputs adds to each sum
    const float* bias;       // padded with zeros to whole tiles, like the two above
    int64_t n_in, n_out;
    int64_t kind;
    int64_t activation;
    int64_t positive;  // BYTES: inputs are 0 or more, so their zero is 0
};
}

constexpr int TILE = 32;       // outputs that are computed together
constexpr int CHUNK_ROWS = 96;  // rows to a piece of work
#ifdef REGARD_WIDE
constexpr int BLOCK_ROWS = 8, BLOCK_COLUMNS = 2;  // 16 registers of sums: with more, compilers run out
#else
constexpr int BLOCK_ROWS = 6, BLOCK_COLUMNS = 1;  // 12
#endif

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows as a layer wants them: `stride` bytes each, and for BYTES the largest size in each row.
struct Inputs {
    uint8_t* data;
    float* sizes;
    int64_t stride;

    uint8_t* row(int64_t i) const { return data + i * stride; }
};

static inline int64_t n_groups(const Linear& layer) {
    return layer.kind == SINGLE ? layer.n_in : ceil_div(layer.n_in, layer.kind == BFLOAT ? 2 : 4);
}

struct Single {
    using Sum = Floats;
    using Number = float;
    static constexpr int PER_GROUP = 1;
    static Sum none() { return every(0.0f); }
    static Floats weights(const uint8_t* p) { return load((const float*)p); }
    static Floats inputs(const uint8_t* p) {
        float one;
        std::memcpy(&one, p, 4);
        return every(one);
    }
    static Sum dot(Sum sum, Floats a, Floats w) { return fma(a, w, sum); }
    static Floats finish(const Linear& layer, Sum sum, int64_t column, float) {
        return sum + load(layer.bias + column);
    }
};

#ifdef __AVX512BF16__
struct Bfloat {
    using Sum = Floats;
    using Number = Half;
    static constexpr int PER_GROUP = 2;
    static Sum none() { return every(0.0f); }
    static Ints weights(const uint8_t* p) { return load((const int32_t*)p); }
    static Ints inputs(const uint8_t* p) { return every_four(p); }
    static Sum dot(Sum sum, Ints a, Ints w) { return {_mm512_dpbf16_ps(sum.v, (__m512bh)a.v, (__m512bh)w.v)}; }
    static Floats finish(const Linear& layer, Sum sum, int64_t column, float) {
        return sum + load(layer.bias + column);
    }
};
#endif

struct Bytes {
    using Sum = Ints;
    static Sum none() { return no_ints(); }
    static Ints weights(const uint8_t* p) { return load_bytes((const int8_t*)p); }
    static Ints inputs(const uint8_t* p) { return every_four(p); }
    static Sum dot(Sum sum, Ints a, Ints w) { return dot_four(sum, a, w); }
    static Floats finish(const Linear& layer, Sum sum, int64_t column, float size) {
        Floats product = as_floats(sum - load(layer.offsets + column)) * load(layer.scales + column);
        return fma(product, every(size), load(layer.bias + column));
    }
};

// Weights that will be needed next, asked of memory little by little: with every so many groups of inputs, some lines
// of 64 bytes. They are far ahead. Where few rows are multiplied by them there is no time to lose, and they come as near
// as can be; for more rows they stay in the second cache, since the first has few places for what is on its way, and
// who has none waits.
template <int LINES, int EVERY = 1>
struct Ahead {
    const uint8_t* at;
    int turn = 0;

    template <int ROWS>
    void fetch() {
        if (EVERY > 1 && turn++ % EVERY) return;
        for (int i = 0; i < LINES; i++) _mm_prefetch((const char*)at + i * 64, ROWS < 4 ? _MM_HINT_T0 : _MM_HINT_T1);
        at += LINES * 64;
    }
};

static inline Floats activated(int64_t activation, Floats y) {
    if (activation == RELU) return larger(every(0.0f), y);
    if (activation == GELU) return gelu(y);
    return activation == GELU_TANH ? gelu_tanh(y) : y;
}

// Sixteen sums of a row become outputs from `column` on.
template <class K>
static void finish(const Linear& layer, const Inputs& in, typename K::Sum sum, int64_t row, int64_t column, float* out) {
    Floats y = K::finish(layer, sum, column, in.sizes == nullptr ? 1.0f : in.sizes[row]);
    y = activated(layer.activation, y);
    const int64_t left = layer.n_out - column;
    if (left > 0) put(out + row * layer.n_out + column, y, (int)std::min<int64_t>(left, LANES));
}

// R rows, `stride` bytes from one to the next, by C registers of outputs: so many groups are multiplied and added up,
// and finish(row, register, sum) gets what comes of them.
template <class K, int R, int C, class Next, class Finish>
static inline void add_up(const uint8_t* a, int64_t stride, const uint8_t* w, int64_t groups, Next next, Finish finish) {
    typename K::Sum sums[R][C];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int c = 0; c < C; c++) sums[r][c] = K::none();
#pragma GCC unroll 1
    for (int64_t g = 0; g < groups; g++, w += TILE * 4, a += 4) {
        decltype(K::weights(w)) weights[C];
#pragma GCC unroll 2
        for (int c = 0; c < C; c++) {
            weights[c] = K::weights(w + c * LANES * 4);
            if constexpr (R < 5) hold(weights[c]);
        }
        next.template fetch<R>();
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            auto input = K::inputs(a + r * stride);
#pragma GCC unroll 2
            for (int c = 0; c < C; c++) sums[r][c] = K::dot(sums[r][c], input, weights[c]);
        }
    }
    // What is alive while others are called is kept in memory, all the way back through the loop: so the sums end here.
    typename K::Sum done[R][C];
    std::memcpy(done, sums, sizeof done);
    asm volatile("" : : "r"(done) : "memory");
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) finish(r, c, done[r][c]);
}

// R rows by C registers of a layer's outputs, from output `column` on.
template <class K, int R, int C, class Next>
static void multiply_block(const Linear& layer, const Inputs& in, int64_t row, int64_t column, Next next, float* out) {
    const int64_t groups = n_groups(layer);
    const uint8_t* w = layer.weights + column / TILE * groups * TILE * 4 + column % TILE * 4;
    add_up<K, R, C>(in.row(row), in.stride, w, groups, next, [&](int r, int c, typename K::Sum sum) {
        finish<K>(layer, in, sum, row + r, column + c * LANES, out);
    });
}

template <class K, class Next, int R = BLOCK_ROWS>
static void multiply_rows(const Linear& layer, const Inputs& in, int64_t row, int64_t tile, int n, Next next,
                          float* out) {
    if constexpr (R > 0) {
        if (n < R) return multiply_rows<K, Next, R - 1>(layer, in, row, tile, n, next, out);
        for (int c = 0; c < TILE; c += BLOCK_COLUMNS * LANES)
            multiply_block<K, R, BLOCK_COLUMNS>(layer, in, row, tile * TILE + c, next, out);
    }
}

// Rows from `begin` to `end` by the outputs of one tile, in blocks of rows that are as equal as can be. On the way, as
// much as a tile is fetched from `next` on: weights come from far, and there is time while calculating.
template <class K>
static void multiply_tile(const Linear& layer, const Inputs& in, int64_t begin, int64_t end, int64_t tile,
                          const uint8_t* next, float* out) {
    const int64_t n_blocks = ceil_div(end - begin, BLOCK_ROWS), half = n_groups(layer) * 64;
    for (int64_t b = 0; b < n_blocks; b++) {
        const int n = (int)ceil_div(end - begin, n_blocks - b);
        const auto rows = [&](auto ahead) { multiply_rows<K>(layer, in, begin, tile, n, ahead, out); };
        if (n_blocks == 1) rows(Ahead<2>{next});
        else if (n_blocks < 8 && b < 2) rows(Ahead<1>{next + b * half});
        else if (n_blocks >= 8 && b < 8) rows(Ahead<1, 4>{next + b * half / 4});
        else rows(Ahead<0>{next});
        begin += n;
    }
}

// Whether tiles suit: for fewer rows, weights come no sooner than they are multiplied otherwise.
[[maybe_unused]] static inline bool in_tiles(const Linear& layer, int64_t n_rows) {
#ifdef REGARD_TILES
    constexpr int64_t WORTH_IT = 4;
    return layer.kind == BYTES && n_rows >= WORTH_IT && n_groups(layer) % TILE_GROUPS == 0 && tiles_are_given();
#else
    return false;
#endif
}

#ifdef REGARD_TILES
// What `multiply_tile<Bytes>` does. All blocks have as many rows: the last begins within the one before.
static inline void multiply_in_tiles(const Linear& layer, const Inputs& in, int64_t begin, int64_t end, int64_t tile,
                                     const uint8_t* next, Tiles& tiles, float* out) {
    const int64_t groups = n_groups(layer), n_blocks = ceil_div(end - begin, MOST_TILE_ROWS);
    const int64_t n = ceil_div(end - begin, n_blocks);
    const uint8_t* weights = layer.weights + tile * groups * TILE * 4;
    alignas(64) int32_t sums[MOST_TILE_ROWS * TILE];
    tiles.shape((int)n);
    for (int64_t b = 0; b < n_blocks; b++) {
        const int64_t first = std::min(begin + b * n, end - n);
        const auto add_up = [&](auto ahead) {
            tiles.add_up(in.row(first), in.stride, weights, groups / TILE_GROUPS, ahead, sums);
        };
        b == 0 ? add_up(Ahead<2>{next}) : add_up(Ahead<0>{next});
        for (int64_t r = 0; r < n; r++)
            for (int c = 0; c < TILE; c += LANES)
                finish<Bytes>(layer, in, load(sums + r * TILE + c), first + r, tile * TILE + c, out);
    }
}
#endif

// How many pieces of work a layer is for some rows, and one of them.
static inline int64_t n_pieces(const Linear& layer, int64_t n_rows) {
    return ceil_div(layer.n_out, TILE) * ceil_div(n_rows, CHUNK_ROWS);
}

// Tiles are likely to be taken in turn, so the next of ours is as many further as there are threads; or it is one of
// the layer that comes `then`, if that is known.
static inline const uint8_t* next_weights(const Linear& layer, const Linear* then, int64_t tile) {
    const int64_t n_tiles = ceil_div(layer.n_out, TILE);
    if (tile < n_tiles) return layer.weights + tile * n_groups(layer) * TILE * 4;
    if (then == nullptr || then->kind > BYTES) return layer.weights;
    return then->weights + std::min(tile - n_tiles, ceil_div(then->n_out, TILE) - 1) * n_groups(*then) * TILE * 4;
}

static inline void multiply(const Linear& layer, const Linear* then, const Inputs& in, int64_t n_rows, int64_t piece,
                            int n_threads, Tiles& tiles, float* out) {
    const int64_t chunks = ceil_div(n_rows, CHUNK_ROWS), tile = piece / chunks, begin = piece % chunks * CHUNK_ROWS;
    const int64_t end = std::min(n_rows, begin + CHUNK_ROWS);
    const uint8_t* next = next_weights(layer, then, (piece + n_threads) / chunks);
#ifdef REGARD_TILES
    if (in_tiles(layer, end - begin)) return multiply_in_tiles(layer, in, begin, end, tile, next, tiles, out);
#endif
    if (layer.kind == BYTES) multiply_tile<Bytes>(layer, in, begin, end, tile, next, out);
#ifdef __AVX512BF16__
    else if (layer.kind == BFLOAT) multiply_tile<Bfloat>(layer, in, begin, end, tile, next, out);
#endif
    else multiply_tile<Single>(layer, in, begin, end, tile, next, out);
}
