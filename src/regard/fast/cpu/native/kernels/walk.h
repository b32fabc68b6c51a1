// One step of greedy decodings of a row each, from their last tokens to the likeliest next: what lies between is not
// seen by anybody else.
#pragma once

#include "decoder.h"
#include "vocabulary.h"

extern "C" {
struct WalkRow {
    DecoderRows rows;  // of one row, whose length grows
    int64_t token;     // the last one, replaced by the next
    double log_prob;   // of that
    // Of one that goes on by itself (`walkers.h`): what it has written, and with how much it ends.
    int64_t* tokens;
    double* log_probs;
    int64_t n_written, limit, eos;
    double first, deadline;  // on the steady clock, in seconds: when its first token came, and when it leaves
    volatile int64_t leaves;  // before the next step, because somebody says so
    int64_t over;             // nobody steps for it any more
};

struct WalkStep {
    DecoderStep step;  // parts, x and the number of both are found here
    WalkRow* const* rows;
    const float* embedding;  // (tokens, d_model)
    const float* positions;  // (positions, d_model), added, or null
    const Linear* output;
    const float* output_bias;  // (tokens), added, or null
    int64_t n_rows;
    double embedding_scale;
};
}

template <class Number>
class Walking {
  public:
    explicit Walking(const WalkStep& given)
        : s(given), N(s.n_rows), D(s.step.d_model), V(s.output->n_out), stride(widest({s.output})), parts(described()),
          x(kept(numbers, N * (D + V) + N)), logits(x + N * D), in{kept(bytes, N * stride + 64), logits + N * V, stride},
          step(whole()), decoder(step) {
        in.data += -(uintptr_t)in.data & 63;
    }

    void run(Team& team) {
        team.each(N, [&](int64_t i) { embed(i); });
        decoder.run(team);
        make_all_ready(team, *s.output, x, in, N);
        linear(team, *s.output, in, N, logits);
        team.each(N, [&](int64_t i) { choose(i); });
    }

  private:
    static thread_local std::vector<float> numbers;
    static thread_local std::vector<uint8_t> bytes;

    const WalkStep& s;
    const int64_t N, D, V, stride;
    const std::vector<DecoderRows> parts;
    float *x, *logits;
    Inputs in;
    const DecoderStep step;
    Decoder<Number> decoder;

    template <class T>
    static T* kept(std::vector<T>& room, int64_t n) {
        if ((int64_t)room.size() < n) room.resize(n);
        return room.data();
    }

    std::vector<DecoderRows> described() const {
        std::vector<DecoderRows> all;
        for (int64_t i = 0; i < N; i++) all.push_back(s.rows[i]->rows);
        return all;
    }

    DecoderStep whole() const {
        DecoderStep all = s.step;
        all.parts = parts.data(), all.x = x, all.n_parts = all.n_rows = N;
        return all;
    }

    void embed(int64_t i) {
        const WalkRow& row = *s.rows[i];
        const float *vector = s.embedding + row.token * D, scale = (float)s.embedding_scale;
        const float* place = s.positions == nullptr ? nullptr : s.positions + row.rows.length * D;
        for (int64_t d = 0; d < D; d++) {
            const float scaled = vector[d] * scale;
            x[i * D + d] = place == nullptr ? scaled : scaled + place[d];
        }
    }

    void choose(int64_t i) {
        WalkRow& row = *s.rows[i];
        float *mine = logits + i * V, value;
        for (int64_t v = 0; s.output_bias != nullptr && v < V; v++) mine[v] += s.output_bias[v];
        find_largest(mine, V, 1, &value, &row.token);
        row.log_prob = value - log_sum(mine, V);
        row.rows.length++;
    }
};

template <class Number>
thread_local std::vector<float> Walking<Number>::numbers;
template <class Number>
thread_local std::vector<uint8_t> Walking<Number>::bytes;
