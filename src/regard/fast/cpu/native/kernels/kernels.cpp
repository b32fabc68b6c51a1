// The functions that Python calls. What they compute, `regard.layers` computes with PyTorch: the readable twins.
#include "causal.h"
#include "decoder.h"
#include "encoder.h"
#include "look_back.h"
#include "prefill.h"
#include "trained_rows.h"
#include "vocabulary.h"
#include "walkers.h"

extern "C" {

// What inputs are rounded to where weights have 8 bits.
int64_t regard_bits() { return BITS; }

// Whether layers can be in bf16.
int64_t regard_has_bfloat() {
#ifdef __AVX512BF16__
    return 1;
#else
    return 0;
#endif
}

// (n_rows, n_in) → (n_rows, n_out)
void regard_linear(const Runtime* runtime, const Linear* layer, const float* x, int64_t n_rows, float* y) {
    const bool single = layer->kind == SINGLE;
    const int64_t stride = single ? bytes_of_row(*layer) : widest({layer});
    Room room(single ? 0 : n_rows * (stride + (int64_t)sizeof(float)) + 128);
    Inputs in{(uint8_t*)x, nullptr, stride};
    if (!single) in = Inputs{room.take<uint8_t>(n_rows * stride), room.take<float>(n_rows), stride};
    Runtime taken = *runtime;
    if (n_rows * layer->n_in * layer->n_out < 1 << 18) taken.wanted = 1;  // sooner done than shared
    together(taken, [&](Team team) {
        if (!single) make_all_ready(team, *layer, x, in, n_rows);
        linear(team, *layer, in, n_rows, y);
    });
}

// The weights of some outputs of a layer in blocks, (n, n_in).
void regard_block_rows(const Linear* layer, const int64_t* outputs, int64_t n, float* rows) {
    for (int64_t i = 0; i < n; i++) read_output(*layer, outputs[i], rows + i * layer->n_in);
}

void regard_decoder_step(const Runtime* runtime, const DecoderStep* step) {
    const auto run = [&](auto decoder) { together(*runtime, [&](Team team) { decoder.run(team); }); };
    if (step->half) run(Decoder<Half>(*step));
    else run(Decoder<float>(*step));
}

void regard_walk_step(const Runtime* runtime, const WalkStep* call) {
    const auto run = [&](auto&& walking) { together(*runtime, [&](Team team) { walking.run(team); }); };
    if (call->step.half) run(Walking<Half>(*call));
    else run(Walking<float>(*call));
}

Walkers* regard_walkers(const WalkStep* step, const Runtime* runtime, int64_t n_few, int64_t n_many) {
    return new Walkers(*step, *runtime, n_few, n_many);
}

void regard_walkers_free(Walkers* walkers) { delete walkers; }

void regard_walkers_run(Walkers* walkers) { walkers->run(); }

int64_t regard_walkers_wait(Walkers* walkers) { return walkers->wait(); }

int64_t regard_walkers_collect(Walkers* walkers, WalkRow** found, int64_t most, WalkCounts* counts) {
    return walkers->collect(found, most, counts);
}

void regard_walkers_join(Walkers* walkers, WalkRow* row, const float* positions) { walkers->join(row, positions); }

void regard_walkers_forget(Walkers* walkers) { walkers->forget(); }

void regard_walkers_share(Walkers* walkers, int64_t alone, int64_t others_compute) {
    walkers->share(alone, others_compute);
}

void regard_walkers_call_back(Walkers* walkers, int64_t for_good) { walkers->call_back(for_good); }

void regard_causal_step(const Runtime* runtime, const CausalStep* step) {
    const auto run = [&](auto causal) { together(*runtime, [&](Team team) { causal.run(team); }); };
    if (step->half) run(Causal<Half>(*step));
    else run(Causal<float>(*step));
}

void regard_look_back(const Runtime* runtime, const LookBack* call) {
    LookingBack looking(*call);
    Runtime taken = *runtime;
    if (looking.is_small()) taken.wanted = 1;
    together(taken, [&](Team team) { looking.run(team); });
}

void regard_prefill(const Runtime* runtime, const Prefill* call) {
    const auto run = [&](auto filling) { together(*runtime, [&](Team team) { filling.run(team); }); };
    if (call->half) run(Filling<Half>(*call));
    else run(Filling<float>(*call));
}

void regard_encoder_run(const Runtime* runtime, const EncoderRun* run) {
    for (int64_t first = 0, end; first < run->n_sentences; first = end) {
        end = Encoder::near(*run, first);
        Encoder encoder(*run, first, end, std::max<int64_t>(1, runtime->wanted));
        together(*runtime, [&](Team team) { encoder.run(team); });
    }
}

void regard_product(const Runtime* runtime, const Product* product) {
    Runtime taken = *runtime;
    if (product->m * product->n * product->k < 1 << 20) taken.wanted = 1;  // sooner done than shared
    static thread_local std::vector<float> block;
    block.resize(DEPTH * WIDTH * TILE);
    float* room = block.data();
    together(taken, [&](Team team) { Multiplying(*product, room, team.size).run(team); });
}

void regard_attend(const Runtime* runtime, const TrainedAttention* call, int64_t back) {
    together(*runtime, [&](Team team) {
        call->half ? attend_trained<Half>(team, *call, back) : attend_trained<float>(team, *call, back);
    });
}

void regard_drop(const Runtime* runtime, const Dropping* dropping, const void* x, int64_t n, int64_t half, void* y) {
    together(*runtime, [&](Team team) {
        half ? drop_all(team, *dropping, (const Half*)x, n, (Half*)y)
             : drop_all(team, *dropping, (const float*)x, n, (float*)y);
    });
}

void regard_residual(const Runtime* runtime, const Residual* residual, int64_t back) {
    together(*runtime, [&](Team team) {
        residual->half ? settle<Half>(team, *residual, back) : settle<float>(team, *residual, back);
    });
}

// Scores (n_rows, n_columns) become the gradients of the loss; norms and the scores of labels, one a row, are told.
void regard_score_gradients(const Runtime* runtime, void* x, int64_t n_rows, int64_t n_columns, int64_t half,
                            const int64_t* labels, double kept, float* norms, float* gold) {
    together(*runtime, [&](Team team) {
        const auto work = [&](int64_t i) {
            const auto row = [&](auto* scores) {
                score_gradient(scores + i * n_columns, n_columns, labels[i], (float)kept, norms + i, gold + i);
            };
            half ? row((Half*)x) : row((float*)x);
        };
        team.each(n_rows, work, 8);
    });
}

// Of each row (n_columns), the k largest numbers, largest first, and their columns.
void regard_largest(const Runtime* runtime, const float* x, int64_t n_rows, int64_t n_columns, int64_t k, float* values,
                    int64_t* columns) {
    together(*runtime, [&](Team team) {
        team.each(n_rows, [&](int64_t i) {
            find_largest(x + i * n_columns, n_columns, k, values + i * k, columns + i * k);
        });
    });
}

// Of each row, the logarithm of the sum of its exponentials.
void regard_log_sums(const Runtime* runtime, const float* x, int64_t n_rows, int64_t n_columns, float* sums) {
    together(*runtime, [&](Team team) {
        team.each(n_rows, [&](int64_t i) { sums[i] = log_sum(x + i * n_columns, n_columns); });
    });
}

// Scores (n_rows, n_chosen) of some columns, to their places among all of them; −inf elsewhere, and where a row may not
// choose: `allowed` (n_rows / rows_each, n_chosen) says so for neighbours together.
void regard_spread(const Runtime* runtime, const float* scores, const int64_t* columns, const uint8_t* allowed,
                   int64_t n_rows, int64_t n_chosen, int64_t rows_each, int64_t n_columns, float* spread) {
    Runtime taken = *runtime;
    if (n_rows * n_columns < 1 << 18) taken.wanted = 1;  // sooner done than shared
    together(taken, [&](Team team) {
        team.each(n_rows, [&](int64_t i) {
            spread_row(scores + i * n_chosen, columns, allowed + i / rows_each * n_chosen, n_chosen,
                       spread + i * n_columns, n_columns);
        });
    });
}

}  // extern "C"
