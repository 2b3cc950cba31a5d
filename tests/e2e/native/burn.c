/* Threads that the runtime knows nothing of, and that compute. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "clock.h"

#define SHORT_SECONDS 0.004

struct work {
    double seconds;
    long tid;
    long cpu_ns;
};

__attribute__((noinline)) long burn_multiply(long rounds) {
    volatile long x = 1;
    for (long i = 0; i < rounds; i++)
        x = x * 31 + i;
    return x;
}

__attribute__((noinline)) static void burn_until(long end_ns) {
    while (thread_cpu_ns() < end_ns)
        burn_multiply(20000);
}

static void *burn_thread(void *argument) {
    struct work *work = argument;
    work->tid = gettid();
    burn_until((long)(work->seconds * 1e9));
    work->cpu_ns = thread_cpu_ns();
    return 0;
}

static void *idle_thread(void *argument) {
    usleep(*(int *)argument);
    return 0;
}

/* So many threads that do nothing for so long. */
void idle(double seconds, int threads, long *answer) {
    int micros = (int)(seconds * 1e6);
    pthread_t all[threads];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    for (int i = 0; i < threads; i++)
        pthread_create(&all[i], &attributes, idle_thread, &micros);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], 0);
    answer[0] = answer[1] = answer[2] = 0;
}

/* One long thread; short ones in turn beside it. Answers: id and CPU time of the long one, CPU time
   of the short ones. */
void burn(double seconds, int short_threads, long *answer) {
    struct work long_work = {seconds, 0, 0};
    pthread_t long_thread;
    pthread_create(&long_thread, 0, burn_thread, &long_work);
    answer[2] = 0;
    for (int i = 0; i < short_threads; i++) {
        struct work short_work = {SHORT_SECONDS, 0, 0};
        pthread_t thread;
        pthread_create(&thread, 0, burn_thread, &short_work);
        pthread_join(thread, 0);
        answer[2] += short_work.cpu_ns;
    }
    pthread_join(long_thread, 0);
    answer[0] = long_work.tid;
    answer[1] = long_work.cpu_ns;
}
