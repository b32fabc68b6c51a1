// Products of 8-bit numbers, sixteen rows by sixteen outputs at a time, where processors have tiles for that (AMX).
//
// Whole numbers add up to the same in any order, so these are the sums that `dot_four` comes to. What the kernels ask
// of tiles is here, as all else that they ask of a processor is in `lanes.h`.
#pragma once

#include <algorithm>

#include "lanes.h"

#if defined(__AMX_INT8__) && defined(__AVX512VNNI__) && defined(__linux__)
#define REGARD_TILES 1

#include <sys/syscall.h>
#include <unistd.h>

constexpr int MOST_TILE_ROWS = 32;  // of inputs at once: two tiles of them, by two of weights
constexpr int TILE_GROUPS = 16;     // groups of four inputs to a tile

// The system gives a process tiles when it asks, or not.
static inline bool tiles_are_given() {
    constexpr long ASK = 0x1023, TILE_DATA = 18;
    static const bool given = syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
    return given;
}

// A thread's tiles, given back at the end. 0 and 1 are sums of the first sixteen rows, 2 and 3 of the others; 4 and 5
// are the inputs of both, 6 and 7 the weights of twice sixteen outputs.
class Tiles {
  public:
    Tiles() = default;
    Tiles(const Tiles&) = delete;
    ~Tiles() {
        if (n_rows) _tile_release();
    }

    // For so many rows, up to 32.
    void shape(int rows) {
        if (rows == n_rows) return;
        n_rows = rows;
        struct alignas(64) {
            uint8_t palette = 1, start = 0, unused[14] = {};
            uint16_t bytes[16] = {};
            uint8_t rows[16] = {};
        } shapes;
        const auto give = [&](int tile, int rows_of_it) {
            shapes.bytes[tile] = rows_of_it ? 64 : 0;
            shapes.rows[tile] = (uint8_t)rows_of_it;
        };
        const int upper = std::min(rows, 16), lower = rows - upper;
        for (int tile : {0, 1, 4}) give(tile, upper);
        for (int tile : {2, 3, 5}) give(tile, lower);
        for (int tile : {6, 7}) give(tile, 16);
        everything_is_written(&shapes);
        _tile_loadconfig(&shapes);
    }

    // The sums (rows, 32) of rows and weights that lie as `linear.h` says, over so many tiles of inputs. On the way,
    // `next` is fetched.
    template <class Next>
    void add_up(const uint8_t* inputs, int64_t stride, const uint8_t* weights, int64_t n, Next next, int32_t* sums) {
        everything_is_written(sums);
        n_rows > 16 ? add_up<true>(inputs, stride, weights, n, next) : add_up<false>(inputs, stride, weights, n, next);
        _tile_stored(0, sums, 128);
        _tile_stored(1, sums + 16, 128);
        if (n_rows > 16) {
            _tile_stored(2, sums + 512, 128);
            _tile_stored(3, sums + 528, 128);
        }
    }

  private:
    int n_rows = 0;

    template <bool BOTH, class Next>
    static void add_up(const uint8_t* inputs, int64_t stride, const uint8_t* weights, int64_t n, Next& next) {
        _tile_zero(0);
        _tile_zero(1);
        if (BOTH) {
            _tile_zero(2);
            _tile_zero(3);
        }
        for (int64_t i = 0; i < n; i++, inputs += 64, weights += TILE_GROUPS * 128) {
            _tile_loadd(4, inputs, stride);
            _tile_loadd(6, weights, 128);
            _tile_loadd(7, weights + 64, 128);
            for (int group = 0; group < TILE_GROUPS; group++) next.template fetch<1>();
            _tile_dpbusd(0, 4, 6);
            _tile_dpbusd(1, 4, 7);
            if (BOTH) {
                _tile_loadd(5, inputs + 16 * stride, stride);
                _tile_dpbusd(2, 5, 6);
                _tile_dpbusd(3, 5, 7);
            }
        }
    }

    // Compilers do not know what tiles are loaded from.
    static void everything_is_written(const void* here) { __asm__ volatile("" : : "r"(here) : "memory"); }
};

#else

struct Tiles {};

#endif
