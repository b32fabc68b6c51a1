// The threads that share a call. They are those of the OpenMP runtime PyTorch has loaded, so that nobody has two pools
// whose threads wait for the same processors; where there is none, the caller works alone.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

extern "C" {
struct Runtime {  // functions of an OpenMP runtime, or nulls
    void (*parallel)(void (*)(void*), void*, unsigned, unsigned);
    int (*n_threads)();
    int64_t wanted;
};
}

// What the members of a team have in common. Work comes in stages, of so many pieces each: the stage and its next piece
// are one number, so that nobody takes a piece of a stage that is over.
struct Table {
    alignas(64) std::atomic<uint64_t> place{0};  // stage · 2³² + next piece
    alignas(64) std::atomic<int64_t> done{0};    // pieces of this stage
    alignas(64) std::atomic<int> over{0};        // stages: who waits sleeps on this
    std::atomic<int> seated{0};
};

// Members take pieces of work in turn, first come, first served: who computes a piece changes nothing in it. A stage is
// over when its pieces are done, after which everyone sees what all have written. Nobody waits for a member that has
// nothing in hand: who is late, because somebody else has its processor, finds less to do or nothing.
class Team {
  public:
    const int size, seat;  // every member has another seat, from 0 on

    Team(Table& table, int size) : size(size), seat(table.seated.fetch_add(1)), table(table) {}

    // work(0) to work(n − 1), `at_once` neighbours at a time.
    template <class Work>
    void each(int64_t n, Work work, int64_t at_once = 1) {
        if (size == 1 || n == 0) {
            for (int64_t i = 0; i < n; i++) work(i);
            return;
        }
        uint64_t place = table.place.load(std::memory_order_acquire);
        while (place >> 32 == stage && (int64_t)(place & PIECES) < n) {
            if (!table.place.compare_exchange_weak(place, place + at_once, std::memory_order_acq_rel)) continue;
            int64_t i = (int64_t)(place & PIECES), end = std::min(n, i + at_once), taken = end - i;
            for (; i < end; i++) work(i);
            if (table.done.fetch_add(taken, std::memory_order_acq_rel) + taken == n) finish();
            place = table.place.load(std::memory_order_acquire);
        }
        wait();
        stage++;
    }

  private:
    static constexpr uint64_t PIECES = 0xffffffff;
    static constexpr int TURNS = 2000;  // of looking before sleeping: somebody else may have our partner's processor
    Table& table;
    uint64_t stage = 0;

    void finish() {
        table.done.store(0, std::memory_order_relaxed);
        table.place.store((stage + 1) << 32, std::memory_order_release);
        table.over.store((int)(stage + 1), std::memory_order_release);
        table.over.notify_all();
    }

    bool is_over() const { return table.place.load(std::memory_order_acquire) >> 32 != stage; }

    void wait() {
        for (int turn = 0; turn < TURNS; turn++) {
            if (is_over()) return;
            _mm_pause();
        }
        while (!is_over()) table.over.wait((int)stage, std::memory_order_acquire);
    }
};

// Run `work(team)` on every member of a team.
template <class Work>
void together(const Runtime& runtime, Work work) {
    Table table;
    if (runtime.wanted < 2 || runtime.parallel == nullptr) {
        work(Team(table, 1));
        return;
    }
    struct Task {
        Work& work;
        Table& table;
        const Runtime& runtime;
    } task{work, table, runtime};
    auto member = [](void* given) {
        Task& task = *static_cast<Task*>(given);
        task.work(Team(task.table, task.runtime.n_threads()));  // may be fewer than were asked for
    };
    runtime.parallel(member, &task, (unsigned)runtime.wanted, 0);
}
