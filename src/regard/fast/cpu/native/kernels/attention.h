// One head's queries attending to keys and values that lie together: softmax(scale · q kᵀ) v.
#pragma once

#include <vector>

#include "rows.h"

// Keys and values of one head, position after position. A query sees `n` of them: those in `places`, or the first n
// where that is null.
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

// Sixteen scores from position p on, by N registers of query and keys. Past the last position, its score is repeated.
template <int N, bool LISTED, class Number>
static inline Floats sixteen_scores(const Floats* q, const Positions<Number>& seen, int64_t p) {
    Floats products[LANES];
    for (int j = 0; j < LANES; j++) {
        const Number* key = seen.keys + (LISTED ? seen.at(std::min(p + j, seen.n - 1)) : (p + j) * N * LANES);
        products[j] = q[0] * load(key);
        for (int i = 1; i < N; i++) products[j] = fma(q[i], load(key + i * LANES), products[j]);
    }
    return sums_of(products);
}

template <int N, class Number>
static inline void score_whole(const float* query, const Positions<Number>& seen, float scale, float* scores) {
    Floats q[N];
    for (int i = 0; i < N; i++) q[i] = load(query + i * LANES) * every(scale);
    int64_t p = 0;
    if (seen.places == nullptr)
        for (; p + LANES <= seen.n; p += LANES) store(scores + p, sixteen_scores<N, false>(q, seen, p));
    for (; p < seen.n; p += LANES) store(scores + p, sixteen_scores<N, true>(q, seen, p));
}

template <class Number>
static inline void score(const float* query, const Positions<Number>& seen, float scale, float* scores) {
    if (seen.d_head == 2 * LANES) return score_whole<2>(query, seen, scale, scores);
    if (seen.d_head == 4 * LANES) return score_whole<4>(query, seen, scale, scores);
    for (int64_t p = 0; p < seen.n; p++) scores[p] = scale * dot(query, seen.keys + seen.at(p), seen.d_head);
}

// Numbers in whole registers, those past n of no account → e to the power of each, and their sum.
static inline float exponentials(float* x, int64_t n) {
    for (int64_t i = n; i % LANES; i++) x[i] = -FLT_MAX;
    Floats most = load(x), total = every(0.0f);
    for (int64_t i = LANES; i < n; i += LANES) most = larger(most, load(x + i));
    most = every(largest(most));
    for (int64_t i = 0; i < n; i += LANES) {
        Floats power = exponential(load(x + i) - most);
        store(x + i, power);
        total = total + power;
    }
    return sum(total);
}

// N registers of the output, from feature `from` on.
template <int N, class Number>
static inline void weigh(const float* weights, const Positions<Number>& seen, int64_t from, float share, float* out) {
    Floats sums[N];
    for (int i = 0; i < N; i++) sums[i] = every(0.0f);
    for (int64_t p = 0; p < seen.n; p++) {
        const Number* value = seen.values + seen.at(p) + from;
        for (int i = 0; i < N; i++) sums[i] = fma(every(weights[p]), load(value + i * LANES), sums[i]);
    }
    for (int i = 0; i < N; i++) store(out + from + i * LANES, sums[i] * every(share));
}

template <class Number>
static inline void weigh_some(const float* weights, const Positions<Number>& seen, int64_t from, int m, float share,
                              float* out) {
    Floats sums = every(0.0f);
    for (int64_t p = 0; p < seen.n; p++)
        sums = fma(every(weights[p]), load_first(seen.values + seen.at(p) + from, m), sums);
    store_first(out + from, sums * every(share), m);
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
    if ((int64_t)scores_room.size() < seen.n + LANES) scores_room.resize(2 * seen.n + LANES);
    float* scores = scores_room.data();
    score(query, seen, scale, scores);
    const float share = 1.0f / exponentials(scores, seen.n);
    int64_t i = 0;
    for (; i + 4 * LANES <= E; i += 4 * LANES) weigh<4>(scores, seen, i, share, out);
    for (; i + LANES <= E; i += LANES) weigh<1>(scores, seen, i, share, out);
    if (i < E) weigh_some(scores, seen, i, (int)(E - i), share, out);
}
