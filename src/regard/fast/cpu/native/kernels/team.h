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

// What the members of a team have in common: the next piece of work, and how often they have met.
struct Table {
    alignas(64) std::atomic<int64_t> next{0};
    alignas(64) std::atomic<int> arrived{0};
    alignas(64) std::atomic<int> meetings{0};
    std::atomic<int> seated{0};
};

// Members take pieces of work in turn, first come, first served: who computes a piece changes nothing in it. Work ends
// with a meeting, after which everyone sees what all have written.
class Team {
  public:
    const int size, seat;  // every member has another seat, from 0 on

    Team(Table& table, int size) : size(size), seat(table.seated.fetch_add(1)), table(table) {}

    // work(0) to work(n − 1), `at_once` neighbours at a time.
    template <class Work>
    void each(int64_t n, Work work, int64_t at_once = 1) {
        if (size == 1) {
            for (int64_t i = 0; i < n; i++) work(i);
            return;
        }
        for (int64_t i; (i = table.next.fetch_add(at_once, std::memory_order_relaxed)) < n;)
            for (int64_t end = std::min(n, i + at_once); i < end; i++) work(i);
        meet();
    }

  private:
    static constexpr int TURNS = 2000;  // of looking before sleeping: somebody else may have our partner's processor
    Table& table;

    void meet() {
        const int before = table.meetings.load(std::memory_order_relaxed);
        if (table.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
            table.next.store(0, std::memory_order_relaxed);
            table.arrived.store(0, std::memory_order_relaxed);
            table.meetings.store(before + 1, std::memory_order_release);
            table.meetings.notify_all();
            return;
        }
        for (int turn = 0; turn < TURNS; turn++) {
            if (table.meetings.load(std::memory_order_acquire) != before) return;
            _mm_pause();
        }
        table.meetings.wait(before, std::memory_order_acquire);
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
