// Starts a program under a filter that refuses system calls, or with --kill ends whoever makes one:
// refuse [--kill] NUMBER... -- PROGRAM ARGUMENT...
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { CALLS_MAX = 512 };

int main(int count, char **words) {
    struct sock_filter steps[2 * CALLS_MAX + 2];
    unsigned short length = 0;
    steps[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                   offsetof(struct seccomp_data, nr));
    int kills = count > 1 && strcmp(words[1], "--kill") == 0;
    unsigned what = kills ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
    int at = 1 + kills;
    for (; at < count && strcmp(words[at], "--") != 0; at++) {
        if (at > CALLS_MAX) {
            fprintf(stderr, "refuse: too many calls\n");
            return 125;
        }
        unsigned number = (unsigned)strtoul(words[at], NULL, 10);
        steps[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
        steps[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what);
    }
    steps[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (at + 1 >= count) {
        fprintf(stderr, "refuse: no program\n");
        return 125;
    }
    struct sock_fprog filter = {.len = length, .filter = steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &filter)) {
        perror("refuse");
        return 125;
    }
    execvp(words[at + 1], words + at + 1);
    perror(words[at + 1]);
    return 127;
}
