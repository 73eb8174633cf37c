/* Runs one command inside of a lab host, as one of its users.

   In C and alone, since every command and every unit of a host begins with it: env, prlimit, nsenter
   and setpriv after each other, which do the same, cost four times as much.

   enter PID CWD UID GID GROUPS MEMLOCK CAPABILITIES COMMAND...
   PID           first process of the host, whose namespaces are entered
   CWD           working directory, by its path inside
   GROUPS        further groups, with commas between; - for none
   MEMLOCK       soft limit of locked memory in bytes, or `unlimited`; - leaves it
   CAPABILITIES  those that stay in the bounding set, as a mask in hexadecimal */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIXED 8
#define MAX_GROUPS 64

static const char *const namespaces[] = {"ipc", "uts", "pid", "mnt"};
#define NAMESPACES (sizeof namespaces / sizeof *namespaces)

static void need(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "enter: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void enter(const char *pid, const char *folder) {
    int open_ones[NAMESPACES];
    for (size_t at = 0; at < NAMESPACES; at++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%s/ns/%s", pid, namespaces[at]);
        open_ones[at] = open(path, O_RDONLY | O_CLOEXEC);
        need(open_ones[at] >= 0, path);
    }
    for (size_t at = 0; at < NAMESPACES; at++) {
        need(setns(open_ones[at], 0) == 0, namespaces[at]);
        close(open_ones[at]);
    }
    need(chdir(folder) == 0, folder);
}

static void limit_memlock(const char *text) {
    struct rlimit limit;
    if (strcmp(text, "-") == 0) return;
    need(getrlimit(RLIMIT_MEMLOCK, &limit) == 0, "memlock");
    limit.rlim_cur = strcmp(text, "unlimited") == 0 ? RLIM_INFINITY : strtoull(text, NULL, 10);
    need(setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "memlock");
}

static void drop_capabilities(unsigned long long kept) {
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3];
    for (int each = 0; prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; each++)
        if (!(kept >> each & 1)) need(prctl(PR_CAPBSET_DROP, each, 0, 0, 0) == 0, "bounding set");
    need(syscall(SYS_capget, &head, held) == 0, "capabilities");
    for (int at = 0; at < _LINUX_CAPABILITY_U32S_3; at++) held[at].inheritable = 0;
    need(syscall(SYS_capset, &head, held) == 0, "capabilities");
    need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
}

static void become(const char *user, const char *group, char *groups) {
    gid_t more[MAX_GROUPS];
    size_t count = 0;
    if (strcmp(groups, "-") != 0)
        for (char *each = strtok(groups, ","); each && count < MAX_GROUPS; each = strtok(NULL, ","))
            more[count++] = (gid_t)strtoul(each, NULL, 10);
    gid_t gid = (gid_t)strtoul(group, NULL, 10);
    uid_t uid = (uid_t)strtoul(user, NULL, 10);
    need(setgroups(count, more) == 0, "groups");
    need(setresgid(gid, gid, gid) == 0, "group");
    need(setresuid(uid, uid, uid) == 0, "user");
}

/* A process of another pid namespace is its child: this one waits and ends as it did. */
static int wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, WUNTRACED) >= 0 || errno == EINTR) {
        if (WIFEXITED(status)) return WEXITSTATUS(status);
        if (WIFSIGNALED(status)) {
            signal(WTERMSIG(status), SIG_DFL);
            kill(getpid(), WTERMSIG(status));
            return 128 + WTERMSIG(status);
        }
        if (WIFSTOPPED(status)) {
            kill(getpid(), SIGSTOP);
            kill(child, SIGCONT);
        }
    }
    return 1;
}

int main(int argc, char **argv) {
    if (argc <= FIXED) {
        fputs("usage: enter PID CWD UID GID GROUPS MEMLOCK CAPABILITIES COMMAND...\n", stderr);
        return 2;
    }
    /* The lab daemon ignores it, and a shell cannot trap what it was born ignoring. */
    signal(SIGHUP, SIG_DFL);
    limit_memlock(argv[6]);
    enter(argv[1], argv[2]);
    pid_t child = fork();
    need(child >= 0, "fork");
    if (child > 0) return wait_for(child);
    drop_capabilities(strtoull(argv[7], NULL, 16));
    become(argv[3], argv[4], argv[5]);
    execvp(argv[FIXED], argv + FIXED);
    fprintf(stderr, "enter: failed to execute %s: %s\n", argv[FIXED], strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
