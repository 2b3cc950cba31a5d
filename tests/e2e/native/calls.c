/* Native code between managed code: called by P/Invoke, and calling back. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "clock.h"

typedef long (*callback)(long rounds);

struct work {
    callback back;
    double seconds;
    long tid;
    long cpu_ns;
};

__attribute__((noinline)) static long calls_compute(long rounds) {
    long x = 1;
    for (long i = 0; i < rounds; i++) {
        x = x * 31 + i;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

/* Not exported: its name is in .symtab only. */
__attribute__((noinline)) static long calls_inner(callback back, long rounds) {
    long x = calls_compute(rounds);
    x += back(rounds);
    /* Else the call would be a jump, and this function not on the stack. */
    __asm__ volatile("" : "+r"(x));
    return x;
}

/* Computes, and has as much computed by the caller's function. */
long calls_outer(callback back, long rounds) {
    long x = calls_inner(back, rounds);
    __asm__ volatile("" : "+r"(x));
    return x;
}

static void *calls_thread(void *argument) {
    struct work *work = argument;
    work->tid = gettid();
    while (thread_cpu_ns() < (long)(work->seconds * 1e9))
        calls_inner(work->back, 20000);
    work->cpu_ns = thread_cpu_ns();
    return 0;
}

/* The same on a thread that the runtime has not made, for so long. Answers: its id and CPU time. */
void calls_on_a_thread(callback back, double seconds, long *answer) {
    struct work work = {back, seconds, 0, 0};
    pthread_t thread;
    pthread_create(&thread, 0, calls_thread, &work);
    pthread_join(thread, 0);
    answer[0] = work.tid;
    answer[1] = work.cpu_ns;
}
