/* Brokers' loads: messages sent, read by offset, by key and by POP, and transactions. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACKS_MAX 32
#define RECORD_QUEUE_AT 12 /* of a record: its queue id, then flag, then its queue offset */
#define RECORD_QUEUE_OFFSET_AT 20
#define PULL_RETRY_IMMEDIATELY 20
#define COMMIT 8
#define PREPARED 4

static char *body;

static void put_request_frame(struct connection *connection, int code, uint32_t opaque, const char *fields,
                              const char *content, size_t size) {
    char header[2048];
    int header_size = snprintf(header, sizeof header,
                               "{\"code\":%d,\"extFields\":{%s},\"flag\":0,\"language\":\"JAVA\",\"opaque\":%u," JAVA_TAIL,
                               code, fields, opaque);
    if (header_size >= (int)sizeof header) die("a header of %d bytes", header_size);
    put_frame(&connection->out, header, (size_t)header_size, content, size);
}

/* ---- sending ---------------------------------------------------------------------------------------------------- */

/* The keys of message `number`: the first is found by its number alone, whoever sent it. */
static void format_keys(char *to, size_t size, uint64_t number) {
    size_t at = (size_t)snprintf(to, size, "KEYS\\u0001");
    for (int i = 0; i < set.keys; i++)
        at += (size_t)snprintf(to + at, size - at, "%sK%d-%010llu", i ? " " : "", i, (unsigned long long)number);
    snprintf(to + at, size - at, "\\u0002");
}

static void put_message(struct connection *connection, uint32_t opaque, uint64_t number, int sys_flag, const char *extra) {
    char fields[1536], topic[256], keys[512] = "", delay[64] = "";
    if (set.spread > 1) snprintf(topic, sizeof topic, "%s_%04d", set.topic, (int)(number / (unsigned)set.queues % (unsigned)set.spread));
    else snprintf(topic, sizeof topic, "%s", set.topic);
    if (set.keys) format_keys(keys, sizeof keys, number);
    if (set.delay_ms) snprintf(delay, sizeof delay, "TIMER_DELAY_MS\\u0001%d\\u0002", set.delay_ms);
    snprintf(fields, sizeof fields,
             "\"a\":\"bench-producer\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"%d\",\"e\":\"%d\",\"f\":\"%d\",\"g\":\"%llu\","
             "\"h\":\"0\",\"i\":\"%s%s%sUNIQ_KEY\\u00017F000001%04X251A69D7%012llX\\u0002WAIT\\u0001true\\u0002TAGS\\u0001bench"
             "\\u0002\",\"j\":\"0\",\"k\":\"false\",\"m\":\"false\",\"n\":\"bench-broker\"",
             topic, set.queues, (int)(number % (unsigned)set.queues), sys_flag, (unsigned long long)loop_ms, keys, delay, extra,
             getpid() & 0xFFFF, (unsigned long long)number);
    put_request_frame(connection, 310, opaque, fields, body, (size_t)set.body_size);
}

static void put_send(struct connection *connection, int slot, uint32_t opaque) {
    char extra[64] = "";
    uint64_t number = serial++;
    (void)slot;
    /* What SQL92 expressions ask for: one message in ten has each value. */
    if (set.expression) snprintf(extra, sizeof extra, "n\\u0001%d\\u0002", (int)(number / (unsigned)set.queues % 10));
    put_message(connection, opaque, number, 0, extra);
}

static void note_sent(struct connection *connection, int slot, const struct answer *answer) {
    (void)connection, (void)slot;
    if (!memmem(answer->header, answer->header_size, "\"queueOffset\":", 14))
        die("no queue offset: %.*s", (int)answer->header_size, answer->header);
}

/* ---- transactions: a half message, its commit, and again ---------------------------------------------------------- */

static void put_transaction(struct connection *connection, int slot, uint32_t opaque) {
    struct slot *half = &connection->slots[slot];
    char fields[1024];
    if (!half->log_offset) {
        half->serial = serial++;
        put_message(connection, opaque, half->serial, PREPARED, "TRAN_MSG\\u0001true\\u0002PGROUP\\u0001bench-producer\\u0002");
        return;
    }
    snprintf(fields, sizeof fields,
             "\"topic\":\"%s\",\"producerGroup\":\"bench-producer\",\"tranStateTableOffset\":\"%llu\",\"commitLogOffset\":\"%llu\","
             "\"commitOrRollback\":\"%d\",\"fromTransactionCheck\":\"false\",\"msgId\":\"7F000001%04X251A69D7%012llX\","
             "\"transactionId\":\"7F000001%04X251A69D7%012llX\",\"bname\":\"bench-broker\"",
             set.topic, (unsigned long long)half->queue_offset, (unsigned long long)half->log_offset, COMMIT, getpid() & 0xFFFF,
             (unsigned long long)half->serial, getpid() & 0xFFFF, (unsigned long long)half->serial);
    put_request_frame(connection, 37, opaque, fields, NULL, 0);
}

