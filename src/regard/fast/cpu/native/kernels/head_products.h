// All queries of a head at once: softmax(scale · Q Kᵀ) V as two products of matrices, some rows of Q at a time.
//
// Keys and values are laid out as a linear layer's weights are (`linear.h`): keys as those of a layer with an output for
// every key, values as those of one with an input for every key. `K` says in which precision: Single or Bfloat. All that
// is added up for a query is added in the order of the keys, whatever queries stand beside it.
#pragma once

#include <vector>

#include "attention.h"

template <class K>
class HeadProducts {
  public:
    // Room for so many keys, of which there are none yet.
    HeadProducts(int64_t d_head, int64_t most)
        : E(d_head), d_groups(ceil_div(E, PER)), key_tiles(ceil_div(most, TILE)), value_tiles(ceil_div(E, TILE)) {
        static thread_local std::vector<float> kept;
        const int64_t for_keys = key_tiles * d_groups * TILE, for_values = value_tiles * value_groups() * TILE;
        const int64_t width = key_tiles * TILE;
        const size_t all = for_keys + for_values + QUERIES * (d_groups + 2 * width) + 16;
        if (kept.size() < all) kept.resize(all);
        float* at = kept.data() + (-(uintptr_t)kept.data() & 63) / sizeof(float);
        keys = (Number*)at, values = (Number*)(at += for_keys), scores = at += for_values;
        queries = (Number*)(at += QUERIES * width), weights = (Number*)(at + QUERIES * d_groups);
        std::memset(keys, 0, (for_keys + for_values) * sizeof(float));
    }

    // One key more, and its value.
    void add(const float* key, const float* value) {
        Number* to = keys + (n / TILE * d_groups * TILE + n % TILE) * PER;
        for (int64_t i = 0; i < E; i++) to[i / PER * TILE * PER + i % PER] = (Number)key[i];
        to = values + n / PER * TILE * PER + n % PER;
        for (int64_t tile = 0; tile < value_tiles; tile++, to += value_groups() * TILE * PER)
            for (int64_t i = 0; i < std::min<int64_t>(TILE, E - tile * TILE); i++)
                to[i * PER] = (Number)value[tile * TILE + i];
        n++;
    }

    // Queries that are `stride` numbers apart, and what each sees. One that may see nothing gets zeros.
    void attend(const float* query, int64_t n_queries, int64_t stride, float scale, float* out, int64_t out_stride) {
        for (int64_t first = 0; first < n_queries; first += QUERIES) {
            const int64_t count = std::min<int64_t>(QUERIES, n_queries - first);
            some(query + first * stride, count, stride, scale, out + first * out_stride, out_stride);
        }
    }

  private:
    using Number = typename K::Number;
    static constexpr int PER = K::PER_GROUP, QUERIES = 24;  // whose scores then stay near

    const int64_t E, d_groups, key_tiles, value_tiles;
    int64_t n = 0;
    Number *keys, *values, *queries, *weights;
    float* scores;

    int64_t value_groups() const { return ceil_div(key_tiles * TILE, PER); }

    void some(const float* query, int64_t count, int64_t stride, float scale, float* out, int64_t out_stride) {
        if (n == 0) {
            for (int64_t r = 0; r < count; r++) std::fill_n(out + r * out_stride, E, 0.0f);
            return;
        }
        for (int64_t r = 0; r < count; r++)
            for (int64_t i = 0; i < d_groups * PER; i++)
                queries[r * d_groups * PER + i] = (Number)(i < E ? query[r * stride + i] * scale : 0.0f);
        const int64_t width = ceil_div(n, TILE) * TILE;
        for (int64_t tile = 0; tile < width / TILE; tile++)
            multiply((uint8_t*)queries, d_groups * 4, (uint8_t*)keys + tile * d_groups * TILE * 4, d_groups, count,
                     [&](int64_t r, int c, Floats sum) { store(scores + r * width + tile * TILE + c * LANES, sum); });
        float shares[QUERIES];
        for (int64_t r = 0; r < count; r++) shares[r] = weigh(scores + r * width, weights + r * width);
        const uint8_t* weighed = PER == 1 ? (uint8_t*)scores : (uint8_t*)weights;
        for (int64_t tile = 0; tile < value_tiles; tile++)
            multiply(weighed, width * sizeof(Number), (uint8_t*)values + tile * value_groups() * TILE * 4,
                     ceil_div(n, PER), count, [&](int64_t r, int c, Floats sum) {
                         const int64_t column = tile * TILE + c * LANES, left = std::min<int64_t>(LANES, E - column);
                         if (left > 0) put(out + r * out_stride + column, sum * every(shares[r]), (int)left);
                     });
    }

    // Scores become weights, all too large by the same factor; gives what they have to be multiplied by.
    float weigh(float* row, [[maybe_unused]] Number* rounded) const {
        const float share = 1.0f / exponentials(row, n);
        if constexpr (PER > 1) {
            for (int64_t i = 0; i < ceil_div(n, LANES); i++) store(rounded + i * LANES, load(row + i * LANES));
        }
        return share;
    }

    // Rows by the outputs of one tile, in blocks that are as equal as can be.
    template <class Finish>
    static void multiply(const uint8_t* a, int64_t stride, const uint8_t* w, int64_t groups, int64_t count,
                         Finish finish) {
        const int64_t n_blocks = ceil_div(count, BLOCK_ROWS);
        for (int64_t b = 0, row = 0; b < n_blocks; b++) {
            const int64_t rows = ceil_div(count - row, n_blocks - b);
            multiply_rows<BLOCK_ROWS>(a + row * stride, stride, w, groups, (int)rows,
                                      [&](int64_t r, int c, Floats sum) { finish(row + r, c, sum); });
            row += rows;
        }
    }

    template <int R, class Finish>
    static void multiply_rows(const uint8_t* a, int64_t stride, const uint8_t* w, int64_t groups, int rows,
                              Finish finish) {
        if constexpr (R > 0) {
            if (rows < R) return multiply_rows<R - 1>(a, stride, w, groups, rows, finish);
            for (int first = 0; first < TILE / LANES; first += BLOCK_COLUMNS)
                add_up<K, R, BLOCK_COLUMNS>(a, stride, w + first * LANES * 4, groups, Ahead<0>{w},
                                            [&](int r, int c, Floats sum) { finish(r, first + c, sum); });
        }
    }
};
