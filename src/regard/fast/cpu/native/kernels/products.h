// The matrix products of training: C (M, N) = A (M, K) · B (K, N), of numbers in single precision or in bf16.
//
// Both sides are packed in panels as they are read: for every four bytes along K (one number, or two in bf16), those of
// up to BAND_ROWS rows of A, and of 32 columns of B. A block of B stays near the processor while bands of A go by. Sums
// are added up in parts of DEPTH numbers, one part after another, whoever computes them: the result does not depend on
// the number of threads.
#pragma once

#include <vector>

#include "parts.h"

extern "C" {
struct Product {
    const void *a, *b;  // (M, K) and (K, N); of the two steps of each, one is 1
    void* c;            // (M, N), rows `c_row` numbers apart
    const float* bias;  // (N,), or null
    int64_t m, n, k;
    int64_t a_row, a_inner, b_inner, b_column, c_row;
    int64_t half;      // A and B are in bf16
    int64_t half_out;  // and so is C
    int64_t add;       // to what C holds
};
}

#ifdef REGARD_WIDE
constexpr int BAND_ROWS = 14, BAND_COLUMNS = 2;  // 28 registers of sums
#else
constexpr int BAND_ROWS = 6, BAND_COLUMNS = 1;  // 12
#endif
constexpr int64_t DEPTH = 256;          // groups of four bytes along K that are added up at once
constexpr int64_t WIDTH = 16;           // panels of B in a block
constexpr int64_t BLOCK_BANDS = 12;     // bands of A in a block

// Groups of up to 16 rows, (n, groups) words `step` apart, to (groups, `width`): what stands beside n is overwritten by
// the next group, and behind the last there is room for it.
static inline void turn(const uint8_t* rows, int64_t step, int n, int64_t groups, uint32_t* panel, int64_t width) {
    int64_t g = 0;
    for (; g + LANES <= groups; g += LANES) {
        Floats lanes[LANES];
        for (int i = 0; i < LANES; i++) lanes[i] = i < n ? load((const float*)(rows + i * step + g * 4)) : every(0.0f);
        transpose(lanes);
        for (int i = 0; i < LANES; i++) store((float*)(panel + (g + i) * width), lanes[i]);
    }
    for (; g < groups; g++)
        for (int i = 0; i < n; i++) std::memcpy(panel + g * width + i, rows + i * step + g * 4, 4);
}

// One side of a product: `items` are the rows of A or the columns of B.
struct Side {
    const uint8_t* data;
    int64_t item, inner;  // steps, in numbers
    bool half;

    int64_t bytes() const { return half ? 2 : 4; }

    // Items [first, first + n) by numbers [from, to) along K become words (groups, width), the last one filled up.
    void pack(int64_t first, int n, int64_t from, int64_t to, uint32_t* panel, int64_t width) const {
        const uint8_t* begin = data + (first * item + from * inner) * bytes();
        const int64_t count = to - from;
        if (inner == 1) {
            const int64_t groups = half ? count / 2 : count;
            for (int i = 0; i < n; i += LANES)
                turn(begin + i * item * bytes(), item * bytes(), std::min(n - i, LANES), groups, panel + i, width);
            if (half && count % 2)
                for (int i = 0; i < n; i++) panel[groups * width + i] = number(begin + (i * item + count - 1) * 2);
        } else if (half) {
            for (int64_t k = 0; k < count; k += 2) interleave(begin + k * inner * 2, k + 1 < count, n, panel + k / 2 * width);
        } else {
            for (int64_t k = 0; k < count; k++) std::memcpy(panel + k * width, begin + k * inner * 4, n * 4);
        }
    }

  private:
    static uint32_t number(const uint8_t* p) { return (uint32_t)(p[0] | p[1] << 8); }

    void interleave(const uint8_t* row, bool both, int n, uint32_t* words) const {
        const uint8_t* next = row + inner * 2;
        for (int i = 0; i < n; i++) words[i] = number(row + 2 * i) | (both ? number(next + 2 * i) << 16 : 0);
    }
};

