/* What the parts of the load generator share: settings, buffers, connections, frames, and what a mode is. */
#ifndef LOADGEN_H
#define LOADGEN_H

#include <stddef.h>
#include <stdint.h>

#define SLOTS_MAX 256
#define JAVA_TAIL "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}"

struct settings {
    const char *mode, *host, *topic, *expression;
    int port, connections, depth, cpu, server_pid;
    double warmup_s, seconds;
    long requests; /* stop after so many answers instead of after `seconds` */
    int brokers, topics, topic_brokers, changed;
    int body_size, queues, spread, keys, delay_ms;
    long key_range;
    int pull_count, pull_size_max;
};

struct buffer {
    char *data;
    size_t start, end, capacity; /* what counts is data[start:end] */
};

struct slot {
    uint64_t sent_at_ns;
    uint32_t opaque; /* 0: nothing in flight */
    uint32_t queue_id;
    uint64_t queue_offset; /* pull: where this slot reads on; transaction: of the half message */
    uint64_t log_offset;   /* transaction: of the half message; 0: the next request is a half message */
    uint64_t serial;       /* transaction: the half message's number */
};

struct connection {
    int fd, index, waits_for_write;
    uint32_t sequence;
    struct buffer in, out;
    struct slot slots[SLOTS_MAX];
    int unacked;          /* pop: acknowledgements in flight */
    char receipt[256];    /* pop: what the acknowledgements of one answer share, before the message's own offset */
};

struct answer {
    int64_t code;
    const char *header, *body;
    size_t header_size, body_size;
};

/* What is asked again and again: `put` writes a slot's next request, `note` checks a good answer, `again` asks whatever
   follows that answer (NULL: the same slot's next request). `also_good`: a code beside 0 that is no fault, or -1. */
struct mode {
    const char *name;
    void (*put)(struct connection *, int slot, uint32_t opaque);
    void (*note)(struct connection *, int slot, const struct answer *);
    void (*again)(struct connection *, int slot);
    int also_good;
    int slots; /* of a connection; 0: its depth */
};

extern struct settings set;
extern const struct mode *const message_modes;
extern const struct mode route_mode, register_mode, fill_mode; /* fill: each broker's first registration */
extern uint64_t messages, serial; /* messages read so far; requests numbered so far */
extern uint64_t loop_ms;          /* the wall clock, read once per wake-up */

void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
char *reserve(struct buffer *buffer, size_t size);
void put_frame(struct buffer *out, const char *header, size_t header_size, const char *body, size_t body_size);
void ask(struct connection *connection, int slot);
int64_t number_after(const char *header, size_t size, const char *name, size_t name_size, int64_t missing);
#define NUMBER_AFTER(header, size, name, missing) number_after(header, size, name, sizeof name - 1, missing)

void prepare_brokers(void);
void prepare_messages(void);

#endif