static void note_transaction(struct connection *connection, int slot, const struct answer *answer) {
    struct slot *half = &connection->slots[slot];
    if (half->log_offset) {
        half->log_offset = 0;
        messages++;
        return;
    }
    const char *id = memmem(answer->header, answer->header_size, "\"msgId\":\"", 9);
    int64_t queue_offset = NUMBER_AFTER(answer->header, answer->header_size, "\"queueOffset\":", -1);
    if (!id || queue_offset < 0) die("no half message: %.*s", (int)answer->header_size, answer->header);
    const char *end = strchr(id + 9, '"');
    if (!end || end - id < 9 + 32) die("a message id of %d characters", (int)(end ? end - id - 9 : 0));
    char offset[17] = "";
    memcpy(offset, end - 16, 16);
    half->queue_offset = (uint64_t)queue_offset;
    half->log_offset = strtoull(offset, NULL, 16);
}

/* ---- pulls -------------------------------------------------------------------------------------------------------- */

static void put_pull(struct connection *connection, int slot, uint32_t opaque) {
    char fields[1024], size_max[64] = "";
    struct slot *reader = &connection->slots[slot];
    if (set.pull_size_max) snprintf(size_max, sizeof size_max, "\"maxMsgBytes\":\"%d\",", set.pull_size_max);
    /* sysFlag 6: may be held, subscription in the header */
    snprintf(fields, sizeof fields,
             "\"bname\":\"bench-broker\",\"queueId\":\"%u\",%s\"maxMsgNums\":\"%d\",\"sysFlag\":\"6\",\"suspendTimeoutMillis\":\"15000\","
             "\"commitOffset\":\"0\",\"topic\":\"%s\",\"queueOffset\":\"%llu\",\"expressionType\":\"%s\",\"subVersion\":\"1\","
             "\"consumerGroup\":\"bench-consumer\",\"subscription\":\"%s\"",
             reader->queue_id, size_max, set.pull_count, set.topic, (unsigned long long)reader->queue_offset,
             set.expression ? "SQL92" : "TAG", set.expression ? set.expression : "*");
    put_request_frame(connection, 11, opaque, fields, NULL, 0);
}

static uint32_t record_size(const char *records, size_t size) {
    uint32_t found;
    if (size < 8) die("an answer ends within a record");
    memcpy(&found, records, 4);
    found = ntohl(found);
    if (found < 88 || found > size) die("an answer holds a record of %u bytes", found);
    return found;
}

static uint64_t count_records(const struct answer *answer) {
    uint64_t count = 0;
    for (size_t at = 0; at < answer->body_size; count++) at += record_size(answer->body + at, answer->body_size - at);
    return count;
}

/* Messages are those read; with an expression those looked at, whether they matched or not. */
static void note_pulled(struct connection *connection, int slot, const struct answer *answer) {
    struct slot *reader = &connection->slots[slot];
    int64_t next = NUMBER_AFTER(answer->header, answer->header_size, "\"nextBeginOffset\":", -1);
    int64_t max = NUMBER_AFTER(answer->header, answer->header_size, "\"maxOffset\":", -1);
    if (next < 0 || max < 0) die("a pull answer without offsets: %.*s", (int)answer->header_size, answer->header);
    uint64_t count = count_records(answer);
    if (set.expression) {
        if (count > (uint64_t)next - reader->queue_offset) die("more records than offsets");
        count = (uint64_t)next - reader->queue_offset;
    } else if (count && reader->queue_offset + count != (uint64_t)next) {
        die("%llu records from offset %llu, yet the next offset is %lld", (unsigned long long)count,
            (unsigned long long)reader->queue_offset, (long long)next);
    }
    messages += count;
    reader->queue_offset = next >= max ? 0 : (uint64_t)next;
}

/* ---- queries by key ------------------------------------------------------------------------------------------------ */

static void put_query(struct connection *connection, int slot, uint32_t opaque) {
    static uint64_t random = 0x9E3779B97F4A7C15u;
    char fields[512];
    (void)slot;
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    snprintf(fields, sizeof fields,
             "\"topic\":\"%s\",\"key\":\"K0-%010llu\",\"maxNum\":\"32\",\"beginTimestamp\":\"0\",\"endTimestamp\":\"%llu\"", set.topic,
             (unsigned long long)(random % (uint64_t)set.key_range), (unsigned long long)loop_ms + 1000);
    put_request_frame(connection, 12, opaque, fields, NULL, 0);
}

static void note_found(struct connection *connection, int slot, const struct answer *answer) {
    (void)connection, (void)slot;
    uint64_t count = count_records(answer);
    if (!count) die("a key without a message");
    messages += count;
}

/* ---- POP: slot 0 receives, the others acknowledge what it received ---------------------------------------------------
 *
 * A group pops each message once. When a connection has read its queue to the end, it goes on as the next group, from the
 * beginning: slot 0's serial is the group's number, its queue offset how many messages the queue still holds for it. */

