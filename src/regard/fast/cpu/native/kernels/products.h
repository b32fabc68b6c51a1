// The matrix products of training: C (M, N) = A (M, K) · B (K, N), in single precision.
//
// Both sides are packed in panels as they are read: for every number along K, those of up to BAND_ROWS rows of A, and of
// 32 columns of B. A block of B stays near the processor while bands of A go by. Sums are added up in parts of DEPTH
// numbers, one part after another, whoever computes them: the result does not depend on the number of threads.
#pragma once

#include <vector>

#include "parts.h"

extern "C" {
struct Product {
    const float *a, *b;  // (M, K) and (K, N); of the two steps of each, one is 1
    float* c;            // (M, N), rows one after another
    const float* bias;   // (N,), or null
    const float* open;   // (M, N), or null: C is 0 where this is not above 0
    int64_t m, n, k;
    int64_t a_row, a_inner, b_inner, b_column;
    int64_t add;   // to what C holds
    int64_t relu;  // what is below 0 becomes 0
};
}

#ifdef REGARD_WIDE
constexpr int BAND_ROWS = 14, BAND_COLUMNS = 2;  // 28 registers of sums
#else
constexpr int BAND_ROWS = 6, BAND_COLUMNS = 1;  // 12
#endif
constexpr int64_t DEPTH = 256;       // numbers along K that are added up at once
constexpr int64_t WIDTH = 16;        // panels of B in a block
constexpr int64_t BLOCK_BANDS = 12;  // bands of A in a block

// Words of up to 16 rows, (n, groups), `step` bytes apart, to (groups, `width`): what stands beside n is overwritten by
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

// One side of a product, (items, K) with steps in numbers: the rows of A or the columns of B, in panels.
struct Side {
    const float* data;
    int64_t item, inner;

    // Items [first, first + n) by numbers [from, to) along K, to (numbers, width), an item's along K side by side.
    void turn_panel(int64_t first, int n, int64_t from, int64_t to, float* panel, int64_t width) const {
        for (int i = 0; i < n; i += LANES)
            turn((const uint8_t*)(data + (first + i) * item + from), item * 4, std::min(n - i, LANES), to - from,
                 (uint32_t*)panel + i, width);
    }

    // The same of items that lie side by side, one number along K.
    void copy_items(int64_t first, int n, int64_t at, float* words) const {
        const float* begin = data + first + at * inner;
        for (int i = 0; i < n; i += LANES) put(words + i, some(begin + i, n - i), n - i);
    }
};

template <int R>
static void multiply_band(const float* a, const float* b, int64_t depth, const Product& p, int64_t row, int64_t column,
                          bool first, bool last) {
    constexpr int C = BAND_COLUMNS;
    Floats sums[R][C];
#pragma GCC unroll 14
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int c = 0; c < C; c++) sums[r][c] = every(0.0f);
    for (int64_t k = 0; k < depth; k++, a += R, b += TILE) {
        Floats lanes[C];
#pragma GCC unroll 2
        for (int c = 0; c < C; c++) lanes[c] = load(b + c * LANES);
#pragma GCC unroll 14
        for (int r = 0; r < R; r++) {
            const Floats input = every(a[r]);
#pragma GCC unroll 2
            for (int c = 0; c < C; c++) sums[r][c] = fma(input, lanes[c], sums[r][c]);
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
            float* place = p.c + (row + r) * p.n + at;
            Floats y = sums[r][c] + start;
            if (!first) y = y + some(place, m);
            if (last && p.relu) y = larger(every(0.0f), y);
            if (last && p.open != nullptr) y = where_above_zero(some(p.open + (place - p.c), m), y);
            put(place, y, m);
        }
    }
}

