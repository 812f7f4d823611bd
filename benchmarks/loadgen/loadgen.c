/* A load generator that speaks RocketMQ's remoting protocol as a Java 5.3.3 client does (JSON headers).
 *
 * One thread, one epoll, C connections with D requests in flight on each: an answer is replaced by the next request at
 * once, and whatever one read makes necessary leaves in one write. It is written to be much cheaper than any server it
 * measures, and it says in its output whether that was so: its own share of its core, the server's share, and which of
 * the two was saturated.
 *
 * Modes: route (105), register (103), send (310), pull (11). For `route` and `register` it first plays the brokers: it
 * registers `--brokers` brokers over one connection each and keeps those connections open, since a NameServer forgets
 * a broker whose connection closes.
 *
 * Every answer's code is checked (non-zero ones are counted by code) and its opaque must belong to a request in flight.
 * Output: one JSON object on stdout. Exit code 0 also when answers were bad: the reader judges by "bad".
 */
#define _GNU_SOURCE
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

#define DEPTH_MAX 256
#define CODES_MAX 8192
#define READ_SIZE 65536
#define ANSWER_SIZE_MAX (64u << 20)
#define JAVA_TAIL "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}"

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

/* ---- settings ------------------------------------------------------------------------------------------------ */

static struct {
    const char *mode, *host, *topic;
    int port, connections, depth, cpu, server_pid;
    double warmup_s, seconds;
    long requests; /* stop after so many answers instead of after `seconds` */
    int brokers, topics, topic_brokers, changed;
    int body_size, queues;
    int pull_count, pull_size_max;
} set = {.mode = "route", .host = "127.0.0.1", .topic = "bench", .connections = 1, .depth = 1, .cpu = -1,
         .warmup_s = 1, .seconds = 4, .brokers = 100, .topics = 1000, .topic_brokers = 8, .body_size = 100,
         .queues = 8, .pull_count = 32};

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

static uint32_t crc_table[8][256];

static void crc_prepare(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0xEDB88320u : value >> 1;
        crc_table[0][i] = value;
    }
    for (int slice = 1; slice < 8; slice++)
        for (int i = 0; i < 256; i++)
            crc_table[slice][i] = crc_table[slice - 1][i] >> 8 ^ crc_table[0][crc_table[slice - 1][i] & 255];
}

/* CRC-32, eight bytes a step (little-endian machines). */
static uint32_t crc32_of(const char *data, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; data += 8, size -= 8) {
        uint32_t low, high;
        memcpy(&low, data, 4);
        memcpy(&high, data + 4, 4);
        low ^= crc;
        crc = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^ crc_table[5][low >> 16 & 255] ^
              crc_table[4][low >> 24] ^ crc_table[3][high & 255] ^ crc_table[2][high >> 8 & 255] ^
              crc_table[1][high >> 16 & 255] ^ crc_table[0][high >> 24];
    }
    for (; size; data++, size--) crc = crc >> 8 ^ crc_table[0][(crc ^ (unsigned char)*data) & 255];
    return ~crc & 0x7FFFFFFF; /* Java keeps the sign bit clear */
}

struct buffer {
    char *data;
    size_t start, end, capacity; /* what counts is data[start:end] */
};

