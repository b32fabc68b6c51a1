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
    // Keys and values at these places, (d_head) each.
    HeadProducts(int64_t d_head, const std::vector<const float*>& key, int64_t to_value)
        : E(d_head), n((int64_t)key.size()), d_groups(ceil_div(E, PER)), value_groups(ceil_div(n, PER)),
          key_tiles(ceil_div(n, TILE)), value_tiles(ceil_div(E, TILE)) {
        static thread_local std::vector<float> kept;
        const int64_t width = key_tiles * TILE, stride = ceil_div(d_groups, LANES) * LANES;
        const size_t all = (key_tiles * stride + value_tiles * value_groups) * TILE + QUERIES * (stride + 2 * width) + 16;
        if (kept.size() < all) kept.resize(all);
        float* at = kept.data() + (-(uintptr_t)kept.data() & 63) / sizeof(float);
        keys = at, values = at += key_tiles * stride * TILE, scores = at += value_tiles * value_groups * TILE;
        queries = at += QUERIES * width, weights = at + QUERIES * stride;
        for (int64_t p = 0; p < n; p += LANES) lay_keys(key, p);
        for (int64_t g = 0; g < value_groups; g++) lay_values(key, to_value, g);
    }

    // Queries that are `stride` numbers apart, and what each sees. One that may see nothing gets zeros.
    void attend(const float* query, int64_t n_queries, int64_t stride, float scale, float* out, int64_t out_stride) {
        for (int64_t first = 0; first < n_queries; first += QUERIES) {
            const int64_t count = std::min<int64_t>(QUERIES, n_queries - first);
            const int64_t more = std::min<int64_t>(QUERIES, n_queries - first - count);
            attend_some(query + first * stride, count, more, stride, scale, out + first * out_stride, out_stride);
        }
    }

  private:
    using Number = typename K::Number;
    static constexpr int PER = K::PER_GROUP, QUERIES = 24;  // whose scores then stay near

    const int64_t E, n, d_groups, value_groups, key_tiles, value_tiles;
    float *keys, *values, *queries, *weights, *scores;  // four bytes each: one number, or a pair of them

    int64_t query_stride() const { return ceil_div(d_groups, LANES) * LANES; }

    // Ask memory for a row of features: the next one is far away, which processors do not foresee.
    void fetch(const float* x) const {
        for (int64_t i = 0; i < E; i += LANES) _mm_prefetch((const char*)(x + i), _MM_HINT_T0);
    }

    // A row of features as a linear layer takes its inputs, filled up with zeros.
    void lay_row(const float* x, float scale, float* to) const {
        const int64_t whole = query_stride() * PER;
        for (int64_t i = 0; i < whole; i += LANES) {
            const int m = (int)std::clamp<int64_t>(E - i, 0, LANES);
            store((Number*)to + i, m == 0 ? every(0.0f) : some(x + i, m) * every(scale));
        }
    }

    // Sixteen keys from p on; past the last one, they are zeros.
    void lay_keys(const std::vector<const float*>& key, int64_t p) {
        const int64_t stride = query_stride();
        float *rows = scores, *to = keys + p / TILE * stride * TILE + p % TILE;  // there are no scores yet
        for (int64_t j = 0; j < LANES; j++) {
            if (p + j + LANES < n) fetch(key[p + j + LANES]);
            if (p + j < n) lay_row(key[p + j], 1.0f, rows + j * stride);
            else std::fill_n(rows + j * stride, stride, 0.0f);
        }
        for (int64_t g = 0; g < stride; g += LANES) turn_sixteen(rows + g, stride, to + g * TILE, TILE);
    }

    // The values of one group of keys.
    void lay_values(const std::vector<const float*>& key, int64_t to_value, int64_t g) {
        constexpr int64_t FURTHER = 8;
        for (int64_t p = (g + FURTHER) * PER; p < std::min(n, (g + FURTHER + 1) * PER); p++) fetch(key[p] + to_value);
        for (int64_t i = 0; i < value_tiles * TILE; i += LANES) {
            const int m = (int)std::clamp<int64_t>(E - i, 0, LANES);
            const auto read = [&](int64_t p) {
                return m == 0 || p >= n ? every(0.0f) : some(key[p] + to_value + i, m);
            };
            float* to = values + (i / TILE * value_groups + g) * TILE + i % TILE;
            if constexpr (PER == 1) store(to, read(g));
#ifdef __AVX512BF16__
            else store_pairs((Half*)to, read(2 * g), read(2 * g + 1));
#endif
        }
    }

    // The first `count` queries; so many `more` come after them.
    void attend_some(const float* query, int64_t count, int64_t more, int64_t stride, float scale, float* out,
                     int64_t out_stride) {
        if (n == 0) {
            for (int64_t r = 0; r < count; r++) std::fill_n(out + r * out_stride, E, 0.0f);
            return;
        }
        const int64_t width = key_tiles * TILE, q_stride = query_stride();
        for (int64_t r = 0; r < count; r++) lay_row(query + r * stride, scale, queries + r * q_stride);
        for (int64_t r = 0; r < more; r++) fetch(query + (count + r) * stride);
        for (int64_t tile = 0; tile < key_tiles; tile++)
            multiply(queries, q_stride, keys + tile * q_stride * TILE, d_groups, count, [&](int64_t r, int c, Floats sum) {
                store(scores + r * width + tile * TILE + c * LANES, sum);
            });
        float shares[QUERIES];
        for (int64_t r = 0; r < count; r++) shares[r] = weigh(scores + r * width, (Number*)(weights + r * width));
        for (int64_t tile = 0; tile < value_tiles; tile++)
            multiply(PER == 1 ? scores : weights, width, values + tile * value_groups * TILE, value_groups, count,
                     [&](int64_t r, int c, Floats sum) {
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
    static void multiply(const float* a, int64_t stride, const float* w, int64_t groups, int64_t count, Finish finish) {
        const int64_t n_blocks = ceil_div(count, BLOCK_ROWS);
        for (int64_t b = 0, row = 0; b < n_blocks; b++) {
            const int64_t rows = ceil_div(count - row, n_blocks - b);
            multiply_rows<BLOCK_ROWS>((uint8_t*)(a + row * stride), stride * 4, (uint8_t*)w, groups, (int)rows,
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