template <int R = BAND_ROWS>
static void multiply_bands(int n, const float* a, const float* b, int64_t depth, const Product& p, int64_t row,
                           int64_t column, bool first, bool last) {
    if constexpr (R > 0) {
        if (n < R) return multiply_bands<R - 1>(n, a, b, depth, p, row, column, first, last);
        for (int c = 0; c < TILE; c += BAND_COLUMNS * LANES)
            multiply_band<R>(a, b + c, depth, p, row, column + c, first, last);
    }
}

// Rows [begin, end) of A in bands as equal as can be: work(first row, how many).
template <class Work>
static void in_bands(int64_t begin, int64_t end, Work work) {
    const int64_t n_bands = ceil_div(end - begin, BAND_ROWS);
    for (int64_t i = 0; i < n_bands; i++) {
        const int64_t n = ceil_div(end - begin, n_bands - i);
        work(begin, (int)n);
        begin += n;
    }
}

class Multiplying {
  public:
    Multiplying(const Product& p, float* block, int n_threads)
        : p(p), block(block), left{p.a, p.a_row, p.a_inner}, right{p.b, p.b_column, p.b_inner} {
        const int64_t shares = ceil_div(p.m, BLOCK_BANDS * BAND_ROWS);
        n_blocks = ceil_div(shares, n_threads) * n_threads, rows = ceil_div(p.m, n_blocks);
    }

    void run(Team& team) {
        for (int64_t column = 0; column < p.n; column += WIDTH * TILE)
            for (int64_t from = 0; from < p.k; from += DEPTH) {
                const int64_t to = std::min(p.k, from + DEPTH), n = std::min(WIDTH * TILE, p.n - column);
                pack_right(team, column, n, from, to);
                team.each(n_blocks, [&](int64_t i) {
                    multiply_block(std::min(i * rows, p.m), std::min((i + 1) * rows, p.m), column, n, from, to);
                });
            }
    }

  private:
    const Product& p;
    float* block;
    const Side left, right;
    int64_t n_blocks, rows;

    void pack_right(Team& team, int64_t column, int64_t n, int64_t from, int64_t to) {
        const int64_t n_panels = ceil_div(n, TILE), depth = to - from;
        const auto width = [&](int64_t i) { return (int)std::min<int64_t>(TILE, n - i * TILE); };
        const auto clear = [](float* words, int64_t n) { std::memset(words, 0, n * sizeof(float)); };
        if (right.inner == 1)
            return team.each(n_panels, [&](int64_t i) {
                float* panel = block + i * depth * TILE;
                if (width(i) < TILE) clear(panel, depth * TILE);
                right.turn_panel(column + i * TILE, width(i), from, to, panel, TILE);
            });
        constexpr int64_t PIECE = 32;
        team.each(ceil_div(depth, PIECE), [&](int64_t piece) {
            for (int64_t k = piece * PIECE; k < std::min(depth, (piece + 1) * PIECE); k++)
                for (int64_t i = 0; i < n_panels; i++) {
                    float* words = block + (i * depth + k) * TILE;
                    if (width(i) < TILE) clear(words, TILE);
                    right.copy_items(column + i * TILE, width(i), from + k, words);
                }
        });
    }

    void multiply_block(int64_t begin, int64_t end, int64_t column, int64_t n, int64_t from, int64_t to) {
        static thread_local std::vector<float> bands;
        const int64_t depth = to - from;
        bands.resize((end - begin) * depth + LANES);
        const auto band = [&](int64_t row) { return bands.data() + (row - begin) * depth; };
        if (left.inner == 1)
            in_bands(begin, end, [&](int64_t row, int r) { left.turn_panel(row, r, from, to, band(row), r); });
        else
            for (int64_t k = 0; k < depth; k++)
                in_bands(begin, end, [&](int64_t row, int r) { left.copy_items(row, r, from + k, band(row) + k * r); });
        const bool first = from == 0 && !p.add;
        for (int64_t i = 0; i < n; i += TILE)
            in_bands(begin, end, [&](int64_t row, int r) {
                multiply_bands(r, band(row), block + i * depth, depth, p, row, column + i, first, to == p.k);
            });
    }
};
