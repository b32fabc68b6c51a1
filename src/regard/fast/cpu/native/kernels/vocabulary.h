// Scores over a vocabulary, one row at a time: the largest, what they sum up to, and some of them in their places.
#pragma once

#include "rows.h"

// Whether a comes before b: the larger does, and what is not a number before all that are.
static inline bool precedes(float a, float b) { return a > b || (a != a && b == b); }

// Put x into a list sorted from the largest on, behind its equals; the last of the k falls out.
static inline void insert(float x, int64_t column, int64_t n, float* values, int64_t* columns) {
    int64_t place = n - 1;
    for (; place > 0 && precedes(x, values[place - 1]); place--) {
        values[place] = values[place - 1];
        columns[place] = columns[place - 1];
    }
    values[place] = x, columns[place] = column;
}

// The k largest of n numbers, the first of equals first. Most numbers are seen to be too small sixteen at a time.
static inline void find_largest(const float* x, int64_t n, int64_t k, float* values, int64_t* columns) {
    int64_t i = 0;
    for (; i < k; i++) insert(x[i], i, i + 1, values, columns);
    for (; i + LANES <= n; i += LANES) {
        for (unsigned found = above(load(x + i), every(values[k - 1])); found; found &= found - 1) {
            const int64_t column = i + __builtin_ctz(found);
            if (precedes(x[column], values[k - 1])) insert(x[column], column, k, values, columns);
        }
    }
    for (; i < n; i++)
        if (precedes(x[i], values[k - 1])) insert(x[i], i, k, values, columns);
}

static inline float log_sum(const float* x, int64_t n) {
    Floats most = every(x[0]), total = every(0.0f);
    const int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) most = larger(most, load(x + i));
    float top = largest(most);
    for (int64_t i = whole; i < n; i++) top = std::max(top, x[i]);
    for (int64_t i = 0; i < whole; i += LANES) total = total + exponential(load(x + i) - every(top));
    float rest = 0.0f;
    for (int64_t i = whole; i < n; i++) rest += std::exp(x[i] - top);
    return top + std::log(sum(total) + rest);
}

// The scores of n columns that are allowed, in their places among all; −inf elsewhere.
static inline void spread_row(const float* scores, const int64_t* columns, const uint8_t* allowed, int64_t n, float* y,
                              int64_t n_columns) {
    std::fill(y, y + n_columns, -INFINITY);
    for (int64_t i = 0; i < n; i++)
        if (allowed[i]) y[columns[i]] = scores[i];
}
