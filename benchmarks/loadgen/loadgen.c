/* A load generator that speaks RocketMQ's remoting protocol as a Java 5.3.3 client does (JSON headers).
 *
 * One thread, one epoll, C connections with D requests in flight on each: an answer is replaced by the next request at
 * once, and whatever one read makes necessary leaves in one write. It is written to be much cheaper than any server it
 * measures, and it says in its output whether that was so: its own share of its core, the server's share, and which of
 * the two was saturated.
 *
 * Modes: route (105) and register (103) in nameserver.c; send (310), transaction (310, 37), pull (11), query (12) and
 * pop (200050, 200051) in broker.c. For `route` and `register` it first plays the brokers: it
 * registers `--brokers` brokers over one connection each and keeps those connections open, since a NameServer forgets
 * a broker whose connection closes.
 *
 * Every answer's code is checked (non-zero ones are counted by code) and its opaque must belong to a request in flight.
 * Output: one JSON object on stdout. Exit code 0 also when answers were bad: the reader judges by "bad".
 */
#define _GNU_SOURCE
#include "loadgen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CODES_MAX 8192
#define READ_SIZE 65536
#define ANSWER_SIZE_MAX (64u << 20)

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

/* ---- settings ------------------------------------------------------------------------------------------------ */

struct settings set = {.mode = "route", .host = "127.0.0.1", .topic = "bench", .connections = 1, .depth = 1, .cpu = -1,
         .warmup_s = 1, .seconds = 4, .brokers = 100, .topics = 1000, .topic_brokers = 8, .body_size = 100,
         .queues = 8, .spread = 1, .key_range = 1, .pull_count = 32};

/* ---- small tools --------------------------------------------------------------------------------------------- */

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t wall_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static double own_cpu_s(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* CPU seconds of every thread of a process; 0 when the process cannot be read. */
static double process_cpu_s(int pid) {
    char path[64], line[1024];
    if (pid <= 0) return 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t size = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[size] = 0;
    char *after_name = strrchr(line, ')');
    unsigned long user = 0, system = 0;
    if (!after_name ||
        sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* CPU seconds that anybody used on any core. */
static double machine_cpu_s(void) {
    unsigned long long user, nice, system, idle, wait, irq, soft, steal;
    FILE *file = fopen("/proc/stat", "r");
    if (!file) return 0;
    int found = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &irq,
                       &soft, &steal);
    fclose(file);
    return found == 8 ? (double)(user + nice + system + irq + soft + steal) / (double)sysconf(_SC_CLK_TCK) : 0;
}

static long rollup_kb(int pid, const char *field) {
    char path[64], line[256];
    long kb = -1;
    size_t size = strlen(field);
    if (pid <= 0) return -1;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, field, size) && line[size] == ':') kb = atol(line + size + 1);
    fclose(file);
    return kb;
}

char *reserve(struct buffer *buffer, size_t size) {
    if (buffer->start == buffer->end) buffer->start = buffer->end = 0;
    if (buffer->capacity - buffer->end < size && buffer->start) {
        memmove(buffer->data, buffer->data + buffer->start, buffer->end - buffer->start);
        buffer->end -= buffer->start;
        buffer->start = 0;
    }
    if (buffer->capacity - buffer->end < size) {
        buffer->capacity = (buffer->end + size) * 2;
        buffer->data = realloc(buffer->data, buffer->capacity);
        if (!buffer->data) die("out of memory");
    }
    return buffer->data + buffer->end;
}

/* ---- latency histogram: 32 steps to each doubling, so within 3 % ------------------------------------------------ */

static uint64_t histogram[64 * 32];

static void histogram_add(uint64_t ns) {
    unsigned octave = ns < 32 ? 0 : 63u - (unsigned)__builtin_clzll(ns) - 5;
    histogram[octave * 32 + (ns >> octave & 63)]++;
}

static double histogram_quantile_us(double quantile, uint64_t total) {
    uint64_t rank = (uint64_t)(quantile * (double)total), seen = 0;
    for (unsigned i = 0; i < sizeof histogram / sizeof *histogram; i++) {
        seen += histogram[i];
        if (histogram[i] && seen > rank) {
            uint64_t ns = i < 64 ? i : (uint64_t)(i % 32 + 32) << (i / 32 - 1);
            return (double)ns / 1000;
        }
    }
    return 0;
}

/* ---- connections ---------------------------------------------------------------------------------------------- */

static int epoll_fd;
static uint64_t answers, bad, bytes_in, codes[CODES_MAX];
static uint64_t loop_ns; /* the clock, read once per wake-up */
static const struct mode *mode;
uint64_t messages, serial, loop_ms;

