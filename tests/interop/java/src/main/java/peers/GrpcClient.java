package peers;

import com.alibaba.fastjson.JSON;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Rows that Java's client of 5.x walks through a proxy, a line of JSON each (PROXY ROW...); tests/interop/grpc_client.py walks the same. */
public final class GrpcClient {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final long WAIT_S = 60;
    private static ClientConfiguration configuration;

    private GrpcClient() {
    }

    interface Row {
        Map<String, Object> walk() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        configuration = ClientConfiguration.newBuilder().setEndpoints(args[0]).enableSsl(false)
            .setRequestTimeout(Duration.ofSeconds(30)).build();
        Map<String, Row> rows = new LinkedHashMap<>();
        rows.put("send", GrpcClient::send);
        rows.put("delay", GrpcClient::delay);
        rows.put("fifo", GrpcClient::fifo);
        rows.put("transaction", GrpcClient::transaction);
        rows.put("simple", GrpcClient::simple);
        rows.put("push", GrpcClient::push);
        rows.put("retry", GrpcClient::retry);
        rows.put("priority", GrpcClient::priority);
        rows.keySet().retainAll(List.of(args).subList(1, args.length));
        ExecutorService threads = Executors.newCachedThreadPool(); // they wait most of the time
        List<Future<String>> lines = new ArrayList<>();
        rows.forEach((name, row) -> lines.add(threads.submit(() -> walk(name, row))));
        for (Future<String> line : lines) {
            System.out.println(line.get());
        }
        System.exit(0);
    }

