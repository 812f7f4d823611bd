/* NameServers' loads: route queries, and registrations of brokers that are played here. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static void note_route(struct connection *connection, int slot, const struct answer *answer) {
    (void)connection, (void)slot;
    if (answer->body_size < 32 || !memmem(answer->body, answer->body_size, "brokerAddrs", 11))
        die("no route: %.*s with a body of %zu bytes", (int)answer->header_size, answer->header, answer->body_size);
}

const struct mode route_mode = {"route", put_route_query, note_route, NULL, -1, 0};
const struct mode fill_mode = {"fill", put_registration, NULL, NULL, -1, 0};
const struct mode register_mode = {"register", put_measured_registration, NULL, NULL, -1, 0};

void prepare_brokers(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    crc_prepare();
    brokers = calloc((size_t)set.brokers, sizeof *brokers);
    if (!brokers) die("out of memory");
    for (int i = 0; i < set.brokers; i++)
        prepare_broker(&brokers[i], i, (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u);
}
