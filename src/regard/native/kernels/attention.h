// One head's queries attending to keys and values that lie together: softmax(scale · q kᵀ) v.
#pragma once

#include <vector>

#include "rows.h"

// Keys and values of one head, position after position. A query sees `n` of them: those in `places`, or the first n where
// that is null.
template <class Number>
struct Positions {
    const Number* keys;
    const Number* values;
    int64_t d_head, n;
    const int32_t* places;

    int64_t at(int64_t p) const { return (places == nullptr ? p : places[p]) * d_head; }
};

template <class Number>
static inline float dot(const float* a, const Number* b, int64_t n) {
    Floats total = every(0.0f);
    each_lanes(n, [&](int64_t i, int m) { total = fma(some(a + i, m), some(b + i, m), total); });
    return sum(total);
}

// The scores of sixteen positions from p on at a time, by N registers of query and keys.
template <int N, class Number>
static inline void score_whole(const float* query, const Positions<Number>& seen, float scale, float* scores) {
    Floats q[N];
    for (int i = 0; i < N; i++) q[i] = load(query + i * LANES) * every(scale);
    for (int64_t p = 0; p < seen.n; p += LANES) {
        Floats products[LANES];
        for (int j = 0; j < LANES; j++) {
            const Number* key = seen.keys + seen.at(std::min(p + j, seen.n - 1));
            products[j] = q[0] * load(key);
            for (int i = 1; i < N; i++) products[j] = fma(q[i], load(key + i * LANES), products[j]);
        }
        put(scores + p, sums_of(products), (int)std::min<int64_t>(LANES, seen.n - p));
    }
}

template <class Number>
static inline void score(const float* query, const Positions<Number>& seen, float scale, float* scores) {
    if (seen.d_head == 2 * LANES) return score_whole<2>(query, seen, scale, scores);
    if (seen.d_head == 4 * LANES) return score_whole<4>(query, seen, scale, scores);
    for (int64_t p = 0; p < seen.n; p++) scores[p] = scale * dot(query, seen.keys + seen.at(p), seen.d_head);
}

static inline void softmax(float* x, int64_t n) {
    float most = x[0];
    for (int64_t i = 1; i < n; i++) most = std::max(most, x[i]);
    Floats total = every(0.0f);
    each_lanes(n, [&](int64_t i, int m) {
        put(x + i, exponential(some(x + i, m) - every(most)), m);
        total = total + some(x + i, m);
    });
    const Floats scale = every(1.0f / sum(total));
    each_lanes(n, [&](int64_t i, int m) { put(x + i, some(x + i, m) * scale, m); });
}

// N registers of the output, from feature `from` on.
template <int N, class Number>
static inline void weigh(const float* weights, const Positions<Number>& seen, int64_t from, float* out) {
    Floats sums[N];
    for (int i = 0; i < N; i++) sums[i] = every(0.0f);
    for (int64_t p = 0; p < seen.n; p++) {
        const Number* value = seen.values + seen.at(p) + from;
        for (int i = 0; i < N; i++) sums[i] = fma(every(weights[p]), load(value + i * LANES), sums[i]);
    }
    for (int i = 0; i < N; i++) store(out + from + i * LANES, sums[i]);
}

template <class Number>
static inline void weigh_some(const float* weights, const Positions<Number>& seen, int64_t from, int m, float* out) {
    Floats sums = every(0.0f);
    for (int64_t p = 0; p < seen.n; p++)
        sums = fma(every(weights[p]), load_first(seen.values + seen.at(p) + from, m), sums);
    store_first(out + from, sums, m);
}

thread_local std::vector<float> scores_room;

// query and out are (d_head). A query that may see nothing gets zeros.
template <class Number>
static inline void attend(const float* query, const Positions<Number>& seen, float scale, float* out) {
    const int64_t E = seen.d_head;
    if (seen.n == 0) {
        std::fill(out, out + E, 0.0f);
        return;
    }
    if ((int64_t)scores_room.size() < seen.n) scores_room.resize(2 * seen.n);
    float* scores = scores_room.data();
    score(query, seen, scale, scores);
    softmax(scores, seen.n);
    int64_t i = 0;
    for (; i + 4 * LANES <= E; i += 4 * LANES) weigh<4>(scores, seen, i, out);
    for (; i + LANES <= E; i += LANES) weigh<1>(scores, seen, i, out);
    if (i < E) weigh_some(scores, seen, i, (int)(E - i), out);
}
