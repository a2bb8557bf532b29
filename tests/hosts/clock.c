/* clock FILE PROGRAM ARGUMENTS...: runs a program with clocks of its own. FILE has three numbers: the seconds that are
 * added to CLOCK_REALTIME, to CLOCK_MONOTONIC and to CLOCK_BOOTTIME. They hold as soon as they are there.
 *
 * The program has no vDSO (its auxiliary vector says so), and so reads every clock by a system call. seccomp stops it
 * at those that read a clock or wait until one shows a time; this program answers the first and sets back the second.
 * When it ends, so do all processes of the program.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif

static const char *file;

/* What is added to a clock, in seconds. */
static long added(clockid_t clock)
{
    char text[64] = "";
    long real = 0, monotonic = 0, boot = 0;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t length = read(fd, text, sizeof text - 1);
        if (length > 0)
            sscanf(text, "%ld %ld %ld", &real, &monotonic, &boot);
        close(fd);
    }
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        return real;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
        return monotonic;
    case CLOCK_BOOTTIME:
        return boot;
    default:
        return 0;
    }
}

static void get(pid_t pid, unsigned long at, void *into, size_t size)
{
    struct iovec here = { into, size }, there = { (void *)at, size };
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)size)
        memset(into, 0, size);
}

static int put(pid_t pid, unsigned long at, const void *from, size_t size)
{
    struct iovec here = { (void *)from, size }, there = { (void *)at, size };
    return process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

/* An auxiliary vector without the address of the vDSO. */
static void without_vdso(unsigned long *word, size_t count)
{
    for (size_t at = 0; at + 1 < count && word[at] != AT_NULL; at += 2)
        if (word[at] == AT_SYSINFO_EHDR)
            word[at] = AT_IGNORE;
}

/* The same of a process, as prctl(PR_GET_AUXV) answers. */
static long give_auxv(pid_t pid, unsigned long into, size_t size)
{
    unsigned long words[128] = { 0 };
    char path[64];
    ssize_t length;
    int fd;
    snprintf(path, sizeof path, "/proc/%d/auxv", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    length = read(fd, words, sizeof words);
    close(fd);
    if (length < 0)
        return -EINVAL;
    without_vdso(words, (size_t)length / sizeof words[0]);
    return put(pid, into, words, size < (size_t)length ? size : (size_t)length) ? -EFAULT : length;
}

/* The program has just begun: its stack has its arguments, its environment and its auxiliary vector. */
static void hide_vdso(pid_t pid)
{
    struct user_regs_struct regs;
    unsigned long at, word[2];
    if (ptrace(PTRACE_GETREGS, pid, 0, &regs) < 0)
        return;
    get(pid, regs.rsp, word, sizeof word[0]);
    at = regs.rsp + 8 * (word[0] + 2);
    do {
        get(pid, at, word, sizeof word[0]);
        at += 8;
    } while (word[0] != 0);
    do {
        get(pid, at, word, sizeof word);
        without_vdso(word, 2);
        put(pid, at, word, sizeof word);
        at += sizeof word;
    } while (word[0] != AT_NULL);
}

/* Has a wait for a moment end when the program's clock shows it. */
static void set_back(pid_t pid, unsigned long at, long seconds)
{
    struct timespec until;
    if (at == 0 || seconds == 0)
        return;
    get(pid, at, &until, sizeof until);
    until.tv_sec = until.tv_sec > seconds ? until.tv_sec - seconds : 0;
    put(pid, at, &until, sizeof until);
}

static void answer(pid_t pid, struct user_regs_struct *regs, long result)
{
    regs->orig_rax = -1;
    regs->rax = result;
    ptrace(PTRACE_SETREGS, pid, 0, regs);
}

static void at_call(pid_t pid)
{
    struct user_regs_struct regs;
    struct timespec now;
    struct timeval day;
    if (ptrace(PTRACE_GETREGS, pid, 0, &regs) < 0)
        return;
    switch (regs.orig_rax) {
    case SYS_clock_gettime:
        /* Clocks of a process or a thread are its own. */
        if ((int)regs.rdi < 0 || regs.rdi == CLOCK_PROCESS_CPUTIME_ID || regs.rdi == CLOCK_THREAD_CPUTIME_ID)
            return;
        if (clock_gettime((clockid_t)regs.rdi, &now) < 0)
            return;
        now.tv_sec += added((clockid_t)regs.rdi);
        answer(pid, &regs, put(pid, regs.rsi, &now, sizeof now));
        return;
    case SYS_gettimeofday:
        if (regs.rdi == 0)
            return;
        gettimeofday(&day, NULL);
        day.tv_sec += added(CLOCK_REALTIME);
        answer(pid, &regs, put(pid, regs.rdi, &day, sizeof day));
        return;
    case SYS_time:
        now.tv_sec = time(NULL) + added(CLOCK_REALTIME);
        answer(pid, &regs, regs.rdi && put(pid, regs.rdi, &now.tv_sec, sizeof now.tv_sec) ? -EFAULT : now.tv_sec);
        return;
    case SYS_prctl:
        if (regs.rdi == PR_GET_AUXV)
            answer(pid, &regs, give_auxv(pid, regs.rsi, regs.rdx));
        return;
    case SYS_clock_nanosleep:
        if (regs.rsi & TIMER_ABSTIME)
            set_back(pid, regs.rdx, added((clockid_t)regs.rdi));
        return;
    case SYS_timerfd_settime:
    case SYS_timer_settime:
        /* The moment is the second half of what is set. Which clock the descriptor has is not known: ours have
         * CLOCK_MONOTONIC. */
        if (regs.rsi & TIMER_ABSTIME)
            set_back(pid, regs.rdx + sizeof now, added(CLOCK_MONOTONIC));
        return;
    case SYS_futex: {
        unsigned long operation = regs.rsi & FUTEX_CMD_MASK;
        if (operation == FUTEX_WAIT_BITSET || operation == FUTEX_LOCK_PI2)
            set_back(pid, regs.r10, added(regs.rsi & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC));
        return;
    }
    }
}

#define STOP(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)

static void begin(char **command)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        STOP(SYS_clock_gettime), STOP(SYS_gettimeofday), STOP(SYS_time), STOP(SYS_clock_nanosleep),
        STOP(SYS_prctl), STOP(SYS_timerfd_settime), STOP(SYS_timer_settime), STOP(SYS_futex),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    /* Root needs no PR_SET_NO_NEW_PRIVS, which the program would pass on. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0) {
        perror("seccomp");
        _exit(126);
    }
    execv(command[0], command);
    perror(command[0]);
    _exit(127);
}

int main(int count, char **words)
{
    int status;
    pid_t first, pid;
    if (count < 3)
        return 2;
    file = words[1];
    first = fork();
    if (first == 0)
        begin(words + 2);
    waitpid(first, &status, 0);
    ptrace(PTRACE_SETOPTIONS, first, 0,
           PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
               PTRACE_O_TRACEEXEC);
    ptrace(PTRACE_CONT, first, 0, 0);
    while ((pid = waitpid(-1, &status, __WALL)) > 0) {
        int event, signal = 0;
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (pid == first)
                return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        event = status >> 16;
        if (event == PTRACE_EVENT_SECCOMP)
            at_call(pid);
        else if (event == PTRACE_EVENT_EXEC)
            hide_vdso(pid);
        else if (event == 0)
            signal = WSTOPSIG(status);
        /* A new process or thread begins with a stop that is no signal of its own. */
        if (signal == SIGSTOP)
            signal = 0;
        ptrace(PTRACE_CONT, pid, 0, signal);
    }
    return 1;
}