static int open_connection(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)set.port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, set.host, &address.sin_addr) != 1) die("%s is no IPv4 address", set.host);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to %s:%d: %s", set.host, set.port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* Append one frame: the length words, `header` and `body`. */
void put_frame(struct buffer *out, const char *header, size_t header_size, const char *body, size_t body_size) {
    char *at = reserve(out, 8 + header_size + body_size);
    uint32_t total = htonl((uint32_t)(4 + header_size + body_size)), mark = htonl((uint32_t)header_size);
    memcpy(at, &total, 4);
    memcpy(at + 4, &mark, 4);
    memcpy(at + 8, header, header_size);
    if (body_size) memcpy(at + 8 + header_size, body, body_size);
    out->end += 8 + header_size + body_size;
}

static uint32_t next_opaque(struct connection *connection, int slot) {
    connection->sequence = (connection->sequence + 1) & 0x3FFFFF;
    uint32_t opaque = connection->sequence << 8 | (uint32_t)slot;
    return opaque ? opaque : 1u << 8 | (uint32_t)slot;
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

static const char *after(const char *header, size_t size, const char *name, size_t name_size) {
    const char *found = memmem(header, size, name, name_size);
    return found ? found + name_size : NULL;
}

int64_t number_after(const char *header, size_t size, const char *name, size_t name_size, int64_t missing) {
    const char *at = after(header, size, name, name_size), *end = header + size;
    int64_t value = 0, sign = 1;
    if (!at) return missing;
    while (at < end && (*at == ' ' || *at == '"')) at++;
    if (at < end && *at == '-') sign = -1, at++;
    for (; at < end && *at >= '0' && *at <= '9'; at++) value = value * 10 + (*at - '0');
    return sign * value;
}

static void note_answer(struct connection *connection, const struct answer *answer, int *slot_index) {
    int64_t opaque = NUMBER_AFTER(answer->header, answer->header_size, "\"opaque\":", -1);
    if (answer->code < 0 || opaque < 0) die("an answer without code or opaque: %.*s", (int)answer->header_size, answer->header);
    int index = (int)(opaque & 255);
    struct slot *slot = &connection->slots[index];
    if (slot->opaque != (uint32_t)opaque) die("an answer to opaque %lld, which is not in flight", (long long)opaque);
    slot->opaque = 0;
    histogram_add(loop_ns - slot->sent_at_ns);
    answers++;
    bytes_in += 8 + answer->header_size + answer->body_size;
    codes[answer->code < CODES_MAX ? answer->code : CODES_MAX - 1]++;
    if (answer->code != 0 && answer->code != mode->also_good) {
        if (bad++ == 0) fprintf(stderr, "loadgen: first bad answer: %.*s\n", (int)answer->header_size, answer->header);
    } else if (mode->note) {
        mode->note(connection, index, answer);
    }
    *slot_index = index;
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

void ask(struct connection *connection, int slot) {
    uint32_t opaque = next_opaque(connection, slot);
    connection->slots[slot].opaque = opaque;
    connection->slots[slot].sent_at_ns = loop_ns;
    mode->put(connection, slot, opaque);
}

static void ask_again(struct connection *connection, int slot) {
    if (mode->again) mode->again(connection, slot);
    else ask(connection, slot);
}

static void watch(struct connection *connection, int operation, int for_write) {
    struct epoll_event event = {.events = EPOLLIN | (for_write ? EPOLLOUT : 0), .data.ptr = connection};
    if (epoll_ctl(epoll_fd, operation, connection->fd, &event)) die("epoll_ctl: %s", strerror(errno));
    connection->waits_for_write = for_write;
}

static void flush_out(struct connection *connection) {
    struct buffer *out = &connection->out;
    while (out->start < out->end) {
        ssize_t sent = send(connection->fd, out->data + out->start, out->end - out->start, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR) continue;
            if (errno != EAGAIN) die("the server left: %s", strerror(errno));
            break;
        }
        out->start += (size_t)sent;
    }
    int for_write = out->start < out->end;
    if (for_write != connection->waits_for_write) watch(connection, EPOLL_CTL_MOD, for_write);
}

/* Take every whole frame out of the connection's buffer. Returns what is needed to complete the next one, or 0. */
static void take_answers(struct connection *connection, int goes_on) {
    struct buffer *in = &connection->in;
    while (in->end - in->start >= 8) {
        uint32_t total, mark;
        memcpy(&total, in->data + in->start, 4);
        memcpy(&mark, in->data + in->start + 4, 4);
        total = ntohl(total);
        size_t header_size = ntohl(mark) & 0xFFFFFF;
        if (total < 4 + header_size || total > ANSWER_SIZE_MAX) die("a frame of %u bytes", total);
        if (ntohl(mark) >> 24) die("an answer whose header is not JSON");
        if (in->end - in->start < 4 + (size_t)total) {
            reserve(in, 4 + (size_t)total - (in->end - in->start));
            return;
        }
        int slot;
        const char *header = in->data + in->start + 8;
        struct answer answer = {NUMBER_AFTER(header, header_size, "\"code\":", -1), header, header + header_size, header_size,
                                total - 4 - header_size};
        note_answer(connection, &answer, &slot);
        in->start += 4 + (size_t)total;
        if (goes_on) ask_again(connection, slot);
    }
}

static void read_answers(struct connection *connection, int goes_on) {
    for (;;) {
        char *at = reserve(&connection->in, READ_SIZE);
        size_t room = connection->in.capacity - connection->in.end;
        ssize_t got = recv(connection->fd, at, room, 0);
        if (got == 0) die("the server closed a connection");
        if (got < 0) {
            if (errno == EINTR) continue;
            if (errno != EAGAIN) die("the server left: %s", strerror(errno));
            break;
        }
        connection->in.end += (size_t)got;
        take_answers(connection, goes_on);
        if ((size_t)got < room) break;
    }
    flush_out(connection);
}

static void turn(int timeout_ms, int goes_on) {
    struct epoll_event events[256];
    int count = epoll_wait(epoll_fd, events, 256, timeout_ms);
    loop_ns = now_ns();
    loop_ms = wall_ms();
    for (int i = 0; i < count; i++) {
        struct connection *connection = events[i].data.ptr;
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_answers(connection, goes_on);
        else flush_out(connection);
    }
}

/* Register every broker once, one after the other, on the connection it keeps. */
static double fill_ms(struct connection *connections) {
    prepare_brokers();
    uint64_t started_ns = now_ns();
    mode = &fill_mode;
    for (int i = 0; i < set.brokers; i++) {
        struct connection *connection = &connections[i];
        connection->index = i;
        connection->fd = open_connection();
        fcntl(connection->fd, F_SETFL, O_NONBLOCK);
        watch(connection, EPOLL_CTL_ADD, 0);
        loop_ns = now_ns();
        ask(connection, 0);
        flush_out(connection);
        for (uint64_t before = answers; answers == before;) turn(-1, 0);
    }
    if (bad) die("the server refused to register brokers");
    return (double)(now_ns() - started_ns) / 1e6;
}

static void reset_counts(void) {
    answers = bad = messages = bytes_in = 0;
    memset(codes, 0, sizeof codes);
    memset(histogram, 0, sizeof histogram);
}

static void parse_arguments(int count, char **arguments) {
    for (int i = 1; i + 1 < count; i += 2) {
        const char *name = arguments[i], *value = arguments[i + 1];
#define TEXT(option, field) if (!strcmp(name, option)) { set.field = value; continue; }
#define WHOLE(option, field) if (!strcmp(name, option)) { set.field = atoi(value); continue; }
        TEXT("--mode", mode) TEXT("--host", host) TEXT("--topic", topic)
        WHOLE("--port", port) WHOLE("--connections", connections) WHOLE("--depth", depth) WHOLE("--cpu", cpu)
        WHOLE("--server-pid", server_pid) WHOLE("--brokers", brokers) WHOLE("--topics", topics)
        WHOLE("--topic-brokers", topic_brokers) WHOLE("--changed", changed) WHOLE("--body-size", body_size)
        WHOLE("--queues", queues) WHOLE("--pull-count", pull_count) WHOLE("--pull-size-max", pull_size_max)
        WHOLE("--spread", spread) WHOLE("--keys", keys) WHOLE("--delay-ms", delay_ms) TEXT("--expression", expression)
        if (!strcmp(name, "--warmup")) { set.warmup_s = atof(value); continue; }
        if (!strcmp(name, "--seconds")) { set.seconds = atof(value); continue; }
        if (!strcmp(name, "--key-range")) { set.key_range = atol(value); continue; }
        if (!strcmp(name, "--requests")) { set.requests = atol(value); continue; }
        die("unknown option %s", name);
    }
    if (count % 2 == 0) die("the last option has no value");
    if (set.port <= 0) die("--port is missing");
    if (set.depth < 1 || set.depth > SLOTS_MAX) die("--depth is 1 to %d", SLOTS_MAX);
    if (set.connections < 1 || set.topics < 1 || set.queues < 1 || set.brokers < 1 || set.spread < 1 || set.key_range < 1) die("counts are at least 1");
    if (set.topic_brokers > set.brokers) die("a topic cannot be on %d of %d brokers", set.topic_brokers, set.brokers);
}

static const struct mode *find_mode(void) {
    if (!strcmp(set.mode, route_mode.name)) return &route_mode;
    if (!strcmp(set.mode, register_mode.name)) return &register_mode;
    for (const struct mode *found = message_modes; found->name; found++)
        if (!strcmp(set.mode, found->name)) return found;
    die("there is no mode %s", set.mode);
}

int main(int count, char **arguments) {
    parse_arguments(count, arguments);
    signal(SIGPIPE, SIG_IGN);
    if (set.cpu >= 0) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(set.cpu, &cpus);
        if (sched_setaffinity(0, sizeof cpus, &cpus)) die("cannot run on core %d: %s", set.cpu, strerror(errno));
    }
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    const struct mode *chosen = find_mode();
    int registering = chosen == &register_mode, with_brokers = registering || chosen == &route_mode;
    struct connection *fill = NULL, *connections;
    double filled_ms = 0;
    if (with_brokers) {
        fill = calloc((size_t)set.brokers, sizeof *fill);
        if (!fill) die("out of memory");
        filled_ms = fill_ms(fill);
    }
    long rss_filled_kb = rollup_kb(set.server_pid, "Rss");

    if (registering) {
        if (set.connections > set.brokers) die("%d connections for %d brokers", set.connections, set.brokers);
        connections = fill;
    } else {
        connections = calloc((size_t)set.connections, sizeof *connections);
        if (!connections) die("out of memory");
        prepare_messages();
        for (int i = 0; i < set.connections; i++) {
            connections[i].index = i;
            connections[i].fd = open_connection();
            fcntl(connections[i].fd, F_SETFL, O_NONBLOCK);
            watch(&connections[i], EPOLL_CTL_ADD, 0);
            for (int slot = 0; slot < set.depth; slot++)
                connections[i].slots[slot].queue_id = (uint32_t)(i * set.depth + slot) % (uint32_t)set.queues;
        }
    }

    mode = chosen;
    reset_counts();
    uint64_t started_ns = now_ns();
    loop_ns = started_ns;
    loop_ms = wall_ms();
    for (int i = 0; i < set.connections; i++) {
        for (int slot = 0; slot < (mode->slots ? 1 : set.depth); slot++) ask(&connections[i], slot);
        flush_out(&connections[i]);
    }
    if (set.requests == 0) {
        while (loop_ns - started_ns < (uint64_t)(set.warmup_s * 1e9)) turn(100, 1);
        if (bad) fprintf(stderr, "loadgen: %llu bad answers while warming up\n", (unsigned long long)bad);
        reset_counts();
        started_ns = loop_ns;
    }
    double own_before = own_cpu_s(), server_before = process_cpu_s(set.server_pid), all_before = machine_cpu_s();
    if (set.requests)
        while (answers < (uint64_t)set.requests) turn(100, 1);
    else
        while (loop_ns - started_ns < (uint64_t)(set.seconds * 1e9)) turn(100, 1);
    double elapsed = (double)(loop_ns - started_ns) / 1e9;
    double own = (own_cpu_s() - own_before) / elapsed;
    double server = (process_cpu_s(set.server_pid) - server_before) / elapsed;
    double others = (machine_cpu_s() - all_before) / elapsed - own - server;
    const char *saturated = !set.server_pid  ? "unknown"
                            : server >= 0.9  ? own >= 0.9 ? "both" : "server"
                            : own >= 0.9     ? "client"
                                             : "neither";
    printf("{\"mode\":\"%s\",\"connections\":%d,\"depth\":%d,\"seconds\":%.3f,\"answers\":%llu,\"per_second\":%.1f,"
           "\"messages_per_second\":%.1f,\"bytes_per_second\":%.0f,\"bad\":%llu,",
           set.mode, set.connections, set.depth, elapsed, (unsigned long long)answers, (double)answers / elapsed,
           (double)messages / elapsed, (double)bytes_in / elapsed, (unsigned long long)bad);
    printf("\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,", histogram_quantile_us(0.5, answers),
           histogram_quantile_us(0.99, answers), histogram_quantile_us(0.999, answers));
    printf("\"client_cpu\":%.3f,\"server_cpu\":%.3f,\"others_cpu\":%.3f,\"saturated\":\"%s\",\"fill_ms\":%.1f,\"rss_filled_kb\":%ld,"
           "\"rss_kb\":%ld,\"anonymous_kb\":%ld,\"codes\":{",
           own, server, others > 0 ? others : 0, saturated, filled_ms, rss_filled_kb, rollup_kb(set.server_pid, "Rss"),
           rollup_kb(set.server_pid, "Anonymous"));
    for (int code = 0, first = 1; code < CODES_MAX; code++)
        if (codes[code]) {
            printf("%s\"%d\":%llu", first ? "" : ",", code, (unsigned long long)codes[code]);
            first = 0;
        }
    puts("}}");
    return 0;
}
