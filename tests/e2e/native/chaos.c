/* What libraries do to a process that has a profiler in it: take signals and give them back, block
   them, fork, make threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t stealing = PTHREAD_MUTEX_INITIALIZER;
/* By signal: what is under way may arrive when its signal has been given back. */
static struct sigaction stolen_from[NSIG];
static volatile long swallowed;

__attribute__((noinline)) long chaos_burn(long rounds) {
    volatile long x = 1;
    for (long i = 0; i < rounds; i++)
        x = x * 31 + i;
    return x;
}

static void swallow(int signal) {
    (void)signal;
    swallowed++;
}

/* As crash reporters do it: look, then hand on to who was there before. */
static void hand_on(int signal, siginfo_t *info, void *context) {
    struct sigaction *from = &stolen_from[signal];
    if (from->sa_flags & SA_SIGINFO)
        from->sa_sigaction(signal, info, context);
    else if (from->sa_handler != SIG_DFL && from->sa_handler != SIG_IGN)
        from->sa_handler(signal);
}

/* Handles a signal for so long, and gives it back; hands it on meanwhile, or not. One thread after
   the other: two who take it from each other would give back the wrong one. */
void chaos_steal(int signal, int hands_on, int micros) {
    pthread_mutex_lock(&stealing);
    struct sigaction action;
    sigaction(signal, 0, &stolen_from[signal]);
    memset(&action, 0, sizeof action);
    if (hands_on) {
        action = stolen_from[signal];
        action.sa_flags |= SA_SIGINFO;
        action.sa_sigaction = hand_on;
    } else {
        action.sa_flags = SA_RESTART;
        action.sa_handler = swallow;
    }
    sigaction(signal, &action, 0);
    usleep(micros);
    sigaction(signal, &stolen_from[signal], 0);
    pthread_mutex_unlock(&stealing);
}

/* Computes with all signals blocked. */
void chaos_block(long rounds) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    chaos_burn(rounds);
    pthread_sigmask(SIG_SETMASK, &old, 0);
}

/* A child that becomes another program, or computes and ends. Gives its exit code, -1 if it had to
   be killed. */
int chaos_fork(const char *program) {
    pid_t child = fork();
    if (child == 0) {
        if (program)
            execl(program, program, (char *)0);
        else
            chaos_burn(1000000);
        _exit(program ? 127 : 0);
    }
    if (child < 0)
        return errno == EAGAIN ? 0 : -1;
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *short_thread(void *argument) {
    chaos_burn(*(long *)argument);
    return 0;
}

/* So many threads on small stacks that compute for a moment. */
void chaos_threads(int count, long rounds) {
    pthread_t threads[count];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    int made = 0;
    while (made < count && !pthread_create(&threads[made], &attributes, short_thread, &rounds))
        made++;
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], 0);
    pthread_attr_destroy(&attributes);
}
