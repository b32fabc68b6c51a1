// Attention of many short sentences, and its gradients: what each sees of its own keys, head by head.
//
// The weights of a sentence are kept from one pass to the other, (heads, queries, keys filled up to whole lanes), so
// that nothing is computed twice. Numbers in bf16 are widened when they are read and rounded when they are written.
#pragma once

#include "products.h"

extern "C" {
struct Strided {  // (tokens, heads, d_head) of either precision, with steps in numbers
    void* data;
    int64_t row, head;
};
struct Sentence {
    int64_t first_query, n_queries, first_key, n_keys;
    int64_t key_room;    // rows of keys, of which those from n_keys on are nobody's
    int64_t weights_at;  // in numbers
};
struct TrainedAttention {
    Strided query, key, value, output;
    Strided d_output, d_query, d_key, d_value;  // backwards only
    float* weights;
    const Sentence* sentences;
    int64_t n_sentences, n_heads, n_groups, d_head;
    int64_t causal, half;
    double scale;
};
}

// R rows by C registers of columns: out (+)= a · b, b's columns side by side.
template <int R, int C>
static inline void multiply_strided(const float* a, int64_t a_row, int64_t a_inner, const float* b, int64_t b_row,
                                    int64_t depth, float* out, int64_t out_row, bool add) {
    Floats sums[R][C];
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int c = 0; c < C; c++) sums[r][c] = add ? load(out + r * out_row + c * LANES) : every(0.0f);
    for (int64_t g = 0; g < depth; g++, a += a_inner, b += b_row) {
        Floats lanes[C];
#pragma GCC unroll 2
        for (int c = 0; c < C; c++) lanes[c] = load(b + c * LANES);
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) {
            const Floats input = every(a[r * a_row]);
#pragma GCC unroll 2
            for (int c = 0; c < C; c++) sums[r][c] = fma(input, lanes[c], sums[r][c]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 2
        for (int c = 0; c < C; c++) store(out + r * out_row + c * LANES, sums[r][c]);
}

struct Numbers {  // a matrix of single precision, with its steps
    const float* data;
    int64_t row, inner;
};

constexpr int SHORT_ROWS = BAND_COLUMNS == 2 ? 12 : 6;

template <int R = SHORT_ROWS>
static void multiply_short_rows(int n_rows, int64_t n, int64_t depth, Numbers a, Numbers b, float* out, int64_t out_row,
                                bool add) {
    if constexpr (R > 0) {
        if (n_rows < R) return multiply_short_rows<R - 1>(n_rows, n, depth, a, b, out, out_row, add);
        int64_t c = 0;
        if constexpr (BAND_COLUMNS == 2)
            for (; c + 2 * LANES <= n; c += 2 * LANES)
                multiply_strided<R, 2>(a.data, a.row, a.inner, b.data + c, b.row, depth, out + c, out_row, add);
        for (; c < n; c += LANES)
            multiply_strided<R, 1>(a.data, a.row, a.inner, b.data + c, b.row, depth, out + c, out_row, add);
    }
}

// out (m, n) (+)= a (m, depth) · b (depth, n), n whole lanes.
static void multiply_short(int64_t m, int64_t n, int64_t depth, Numbers a, Numbers b, float* out, int64_t out_row,
                           bool add) {
    const int64_t n_bands = ceil_div(m, SHORT_ROWS);
    for (int64_t i = 0, row = 0; i < n_bands; i++) {
        const int64_t rows = ceil_div(m - row, n_bands - i);
        multiply_short_rows((int)rows, n, depth, {a.data + row * a.row, a.row, a.inner}, b, out + row * out_row, out_row, add);
        row += rows;
    }
}

template <class Number>
class AttentionWork {
  public:
    AttentionWork(const TrainedAttention& call) : call(call), E(call.d_head) {}

    void forward(int64_t piece) {
        const Sentence& s = call.sentences[piece / call.n_groups];
        const int64_t group = piece % call.n_groups, T = s.n_queries, S = s.n_keys, width = lanes_of(S);
        const Numbers keys = read(call.key, s.first_key, S, group, scratch[0]), turned = turn_over(keys, S, width);
        const Numbers values = read(call.value, s.first_key, S, group, scratch[1]);
        for (int64_t h = group * shared(); h < (group + 1) * shared(); h++) {
            float* weights = call.weights + s.weights_at + h * T * width;
            const Numbers queries = read(call.query, s.first_query, T, h, scratch[2]);
            multiply_short(T, width, E, queries, turned, weights, width, false);
            for (int64_t i = 0; i < T; i++) soften(weights + i * width, call.causal ? std::min(i + 1, S) : S, width);
            Target out = target(call.output, s.first_query, T, h, scratch[3]);
            multiply_short(T, E, S, {weights, width, 1}, values, out.data, out.row, false);
            write(out, T);
        }
    }

    void backward(int64_t piece) {
        const Sentence& s = call.sentences[piece / call.n_groups];
        const int64_t group = piece % call.n_groups, T = s.n_queries, S = s.n_keys, width = lanes_of(S);
        const Numbers keys = read(call.key, s.first_key, S, group, scratch[0]);
        const Numbers turned = turn_over(read(call.value, s.first_key, S, group, scratch[1]), S, width);
        Target d_keys = target(call.d_key, s.first_key, S, group, scratch[4]);
        Target d_values = target(call.d_value, s.first_key, S, group, scratch[5]);
        gradients.resize(T * width);
        for (int64_t h = group * shared(); h < (group + 1) * shared(); h++) {
            const bool more = h > group * shared();
            const float* weights = call.weights + s.weights_at + h * T * width;
            const Numbers d_output = read(call.d_output, s.first_query, T, h, scratch[2]);
            multiply_short(S, E, T, {weights, 1, width}, d_output, d_values.data, d_values.row, more);
            multiply_short(T, width, E, d_output, turned, gradients.data(), width, false);
            for (int64_t i = 0; i < T; i++) harden(weights + i * width, gradients.data() + i * width, width);
            Target d_queries = target(call.d_query, s.first_query, T, h, scratch[3]);
            multiply_short(T, E, S, {gradients.data(), width, 1}, keys, d_queries.data, d_queries.row, false);
            write(d_queries, T);
            const Numbers queries = read(call.query, s.first_query, T, h, scratch[3]);
            multiply_short(S, E, T, {gradients.data(), 1, width}, queries, d_keys.data, d_keys.row, more);
        }
        for (Target* one : {&d_keys, &d_values}) {
            write(*one, S);
            for (int64_t i = S; i < s.key_room; i++) std::memset(one->place + i * one->step, 0, E * sizeof(Number));
        }
    }

  private:
    struct Target {  // where rows go, and where they are computed until then
        float* data;
        int64_t row;
        Number* place;
        int64_t step;
    };
    const TrainedAttention& call;
    const int64_t E;
    std::vector<float> scratch[6], across, gradients;

    static int64_t lanes_of(int64_t n) { return ceil_div(n, LANES) * LANES; }
    int64_t shared() const { return call.n_heads / call.n_groups; }
    static Number* at(const Strided& all, int64_t row, int64_t head) {
        return (Number*)all.data + row * all.row + head * all.head;
    }

    Numbers read(const Strided& all, int64_t first, int64_t n, int64_t head, std::vector<float>& room) {
        const Number* from = at(all, first, head);
        if constexpr (std::is_same_v<Number, float>) return {from, all.row, 1};
        room.resize(n * E);
        for (int64_t i = 0; i < n; i++)
            for (int64_t e = 0; e < E; e += LANES) store(room.data() + i * E + e, load(from + i * all.row + e));
        return {room.data(), E, 1};
    }

    Target target(const Strided& all, int64_t first, int64_t n, int64_t head, std::vector<float>& room) {
        Number* place = at(all, first, head);
        if constexpr (std::is_same_v<Number, float>) return {place, all.row, place, all.row};
        room.resize(n * E);
        return {room.data(), E, place, all.row};
    }

    void write(const Target& from, int64_t n) {
        if constexpr (!std::is_same_v<Number, float>)
            for (int64_t i = 0; i < n; i++)
                for (int64_t e = 0; e < E; e += LANES)
                    put(from.place + i * from.step + e, load(from.data + i * from.row + e), LANES);
    }

    Numbers turn_over(const Numbers& rows, int64_t n, int64_t width) {  // (n, E) → (E, width)
        across.resize(E * width);
        for (int64_t i = 0; i < n; i += LANES)
            turn((const uint8_t*)(rows.data + i * rows.row), rows.row * 4, (int)std::min<int64_t>(LANES, n - i), E,
                 (uint32_t*)across.data() + i, width);
        return {across.data(), width, 1};
    }

    // Scores of which the first n count become weights: a softmax, and zeros behind.
    void soften(float* x, int64_t n, int64_t width) const {
        const Floats scale = every((float)call.scale);
        Floats most = every(-FLT_MAX), total = every(0.0f);
        each_lanes(n, [&](int64_t i, int m) {
            Floats lanes = load(x + i) * scale;
            if (m < LANES) lanes = first_or(lanes, m, -FLT_MAX);
            most = larger(lanes, most);
        });
        const Floats peak = every(largest(most));
        each_lanes(n, [&](int64_t i, int m) {
            Floats lanes = exponential(load(x + i) * scale - peak);
            if (m < LANES) lanes = first_or(lanes, m, 0.0f);
            store(x + i, lanes);
            total = total + lanes;
        });
        const Floats share = every(1.0f / sum(total));
        each_lanes(n, [&](int64_t i, int) { store(x + i, load(x + i) * share); });
        for (int64_t i = lanes_of(n); i < width; i += LANES) store(x + i, every(0.0f));
    }

    // Gradients of weights become those of what queries and keys gave before it was scaled.
    void harden(const float* weights, float* x, int64_t width) const {
        Floats total = every(0.0f);
        for (int64_t i = 0; i < width; i += LANES) total = fma(load(weights + i), load(x + i), total);
        const Floats mean = every(sum(total)), scale = every((float)call.scale);
        for (int64_t i = 0; i < width; i += LANES) store(x + i, load(weights + i) * (load(x + i) - mean) * scale);
    }
};

template <class Number>
static void attend_trained(Team& team, const TrainedAttention& call, bool back) {
    AttentionWork<Number> work(call);
    team.each(call.n_sentences * call.n_groups, [&](int64_t i) { back ? work.backward(i) : work.forward(i); }, 4);
}