static void put_pop(struct connection *connection, int slot, uint32_t opaque) {
    char fields[1024];
    struct slot *pop = &connection->slots[0], *ack = &connection->slots[slot];
    if (slot == 0)
        snprintf(fields, sizeof fields,
                 "\"consumerGroup\":\"bench-pop-%d-%llu\",\"topic\":\"%s\",\"queueId\":\"%d\",\"maxMsgNums\":\"%d\",\"invisibleTime\":\"60000\","
                 "\"pollTime\":\"0\",\"bornTime\":\"%llu\",\"initMode\":\"0\",\"order\":\"false\",\"bname\":\"bench-broker\"",
                 getpid(), (unsigned long long)pop->serial, set.topic, connection->index % set.queues, set.pull_count, (unsigned long long)loop_ms);
    else
        snprintf(fields, sizeof fields,
                 "\"consumerGroup\":\"bench-pop-%d-%llu\",\"topic\":\"%s\",\"queueId\":\"%u\",\"extraInfo\":\"%s %u %llu\",\"offset\":\"%llu\","
                 "\"bname\":\"bench-broker\"",
                 getpid(), (unsigned long long)pop->serial, set.topic, ack->queue_id, connection->receipt, ack->queue_id, (unsigned long long)ack->queue_offset,
                 (unsigned long long)ack->queue_offset);
    put_request_frame(connection, slot ? 200051 : 200050, opaque, fields, NULL, 0);
}

static int text_after(const struct answer *answer, const char *name, char *to, size_t size) {
    const char *at = memmem(answer->header, answer->header_size, name, strlen(name));
    if (!at) return 0;
    at += strlen(name);
    size_t length = strcspn(at, "\",}");
    if (length >= size) die("%s has %zu characters", name, length);
    memcpy(to, at, length);
    to[length] = 0;
    return 1;
}

/* Java ExtraInfoUtil: start offset, pop time, invisible time, revive queue, 0 for the topic itself, broker, queue, offset. */
static void note_popped(struct connection *connection, int slot, const struct answer *answer) {
    if (slot) {
        messages++;
        connection->unacked--;
        return;
    }
    char start[64], time[32], invisible[32], revive[16];
    if (!text_after(answer, "\"startOffsetInfo\":\"", start, sizeof start) || !text_after(answer, "\"popTime\":\"", time, sizeof time) ||
        !text_after(answer, "\"invisibleTime\":\"", invisible, sizeof invisible) || !text_after(answer, "\"reviveQid\":\"", revive, sizeof revive))
        die("a POP answer without a receipt: %.*s", (int)answer->header_size, answer->header);
    const char *offset = strrchr(start, ' ');
    if (!offset || strchr(start, ';')) die("start offsets of one queue: %s", start);
    snprintf(connection->receipt, sizeof connection->receipt, "%s %s %s %s 0 bench-broker", offset + 1, time, invisible, revive);
    for (size_t at = 0; at < answer->body_size;) {
        uint32_t size = record_size(answer->body + at, answer->body_size - at), queue_id, high, low;
        memcpy(&queue_id, answer->body + at + RECORD_QUEUE_AT, 4);
        memcpy(&high, answer->body + at + RECORD_QUEUE_OFFSET_AT, 4);
        memcpy(&low, answer->body + at + RECORD_QUEUE_OFFSET_AT + 4, 4);
        if (connection->unacked == ACKS_MAX) die("more than %d messages", ACKS_MAX);
        struct slot *ack = &connection->slots[++connection->unacked];
        ack->queue_id = ntohl(queue_id);
        ack->queue_offset = (uint64_t)ntohl(high) << 32 | ntohl(low);
        at += size;
    }
    if (!connection->unacked) die("a POP answer without messages: the topic is used up");
    int64_t rest = NUMBER_AFTER(answer->header, answer->header_size, "\"restNum\":", -1);
    if (rest < 0) die("a POP answer without the number of messages that are left: %.*s", (int)answer->header_size, answer->header);
    connection->slots[0].queue_offset = (uint64_t)rest;
}

static void again_pop(struct connection *connection, int slot) {
    struct slot *pop = &connection->slots[0];
    if (slot == 0 && connection->unacked) {
        for (int i = 1, count = connection->unacked; i <= count; i++) ask(connection, i);
    } else if (!connection->unacked) {
        if (slot && !pop->queue_offset) pop->serial++;
        ask(connection, 0);
    }
}

static const struct mode modes[] = {
    {"send", put_send, note_sent, NULL, -1, 0},
    {"transaction", put_transaction, note_transaction, NULL, -1, 0},
    {"pull", put_pull, note_pulled, NULL, PULL_RETRY_IMMEDIATELY, 0},
    {"query", put_query, note_found, NULL, -1, 0},
    {"pop", put_pop, note_popped, again_pop, -1, ACKS_MAX + 1},
    {0},
};
const struct mode *const message_modes = modes;

void prepare_messages(void) {
    body = malloc((size_t)set.body_size + 1);
    if (!body) die("out of memory");
    for (int i = 0; i < set.body_size; i++) body[i] = (char)('a' + i * 7 % 26);
}