template <class K, int R>
static void multiply_band(const uint32_t* a, const uint32_t* b, int64_t groups, const Product& p, int64_t row,
                          int64_t column, bool first) {
    constexpr int C = BAND_COLUMNS;
    typename K::Sum sums[R][C];
#pragma GCC unroll 14
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int c = 0; c < C; c++) sums[r][c] = K::none();
    for (int64_t g = 0; g < groups; g++, a += R, b += TILE) {
        decltype(K::weights((const uint8_t*)b)) lanes[C];
#pragma GCC unroll 2
        for (int c = 0; c < C; c++) lanes[c] = K::weights((const uint8_t*)(b + c * LANES));
#pragma GCC unroll 14
        for (int r = 0; r < R; r++) {
            const auto input = K::inputs((const uint8_t*)(a + r));
#pragma GCC unroll 2
            for (int c = 0; c < C; c++) sums[r][c] = K::dot(sums[r][c], input, lanes[c]);
        }
    }
#pragma GCC unroll 2
    for (int c = 0; c < C; c++) {
        const int64_t at = column + c * LANES;
        const int m = (int)std::min<int64_t>(LANES, p.n - at);
        if (m <= 0) continue;
        const Floats start = first && p.bias != nullptr ? some(p.bias + at, m) : every(0.0f);
#pragma GCC unroll 14
        for (int r = 0; r < R; r++) {
            const int64_t place = (row + r) * p.c_row + at;
            Floats y = sums[r][c] + start;
            if (p.half_out) put((Half*)p.c + place, first ? y : y + some((Half*)p.c + place, m), m);
            else put((float*)p.c + place, first ? y : y + some((float*)p.c + place, m), m);
        }
    }
}

template <class K, int R = BAND_ROWS>
static void multiply_bands(int n, const uint32_t* a, const uint32_t* b, int64_t groups, const Product& p, int64_t row,
                           int64_t column, bool first) {
    if constexpr (R > 0) {
        if (n < R) return multiply_bands<K, R - 1>(n, a, b, groups, p, row, column, first);
        for (int c = 0; c < TILE; c += BAND_COLUMNS * LANES)
            multiply_band<K, R>(a, b + c, groups, p, row, column + c, first);
    }
}

// Rows [begin, end) of A in bands as equal as can be: work(band, first row, how many).
template <class Work>
static void in_bands(int64_t begin, int64_t end, Work work) {
    const int64_t n_bands = ceil_div(end - begin, BAND_ROWS);
    for (int64_t i = 0; i < n_bands; i++) {
        const int64_t n = ceil_div(end - begin, n_bands - i);
        work(i, begin, (int)n);
        begin += n;
    }
}

template <class K>
static void multiply(Team& team, const Product& p, uint32_t* block) {
    const Side left{(const uint8_t*)p.a, p.a_row, p.a_inner, (bool)p.half};
    const Side right{(const uint8_t*)p.b, p.b_column, p.b_inner, (bool)p.half};
    const int64_t per_group = p.half ? 2 : 1, n_parts = ceil_div(p.k, DEPTH * per_group);
    const int64_t depth = p.half_out ? p.k : ceil_div(ceil_div(p.k, n_parts), per_group) * per_group;
    const int64_t most = ceil_div(depth, per_group), shares = ceil_div(p.m, BLOCK_BANDS * BAND_ROWS);
    const int64_t n_blocks = ceil_div(shares, team.size) * team.size, rows = ceil_div(p.m, n_blocks);
    static thread_local std::vector<uint32_t> band;
    for (int64_t from_column = 0; from_column < p.n; from_column += WIDTH * TILE) {
        const int64_t n_panels = std::min(WIDTH, ceil_div(p.n - from_column, TILE));
        for (int64_t from = 0; from < p.k; from += depth) {
            const int64_t to = std::min(p.k, from + depth), groups = ceil_div(to - from, per_group);
            team.each(n_panels, [&](int64_t i) {
                const int64_t column = from_column + i * TILE;
                uint32_t* panel = block + i * most * TILE;
                const int n = (int)std::min<int64_t>(TILE, p.n - column);
                if (n < TILE) std::memset(panel, 0, groups * TILE * 4);
                right.pack(column, n, from, to, panel, TILE);
            });
            team.each(n_blocks, [&](int64_t i) {
                const int64_t begin = std::min(i * rows, p.m), end = std::min(begin + rows, p.m);
                band.resize((end - begin) * groups + LANES);
                in_bands(begin, end, [&](int64_t, int64_t row, int n) {
                    left.pack(row, n, from, to, band.data() + (row - begin) * groups, n);
                });
                for (int64_t j = 0; j < n_panels; j++)
                    in_bands(begin, end, [&](int64_t, int64_t row, int n) {
                        multiply_bands<K>(n, band.data() + (row - begin) * groups, block + j * most * TILE, groups, p,
                                          row, from_column + j * TILE, from == 0 && !p.add);
                    });
            });
        }
    }
}