static char *reserve(struct buffer *buffer, size_t size) {
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

struct slot {
    uint64_t sent_at_ns;
    uint32_t opaque; /* 0: nothing in flight */
    uint32_t queue_id;
    uint64_t queue_offset; /* pull: where this slot reads on */
};

struct connection {
    int fd, index, waits_for_write;
    uint32_t sequence;
    struct buffer in, out;
    struct slot slots[DEPTH_MAX];
};

static int epoll_fd;
static uint64_t answers, bad, messages, bytes_in, codes[CODES_MAX], serial;
static uint64_t loop_ns, loop_ms; /* the clock, read once per wake-up */

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
static void put_frame(struct buffer *out, const char *header, size_t header_size, const char *body, size_t body_size) {
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

/* ---- requests -------------------------------------------------------------------------------------------------- */


static void put_route_query(struct connection *connection, int slot, uint32_t opaque) {
    char header[512];
    (void)slot;
    int size = snprintf(header, sizeof header,
                        "{\"code\":105,\"extFields\":{\"topic\":\"%s_%04d\"},\"flag\":0,\"language\":\"JAVA\","
                        "\"opaque\":%u," JAVA_TAIL,
                        set.topic, (int)(serial++ % (unsigned)set.topics), opaque);
    put_frame(&connection->out, header, (size_t)size, NULL, 0);
}

/* What one broker registers; the version's counter and one topic's queue count have a fixed width and are patched. */
struct broker {
    char *body;
    size_t body_size, counter_at, *queues_at;
    int topic_count;
    uint64_t counter;
    uint32_t crc;
};

static struct broker *brokers;

static void prepare_broker(struct broker *broker, int index, uint64_t started_ms) {
    struct buffer text = {0};
    broker->queues_at = calloc((size_t)set.topics, sizeof *broker->queues_at);
    broker->counter = 1000000000;
    text.end += (size_t)sprintf(reserve(&text, 512),
                                "{\"filterServerList\":[],\"topicConfigSerializeWrapper\":{\"dataVersion\":{\"counter\":");
    broker->counter_at = text.end;
    text.end += (size_t)sprintf(reserve(&text, 512),
                                "%010llu,\"stateVersion\":0,\"timestamp\":%llu},\"mappingDataVersion\":{\"counter\":0,"
                                "\"stateVersion\":0,\"timestamp\":%llu},\"topicConfigTable\":{",
                                (unsigned long long)broker->counter, (unsigned long long)started_ms,
                                (unsigned long long)started_ms);
    for (int topic = 0; topic < set.topics; topic++) {
        int first = (int)((long)topic * set.topic_brokers % set.brokers);
        if ((index - first + set.brokers) % set.brokers >= set.topic_brokers) continue;
        text.end += (size_t)sprintf(reserve(&text, 512),
                                    "%s\"%s_%04d\":{\"attributes\":{},\"order\":false,\"perm\":6,\"readQueueNums\":",
                                    broker->topic_count ? "," : "", set.topic, topic);
        broker->queues_at[broker->topic_count++] = text.end;
        text.end += (size_t)sprintf(reserve(&text, 512),
                                    "8,\"topicFilterType\":\"SINGLE_TAG\",\"topicName\":\"%s_%04d\",\"topicSysFlag\":0,"
                                    "\"writeQueueNums\":8}",
                                    set.topic, topic);
    }
    text.end += (size_t)sprintf(reserve(&text, 512),
                                "},\"topicQueueMappingDetailMap\":{},\"topicQueueMappingInfoMap\":{}}}");
    broker->body = text.data;
    broker->body_size = text.end;
    broker->crc = crc32_of(broker->body, broker->body_size);
}

/* 1: the version alone counts up; 2: one topic's queue count changes too, as when a real broker counts it up. */
static void change_broker(struct broker *broker) {
    char digits[16];
    broker->counter++;
    snprintf(digits, sizeof digits, "%010llu", (unsigned long long)broker->counter);
    memcpy(broker->body + broker->counter_at, digits, 10);
    if (set.changed > 1 && broker->topic_count) {
        char *queues = broker->body + broker->queues_at[broker->counter % (unsigned)broker->topic_count];
        *queues = *queues == '8' ? '4' : '8';
    }
    broker->crc = crc32_of(broker->body, broker->body_size);
}

static void put_registration(struct connection *connection, int slot, uint32_t opaque) {
    struct broker *broker = &brokers[connection->index];
    char header[1024];
    (void)slot;
    int size = snprintf(header, sizeof header,
                        "{\"code\":103,\"extFields\":{\"brokerAddr\":\"10.0.%d.%d:10911\",\"brokerId\":\"0\","
                        "\"brokerName\":\"bench-broker-%03d\",\"bodyCrc32\":\"%d\",\"enableActingMaster\":\"false\","
                        "\"clusterName\":\"BenchCluster\",\"haServerAddr\":\"10.0.%d.%d:10912\",\"compressed\":\"false\"},"
                        "\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u," JAVA_TAIL,
                        connection->index / 250, connection->index % 250 + 1, connection->index, (int)broker->crc,
                        connection->index / 250, connection->index % 250 + 1, opaque);
    put_frame(&connection->out, header, (size_t)size, broker->body, broker->body_size);
}

static void put_measured_registration(struct connection *connection, int slot, uint32_t opaque) {
    if (set.changed) change_broker(&brokers[connection->index]);
    put_registration(connection, slot, opaque);
}

static char *send_body;

static void put_send(struct connection *connection, int slot, uint32_t opaque) {
    char header[1024];
    uint64_t number = serial++;
    (void)slot;
    int size = snprintf(header, sizeof header,
                        "{\"code\":310,\"extFields\":{\"a\":\"bench-producer\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"%d\","
                        "\"e\":\"%d\",\"f\":\"0\",\"g\":\"%llu\",\"h\":\"0\","
                        "\"i\":\"UNIQ_KEY\\u00017F000001%04X251A69D7%012llX\\u0002WAIT\\u0001true\\u0002TAGS\\u0001bench"
                        "\\u0002\",\"j\":\"0\",\"k\":\"false\",\"m\":\"false\",\"n\":\"bench-broker\"},\"flag\":0,"
                        "\"language\":\"JAVA\",\"opaque\":%u," JAVA_TAIL,
                        set.topic, set.queues, (int)(number % (unsigned)set.queues), (unsigned long long)loop_ms,
                        getpid() & 0xFFFF, (unsigned long long)number, opaque);
    put_frame(&connection->out, header, (size_t)size, send_body, (size_t)set.body_size);
}

static void put_pull(struct connection *connection, int slot, uint32_t opaque) {
    char header[1024], size_max[64] = "";
    struct slot *reader = &connection->slots[slot];
    if (set.pull_size_max) snprintf(size_max, sizeof size_max, "\"maxMsgBytes\":\"%d\",", set.pull_size_max);
    /* sysFlag 6: may be held, subscription in the header */
    int size = snprintf(header, sizeof header,
                        "{\"code\":11,\"extFields\":{\"bname\":\"bench-broker\",\"queueId\":\"%u\",%s"
                        "\"maxMsgNums\":\"%d\",\"sysFlag\":\"6\",\"suspendTimeoutMillis\":\"15000\","
                        "\"commitOffset\":\"0\",\"topic\":\"%s\",\"queueOffset\":\"%llu\",\"expressionType\":\"TAG\","
                        "\"subVersion\":\"1\",\"consumerGroup\":\"bench-consumer\",\"subscription\":\"*\"},\"flag\":0,"
                        "\"language\":\"JAVA\",\"opaque\":%u," JAVA_TAIL,
                        reader->queue_id, size_max, set.pull_count, set.topic,
                        (unsigned long long)reader->queue_offset, opaque);
    put_frame(&connection->out, header, (size_t)size, NULL, 0);
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

static const char *after(const char *header, size_t size, const char *name, size_t name_size) {
    const char *found = memmem(header, size, name, name_size);
    return found ? found + name_size : NULL;
}

static int64_t number_after(const char *header, size_t size, const char *name, size_t name_size, int64_t missing) {
    const char *at = after(header, size, name, name_size), *end = header + size;
    int64_t value = 0, sign = 1;
    if (!at) return missing;
    while (at < end && (*at == ' ' || *at == '"')) at++;
    if (at < end && *at == '-') sign = -1, at++;
    for (; at < end && *at >= '0' && *at <= '9'; at++) value = value * 10 + (*at - '0');
    return sign * value;
}
#define NUMBER_AFTER(header, size, name, missing) number_after(header, size, name, sizeof name - 1, missing)

/* What a mode checks in a good answer. */
static void (*note_good)(struct slot *, const char *, size_t, const char *, size_t);

static void note_nothing(struct slot *slot, const char *header, size_t header_size, const char *body, size_t body_size) {
    (void)slot, (void)header, (void)header_size, (void)body, (void)body_size;
}

static void note_route(struct slot *slot, const char *header, size_t header_size, const char *body, size_t body_size) {
    (void)slot;
    if (body_size < 32 || !memmem(body, body_size, "brokerAddrs", 11))
        die("no route: %.*s with a body of %zu bytes", (int)header_size, header, body_size);
}

static void note_sent(struct slot *slot, const char *header, size_t header_size, const char *body, size_t body_size) {
    (void)slot, (void)body, (void)body_size;
    if (!memmem(header, header_size, "\"queueOffset\":", 14)) die("no queue offset: %.*s", (int)header_size, header);
}

static void note_pulled(struct slot *reader, const char *header, size_t header_size, const char *body, size_t body_size) {
    int64_t next = NUMBER_AFTER(header, header_size, "\"nextBeginOffset\":", -1);
    int64_t max = NUMBER_AFTER(header, header_size, "\"maxOffset\":", -1);
    if (next < 0 || max < 0) die("a pull answer without offsets: %.*s", (int)header_size, header);
    uint64_t count = 0;
    for (size_t at = 0; at < body_size; count++) {
        uint32_t size;
        if (body_size - at < 8) die("a pull answer ends within a record");
        memcpy(&size, body + at, 4);
        size = ntohl(size);
        if (size < 8 || size > body_size - at) die("a pull answer holds a record of %u bytes", size);
        at += size;
    }
    if (count && reader->queue_offset + count != (uint64_t)next)
        die("%llu records from offset %llu, yet the next offset is %lld", (unsigned long long)count,
            (unsigned long long)reader->queue_offset, (long long)next);
    messages += count;
    reader->queue_offset = next >= max ? 0 : (uint64_t)next;
}

static void note_answer(struct connection *connection, const char *header, size_t header_size, const char *body,
                        size_t body_size, int *slot_index) {
    int64_t code = NUMBER_AFTER(header, header_size, "\"code\":", -1);
    int64_t opaque = NUMBER_AFTER(header, header_size, "\"opaque\":", -1);
    struct slot *slot = &connection->slots[opaque & 255];
    if (code < 0 || opaque < 0) die("an answer without code or opaque: %.*s", (int)header_size, header);
    if ((opaque & 255) >= set.depth || slot->opaque != (uint32_t)opaque)
        die("an answer to opaque %lld, which is not in flight", (long long)opaque);
    slot->opaque = 0;
    histogram_add(loop_ns - slot->sent_at_ns);
    answers++;
    bytes_in += 8 + header_size + body_size;
    codes[code < CODES_MAX ? code : CODES_MAX - 1]++;
    if (code != 0) {
        if (bad++ == 0) fprintf(stderr, "loadgen: first bad answer: %.*s\n", (int)header_size, header);
    } else {
        note_good(slot, header, header_size, body, body_size);
    }
    *slot_index = (int)(opaque & 255);
}

/* ---- the loop -------------------------------------------------------------------------------------------------- */

static void (*put_request)(struct connection *, int, uint32_t);

static void ask(struct connection *connection, int slot) {
    uint32_t opaque = next_opaque(connection, slot);
    connection->slots[slot].opaque = opaque;
    connection->slots[slot].sent_at_ns = loop_ns;
    put_request(connection, slot, opaque);
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
static void take_answers(struct connection *connection, int ask_again) {
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
        note_answer(connection, header, header_size, header + header_size, total - 4 - header_size, &slot);
        in->start += 4 + (size_t)total;
        if (ask_again) ask(connection, slot);
    }
}

static void read_answers(struct connection *connection, int ask_again) {
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
        take_answers(connection, ask_again);
        if ((size_t)got < room) break;
    }
    flush_out(connection);
}

static void turn(int timeout_ms, int ask_again) {
    struct epoll_event events[256];
    int count = epoll_wait(epoll_fd, events, 256, timeout_ms);
    loop_ns = now_ns();
    loop_ms = wall_ms();
    for (int i = 0; i < count; i++) {
        struct connection *connection = events[i].data.ptr;
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_answers(connection, ask_again);
        else flush_out(connection);
    }
}

/* Register every broker once, one after the other, on the connection it keeps. */
static double fill_ms(struct connection *connections) {
    uint64_t started_ns = now_ns(), started_ms = wall_ms();
    brokers = calloc((size_t)set.brokers, sizeof *brokers);
    for (int i = 0; i < set.brokers; i++) prepare_broker(&brokers[i], i, started_ms);
    started_ns = now_ns();
    put_request = put_registration;
    note_good = note_nothing;
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
        if (!strcmp(name, "--warmup")) { set.warmup_s = atof(value); continue; }
        if (!strcmp(name, "--seconds")) { set.seconds = atof(value); continue; }
        if (!strcmp(name, "--requests")) { set.requests = atol(value); continue; }
        die("unknown option %s", name);
    }
    if (count % 2 == 0) die("the last option has no value");
    if (set.port <= 0) die("--port is missing");
    if (set.depth < 1 || set.depth > DEPTH_MAX) die("--depth is 1 to %d", DEPTH_MAX);
    if (set.connections < 1 || set.topics < 1 || set.queues < 1 || set.brokers < 1) die("counts are at least 1");
    if (set.topic_brokers > set.brokers) die("a topic cannot be on %d of %d brokers", set.topic_brokers, set.brokers);
}

static void choose_mode(void) {
    if (!strcmp(set.mode, "route")) put_request = put_route_query, note_good = note_route;
    else if (!strcmp(set.mode, "send")) put_request = put_send, note_good = note_sent;
    else if (!strcmp(set.mode, "pull")) put_request = put_pull, note_good = note_pulled;
    else die("modes are route, register, send and pull, not %s", set.mode);
}

int main(int count, char **arguments) {
    parse_arguments(count, arguments);
    signal(SIGPIPE, SIG_IGN);
    crc_prepare();
    if (set.cpu >= 0) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET(set.cpu, &cpus);
        if (sched_setaffinity(0, sizeof cpus, &cpus)) die("cannot run on core %d: %s", set.cpu, strerror(errno));
    }
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int registering = !strcmp(set.mode, "register"), with_brokers = registering || !strcmp(set.mode, "route");
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
        put_request = put_measured_registration;
    } else {
        connections = calloc((size_t)set.connections, sizeof *connections);
        if (!connections) die("out of memory");
        choose_mode();
        send_body = malloc((size_t)set.body_size + 1);
        for (int i = 0; i < set.body_size; i++) send_body[i] = (char)('a' + i * 7 % 26);
        for (int i = 0; i < set.connections; i++) {
            connections[i].index = i;
            connections[i].fd = open_connection();
            fcntl(connections[i].fd, F_SETFL, O_NONBLOCK);
            watch(&connections[i], EPOLL_CTL_ADD, 0);
            for (int slot = 0; slot < set.depth; slot++)
                connections[i].slots[slot].queue_id = (uint32_t)(i * set.depth + slot) % (uint32_t)set.queues;
        }
    }

    reset_counts();
    uint64_t started_ns = now_ns();
    loop_ns = started_ns;
    loop_ms = wall_ms();
    for (int i = 0; i < set.connections; i++) {
        for (int slot = 0; slot < set.depth; slot++) ask(&connections[i], slot);
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
