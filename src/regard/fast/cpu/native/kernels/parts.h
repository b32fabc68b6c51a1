// What encoders and decoders are both made of, for all rows of a call, shared by a team.
#pragma once

#include <initializer_list>
#include <memory>

#include "attention.h"
#include "team.h"

// Memory for one call, taken piece by piece. A thread keeps it for its next call.
class Room {
  public:
    explicit Room(int64_t bytes) {
        if (size < bytes + 64) memory.reset(new uint8_t[size = bytes + 64]);
        used = (int64_t)(-(uintptr_t)memory.get() & 63);
    }

    template <class T>
    T* take(int64_t n) {
        T* taken = reinterpret_cast<T*>(memory.get() + used);
        used += bytes<T>(n);
        return taken;
    }

    template <class T>
    static int64_t bytes(int64_t n) {
        return ceil_div(n * (int64_t)sizeof(T), 64) * 64;
    }

  private:
    static thread_local std::unique_ptr<uint8_t[]> memory;
    static thread_local int64_t size;
    int64_t used;
};

thread_local std::unique_ptr<uint8_t[]> Room::memory;
thread_local int64_t Room::size = 0;

struct Heads {
    int64_t n_heads, n_groups, d_head;
    float scale;

    int64_t d_query() const { return n_heads * d_head; }
    int64_t d_key() const { return n_groups * d_head; }
    int64_t d_all() const { return d_query() + 2 * d_key(); }
    int64_t group_of(int64_t head) const { return head / (n_heads / n_groups); }
};

// Bytes from one input row to the next, for the widest of some layers: an odd multiple of 64, for rows that are a power
// of two apart would take each other's place near the processor.
static inline int64_t widest(std::initializer_list<const Linear*> layers) {
    int64_t most = 0;
    for (const Linear* layer : layers) most = std::max(most, bytes_of_row(*layer));
    return (ceil_div(most, 64) | 1) * 64;
}

// All rows through a layer; `then` is the layer that comes next, if that is known.
static inline void linear(Team& team, const Linear& layer, const Inputs& in, int64_t n, float* out,
                          const Linear* then = nullptr) {
    if (in_blocks(layer)) {
        const auto work = [&](int64_t piece) { multiply_in_blocks(layer, in, n, piece, out); };
        return team.each(n_pieces(layer, n), work, pieces_at_once(n_pieces(layer, n), team.size));
    }
    Tiles tiles;
    team.each(n_pieces(layer, n), [&](int64_t piece) { multiply(layer, then, in, n, piece, team.size, tiles, out); });
}

static inline void make_all_ready(Team& team, const Linear& layer, const float* x, const Inputs& in, int64_t n) {
    team.each(n, [&](int64_t i) { make_ready(layer, x + i * layer.n_in, in, i); });
}

// What comes between two parts of a block, for rows x (n, d): the part before is added, and the sum is normed where
// norms come after; then it is made ready for the next layer, normed where norms come before.
struct Between {
    const float* part;   // (n, d), or null
    const Norm* after;   // or null
    const Norm* before;  // or null
    const Linear* next;  // or null, at the end

    void settle(Team& team, float* x, int64_t n, int64_t d, const Inputs& in) const {
        team.each(n, [&](int64_t i) {
            static thread_local std::vector<float> normed;
            float* row = x + i * d;
            if (part != nullptr) add(row, part + i * d, d);
            if (after != nullptr) norm_row(*after, row, d, row);
            if (next == nullptr) return;
            if (before == nullptr) return make_ready(*next, row, in, i);
            normed.resize(d);
            norm_row(*before, row, d, normed.data());
            make_ready(*next, normed.data(), in, i);
        });
    }
};
