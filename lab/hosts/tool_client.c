/* Stands in a lab host under the name of each emulated tool and asks the lab daemon.

   In C, since a run calls it tens of thousands of times: 0.6 ms of processor time a call, and 12 ms
   as a script for a Python without its library. It passes its own standard streams along, so that
   `sudo` can run a command on them. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_PATH "/run/lab/daemon/tool.sock"
#define STREAMS 3
#define NO_ANSWER 255

extern char **environ;

static const char *const kept_variables[] = {
    "TERM", "LANG", "LC_ALL", "PATH", "HOME", "USER", "LOGNAME", "INVOCATION_ID",
    "DOCKER_CONFIG", "RAILYARD_LAB_CONTAINER", NULL};
static const char *const kept_prefixes[] = {"NCCL_", "UCX_", "OMPI_", NULL};
/* What tools look at. */

static int connection = -1;

static void end(const char *form, ...) {
    va_list values;
    va_start(values, form);
    vfprintf(stderr, form, values);
    va_end(values);
    exit(NO_ANSWER);
}

static void *held(void *memory) {
    if (memory == NULL) end("no memory\n");
    return memory;
}

static void quote(FILE *out, const char *text, size_t size) {
    fputc('"', out);
    for (size_t at = 0; at < size; at++) {
        unsigned char byte = (unsigned char)text[at];
        if (byte == '"' || byte == '\\') fputc('\\', out);
        if (byte < 0x20 || byte == 0x7f) fprintf(out, "\\u%04x", byte);
        else fputc(byte, out);
    }
    fputc('"', out);
}

static int is_kept(const char *name, size_t size) {
    for (const char *const *each = kept_variables; *each; each++)
        if (strlen(*each) == size && strncmp(*each, name, size) == 0) return 1;
    for (const char *const *each = kept_prefixes; *each; each++)
        if (strlen(*each) <= size && strncmp(*each, name, strlen(*each)) == 0) return 1;
    return 0;
}

/* The call as JSON, with its size before it. */
static char *make_request(int argc, char **argv, size_t *size) {
    char folder[PATH_MAX], *text = NULL;
    const char *slash = strrchr(argv[0], '/'), *tool = slash ? slash + 1 : argv[0];
    if (getcwd(folder, sizeof folder) == NULL) strcpy(folder, "/"); /* it is gone */
    FILE *out = held(open_memstream(&text, size));
    fwrite("\0\0\0\0", 1, 4, out);
    fputs("{\"tool\":", out);
    quote(out, tool, strlen(tool));
    fputs(",\"argv\":[", out);
    for (int at = 1; at < argc; at++) {
        if (at > 1) fputc(',', out);
        quote(out, argv[at], strlen(argv[at]));
    }
    fputs("],\"cwd\":", out);
    quote(out, folder, strlen(folder));
    fputs(",\"env\":{", out);
    int first = 1;
    for (char **each = environ; *each; each++) {
        const char *equals = strchr(*each, '=');
        if (equals == NULL || !is_kept(*each, (size_t)(equals - *each))) continue;
        if (!first) fputc(',', out);
        first = 0;
        quote(out, *each, (size_t)(equals - *each));
        fputc(':', out);
        quote(out, equals + 1, strlen(equals + 1));
    }
    fprintf(out, "},\"umask\":%d}", (int)umask(022));
    if (fclose(out) != 0) end("no memory\n");
    uint32_t length = (uint32_t)(*size - 4);
    for (int at = 0; at < 4; at++) text[at] = (char)(length >> (24 - 8 * at));
    return text;
}

/* The first bytes carry the three standard streams; a closed one is /dev/null. */
static void send_request(const char *text, size_t size) {
    struct sockaddr_un place = {.sun_family = AF_UNIX, .sun_path = SOCKET_PATH};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(STREAMS * sizeof(int))];
    } rights = {0};
    struct iovec part = {.iov_base = (void *)text, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = rights.room,
                             .msg_controllen = sizeof rights.room};
    int streams[STREAMS];
    for (int number = 0; number < STREAMS; number++)
        streams[number] = fcntl(number, F_GETFD) >= 0 ? number : open("/dev/null", O_RDWR);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof streams);
    memcpy(CMSG_DATA(head), streams, sizeof streams);
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ssize_t sent = -1;
    if (connection >= 0 && connect(connection, (struct sockaddr *)&place, sizeof place) == 0)
        sent = sendmsg(connection, &message, 0);
    for (size_t at = sent < 0 ? 0 : (size_t)sent; sent >= 0 && at < size; at += (size_t)sent)
        sent = send(connection, text + at, size - at, 0);
    if (sent < 0) end("the lab daemon does not answer: %s\n", strerror(errno));
}

static void pass_on(int number) {
    unsigned char byte = (unsigned char)number;
    ssize_t sent = send(connection, &byte, 1, 0);
    (void)sent; /* the daemon that ended is noticed by who reads */
}

static void read_exactly(char *into, size_t size) {
    while (size > 0) {
        ssize_t part = recv(connection, into, size, 0);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) end("the lab daemon ended\n");
        into += part;
        size -= (size_t)part;
    }
}

/* The next part of the answer, which its size precedes; a zero byte is put behind it. */
static char *read_part(size_t *size) {
    unsigned char raw[4];
    read_exactly((char *)raw, sizeof raw);
    *size = (size_t)raw[0] << 24 | (size_t)raw[1] << 16 | (size_t)raw[2] << 8 | raw[3];
    char *text = held(malloc(*size + 1));
    read_exactly(text, *size);
    text[*size] = '\0';
    return text;
}

static void write_whole(int descriptor, const char *data, size_t size) {
    while (size > 0) {
        ssize_t part = write(descriptor, data, size);
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) end("write: %s\n", strerror(errno));
        data += part;
        size -= (size_t)part;
    }
}

/* Each file that the tool writes on the caller's part: its path and its text, until an end. */
static void write_files(void) {
    size_t size;
    for (char *path = read_part(&size); size > 0; path = read_part(&size)) {
        char *text = read_part(&size);
        int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (file < 0) end("%s: %s\n", path, strerror(errno));
        write_whole(file, text, size);
        close(file);
        free(text);
        free(path);
    }
}

int main(int argc, char **argv) {
    size_t size, out_size, err_size;
    signal(SIGPIPE, SIG_DFL);
    char *request = make_request(argc, argv, &size);
    send_request(request, size);
    signal(SIGTERM, pass_on);
    signal(SIGINT, pass_on);
    signal(SIGHUP, pass_on);
    int status = atoi(read_part(&size));
    char *out = read_part(&out_size), *err = read_part(&err_size);
    write_files();
    write_whole(STDOUT_FILENO, out, out_size);
    write_whole(STDERR_FILENO, err, err_size);
    return status;
}
