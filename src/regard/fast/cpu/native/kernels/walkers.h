// Greedy decodings that go on by themselves. One thread steps all there are, again and again, until it is called back;
// others bring rows and wait for those that are over. Nobody who does that waits for a step, and no step for them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "walk.h"

extern "C" {
struct WalkCounts {  // since they were last asked for
    int64_t n_tokens, n_steps;
    double seconds;
};
}

class Walkers {
  public:
    Walkers(const WalkStep& step, const Runtime& runtime, int64_t n_few, int64_t n_many)
        : common(step), all(runtime), few(runtime), n_many(n_many) {
        few.wanted = n_few;
    }

    void join(WalkRow* row, const float* positions) {
        std::lock_guard guard(mutex);
        common.positions = positions;
        joining.push_back(row);
        changed.notify_one();
    }

    void share(bool alone, bool others_compute) {
        std::lock_guard guard(mutex);
        is_alone = alone, is_shared = others_compute;
    }

    void call_back(bool for_good) {
        std::lock_guard guard(mutex);
        called = true, closed = closed || for_good;
        changed.notify_one();
        if (closed) over_changed.notify_all();
    }

    // Until somebody calls back; rows that are not over by then are the caller's.
    void run() {
        std::unique_lock lock(mutex);
        while (!called) {
            going.insert(going.end(), joining.begin(), joining.end());
            joining.clear();
            if (going.empty()) {
                changed.wait(lock);
                continue;
            }
            WalkStep step = common;
            const bool shared = is_shared || !(is_alone || (int64_t)going.size() >= n_many);
            lock.unlock();
            const double before = seconds();
            part([&](WalkRow& row) { return row.leaves || before > row.deadline; });
            step.rows = going.data(), step.n_rows = (int64_t)going.size();
            if (step.n_rows) {
                walk_on(shared ? few : all, step);
                note(seconds());
            }
            lock.lock();
            counts.n_tokens += step.n_rows, counts.n_steps += step.n_rows > 0, counts.seconds += seconds() - before;
            if (!left.empty()) over_changed.notify_all();
            over.insert(over.end(), left.begin(), left.end());
            left.clear();
        }
        called = closed;
        going.clear();
    }

    // Whether some are over, as soon as there are any; not where nobody will come any more.
    bool wait() {
        std::unique_lock lock(mutex);
        over_changed.wait(lock, [&] { return closed || !over.empty(); });
        return !over.empty();
    }

    // Those that are over, as many as there is room for.
    int64_t collect(WalkRow** found, int64_t most, WalkCounts* told) {
        std::lock_guard guard(mutex);
        const int64_t n = std::min<int64_t>(most, over.size());
        std::copy_n(over.begin(), n, found);
        over.erase(over.begin(), over.begin() + n);
        *told = counts, counts = {};
        return n;
    }

    // Whoever joined when `run` had returned already: nobody steps for them, and their rows need not last.
    void forget() {
        std::lock_guard guard(mutex);
        joining.clear();
    }

  private:
    WalkStep common;
    Runtime all, few;
    const int64_t n_many;
    std::mutex mutex;
    std::condition_variable changed, over_changed;
    std::vector<WalkRow*> joining, over;
    std::vector<WalkRow*> going, left;  // of the thread that steps
    WalkCounts counts{};
    bool called = false, closed = false, is_alone = false, is_shared = false;

    static double seconds() {
        return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    }

    static void walk_on(const Runtime& runtime, const WalkStep& step) {
        const auto run = [&](auto&& walking) { together(runtime, [&](Team team) { walking.run(team); }); };
        if (step.step.half) run(Walking<Half>(step));
        else run(Walking<float>(step));
    }

    void note(double now) {
        for (WalkRow* row : going) {
            if (row->n_written == 0) row->first = now;
            row->tokens[row->n_written] = row->token, row->log_probs[row->n_written] = row->log_prob;
            row->n_written++;
        }
        part([](WalkRow& row) { return row.token == row.eos || row.n_written >= row.limit; });
    }

    template <class Ends>
    void part(Ends ends) {
        size_t n = 0;
        for (WalkRow* row : going) {
            if (ends(*row)) left.push_back(row), row->over = 1;
            else going[n++] = row;
        }
        going.resize(n);
    }
};