    private static String walk(String name, Row row) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("row", name);
        try {
            told.putAll(row.walk());
        } catch (Throwable failure) {
            failure.printStackTrace();
            told.put("error", failure.getClass().getSimpleName() + ": " + failure.getMessage());
        }
        return JSON.toJSONString(told);
    }

    private static Producer producing(String topic) throws Exception {
        return PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic)
            .setTransactionChecker(message -> TransactionResolution.COMMIT).build();
    }

    private static SimpleConsumer receiving(String topic, String group) throws Exception {
        return PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
            .setAwaitDuration(Duration.ofSeconds(2))
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL)).build();
    }

    private static PushConsumer listening(
        String topic, String group, BlockingQueue<List<Object>> seen, Predicate<MessageView> judge) throws Exception {
        return PROVIDER.newPushConsumerBuilder().setClientConfiguration(configuration).setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                seen.add(List.of(body(message), message.getDeliveryAttempt()));
                return judge.test(message) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE;
            }).build();
    }

    private static MessageBuilder message(String topic, String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    private static String body(MessageView message) {
        ByteBuffer bytes = message.getBody();
        return StandardCharsets.UTF_8.decode(bytes.duplicate()).toString();
    }

    private static List<MessageView> receive(SimpleConsumer consumer, int count, int invisibleS) throws Exception {
        List<MessageView> found = new ArrayList<>();
        long giveUpAt = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        while (found.size() < count && System.nanoTime() < giveUpAt) {
            found.addAll(consumer.receive(8, Duration.ofSeconds(invisibleS)));
        }
        return found;
    }

    private static boolean isEmpty(SimpleConsumer consumer) throws Exception {
        return consumer.receive(8, Duration.ofSeconds(60)).isEmpty();
    }

    private static List<Object> next(BlockingQueue<List<Object>> seen) throws Exception {
        List<Object> found = seen.poll(WAIT_S, TimeUnit.SECONDS);
        if (found == null) {
            throw new IllegalStateException("no message for " + WAIT_S + " s");
        }
        return found;
    }

    private static Map<String, Object> send() throws Exception {
        Message sent = message("normal", "hello").setTag("a").setKeys("k1").addProperty("colour", "blue").build();
        try (Producer producer = producing("normal"); SimpleConsumer consumer = receiving("normal", "g-send")) {
            SendReceipt receipt = producer.send(sent);
            MessageView got = receive(consumer, 1, 60).get(0);
            consumer.ack(got);
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("body", body(got));
            told.put("tag", got.getTag().orElse(null));
            told.put("keys", new ArrayList<>(got.getKeys()));
            told.put("colour", got.getProperties().get("colour"));
            told.put("attempt", got.getDeliveryAttempt());
            told.put("same_id", got.getMessageId().equals(receipt.getMessageId()));
            told.put("empty", isEmpty(consumer));
            return told;
        }
    }

    private static Map<String, Object> delay() throws Exception {
        try (Producer producer = producing("delayed"); SimpleConsumer consumer = receiving("delayed", "g-delay")) {
            long dueMs = System.currentTimeMillis() + 4_000;
            producer.send(message("delayed", "later").setDeliveryTimestamp(dueMs).build());
            MessageView got = receive(consumer, 1, 60).get(0);
            consumer.ack(got);
            return Map.of("body", body(got), "in_time", System.currentTimeMillis() >= dueMs - 500);
        }
    }

    private static Map<String, Object> fifo() throws Exception {
        BlockingQueue<List<Object>> seen = new LinkedBlockingQueue<>();
        Map<String, List<String>> bodies = new LinkedHashMap<>();
        List<String> wanted = new ArrayList<>();
        try (PushConsumer consumer = listening("ordered", "g-fifo", seen, message -> true);
            Producer producer = producing("ordered")) {
            for (int number = 0; number < 10; number++) {
                wanted.add(String.valueOf(number));
                for (String key : List.of("x", "y")) {
                    producer.send(message("ordered", key + number).setMessageGroup(key).build());
                }
            }
            for (int count = 0; count < 20; count++) {
                String body = (String) next(seen).get(0);
                bodies.computeIfAbsent(body.substring(0, 1), key -> new ArrayList<>()).add(body.substring(1));
            }
        }
        return Map.of("x", wanted.equals(bodies.get("x")), "y", wanted.equals(bodies.get("y")));
    }

    private static Map<String, Object> transaction() throws Exception {
        try (Producer producer = producing("transactional"); SimpleConsumer consumer = receiving("transactional", "g-tx")) {
            for (String body : List.of("committed", "rolled back", "checked")) {
                Transaction begun = producer.beginTransaction();
                producer.send(message("transactional", body).build(), begun);
                if (body.equals("committed")) {
                    begun.commit();
                } else if (body.equals("rolled back")) {
                    begun.rollback();
                }
            }
            TreeSet<String> bodies = new TreeSet<>();
            for (MessageView got : receive(consumer, 2, 60)) {
                bodies.add(body(got));
                consumer.ack(got);
            }
            return Map.of("bodies", new ArrayList<>(bodies), "empty", isEmpty(consumer));
        }
    }

    private static Map<String, Object> simple() throws Exception {
        try (Producer producer = producing("simple"); SimpleConsumer consumer = receiving("simple", "g-simple")) {
            producer.send(message("simple", "again").build());
            MessageView first = receive(consumer, 1, 60).get(0);
            consumer.changeInvisibleDuration(first, Duration.ofSeconds(2));
            MessageView second = receive(consumer, 1, 60).get(0);
            consumer.ack(second);
            return Map.of(
                "attempts", List.of(first.getDeliveryAttempt(), second.getDeliveryAttempt()),
                "same_id", first.getMessageId().equals(second.getMessageId()),
                "empty", isEmpty(consumer));
        }
    }

    private static Map<String, Object> push() throws Exception {
        BlockingQueue<List<Object>> seen = new LinkedBlockingQueue<>();
        TreeSet<Integer> bodies = new TreeSet<>();
        TreeSet<Integer> attempts = new TreeSet<>();
        try (PushConsumer consumer = listening("pushed", "g-push", seen, message -> true); Producer producer = producing("pushed")) {
            for (int number = 0; number < 20; number++) {
                producer.send(message("pushed", String.valueOf(number)).build());
            }
            for (int count = 0; count < 20; count++) {
                List<Object> found = next(seen);
                bodies.add(Integer.parseInt((String) found.get(0)));
                attempts.add((Integer) found.get(1));
            }
        }
        return Map.of("bodies", bodies.size() == 20 && bodies.last() == 19, "attempts", new ArrayList<>(attempts));
    }

    private static Map<String, Object> retry() throws Exception {
        BlockingQueue<List<Object>> seen = new LinkedBlockingQueue<>();
        List<List<Object>> found = new ArrayList<>();
        try (PushConsumer consumer = listening("failing", "g-retry", seen,
                message -> body(message).equals("second") && message.getDeliveryAttempt() == 2);
            Producer producer = producing("failing")) {
            for (String body : List.of("never", "second")) {
                producer.send(message("failing", body).build());
            }
            for (int count = 0; count < 4; count++) {
                found.add(next(seen));
            }
            Thread.sleep(1_000); // the last answer is under way
        }
        found.sort((one, other) -> one.toString().compareTo(other.toString()));
        return Map.of("seen", found);
    }

    /** All are sent, then all are received: [priority, messages] of each run, and whether a priority's kept their order. */
    private static Map<String, Object> priority() throws Exception {
        int count = 10_000;
        List<List<Integer>> runs = new ArrayList<>();
        Map<Integer, Integer> last = new LinkedHashMap<>();
        boolean sorted = true;
        try (Producer producer = producing("urgent"); SimpleConsumer consumer = receiving("urgent", "g-priority")) {
            for (int number = 0; number < count; number++) {
                producer.send(message("urgent", String.valueOf(number)).setPriority(number % 3).build());
            }
            for (MessageView got : receive(consumer, count, 600)) {
                int priority = got.getPriority().orElse(-1);
                int number = Integer.parseInt(body(got));
                sorted &= last.getOrDefault(priority, -1) < number;
                last.put(priority, number);
                if (runs.isEmpty() || runs.get(runs.size() - 1).get(0) != priority) {
                    runs.add(new ArrayList<>(List.of(priority, 0)));
                }
                runs.get(runs.size() - 1).set(1, runs.get(runs.size() - 1).get(1) + 1);
            }
        }
        return Map.of("runs", runs, "sorted", sorted);
    }
}
