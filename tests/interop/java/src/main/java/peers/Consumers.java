package peers;

import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** The consumers of a peer, by name; each received message becomes one event line. */
final class Consumers {
    private final Map<String, DefaultMQPushConsumer> pushing = new ConcurrentHashMap<>();
    private final Map<String, DefaultMQPullConsumer> pulling = new ConcurrentHashMap<>();
    private final Map<String, DefaultLitePullConsumer> polling = new ConcurrentHashMap<>();

    Consumers(Map<String, Peer.Action> actions) {
        actions.put("consumer.start", this::start);
        actions.put("consumer.queues", this::queues);
        actions.put("consumer.stop", this::stop);
        actions.put("puller.start", this::startPuller);
        actions.put("puller.pull", this::pull);
        actions.put("puller.offsets", this::offsets);
        actions.put("puller.stop", this::stopPuller);
        actions.put("lite.start", this::startLite);
        actions.put("lite.poll", this::poll);
        actions.put("lite.stop", this::stopLite);
    }

    private Object start(JSONObject arguments) throws Exception {
        String name = arguments.getString("name");
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(arguments.getString("group"), Signing.hook(arguments));
        consumer.setNamesrvAddr(arguments.getString("name_servers"));
        consumer.setConsumeFromWhere(
            ConsumeFromWhere.valueOf(arguments.getOrDefault("from", "CONSUME_FROM_FIRST_OFFSET").toString()));
        consumer.setMessageModel(MessageModel.valueOf(arguments.getOrDefault("model", "CLUSTERING").toString()));
        consumer.setEnableTrace(arguments.getBooleanValue("trace"));
        consumer.setTraceMsgBatchNum(1); // told at once: what waits when a client stops may be lost
        if (arguments.containsKey("instance")) {
            consumer.setInstanceName(arguments.getString("instance"));
        }
        if (arguments.containsKey("poll_ms")) {
            consumer.setPollNameServerInterval(arguments.getIntValue("poll_ms"));
        }
        if (arguments.getBooleanValue("pop")) {
            consumer.setClientRebalance(false);
        }
        if (arguments.containsKey("max_reconsume_times")) {
            consumer.setMaxReconsumeTimes(arguments.getIntValue("max_reconsume_times"));
        }
        String topic = arguments.getString("topic");
        if (arguments.containsKey("sql")) {
            consumer.subscribe(topic, MessageSelector.bySql(arguments.getString("sql")));
        } else {
            consumer.subscribe(topic, arguments.getOrDefault("tag", "*").toString());
        }
        listen(consumer, name, arguments.getBooleanValue("orderly"), arguments.getIntValue("fail_first"));
        consumer.start();
        pushing.put(name, consumer);
        return consumer.buildMQClientId();
    }

    private static void listen(DefaultMQPushConsumer consumer, String name, boolean orderly, int failFirst) {
        if (orderly) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                messages.forEach(message -> received(name, message));
                boolean fails = messages.stream().anyMatch(message -> message.getReconsumeTimes() < failFirst);
                return fails ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT : ConsumeOrderlyStatus.SUCCESS;
            });
            return;
        }
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> received(name, message));
            boolean fails = messages.stream().anyMatch(message -> message.getReconsumeTimes() < failFirst);
            return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
    }

    private static void received(String name, MessageExt message) {
        Map<String, Object> event = Codec.describe(message);
        event.put("event", "message");
        event.put("consumer", name);
        event.put("received_at_ms", System.currentTimeMillis());
        Peer.emit(event);
    }

    private Object queues(JSONObject arguments) {
        DefaultMQPushConsumer consumer = pushing.get(arguments.getString("name"));
        List<Object> queues = new ArrayList<>();
        for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
            if (!queue.getTopic().startsWith("%RETRY%")) {
                queues.add(List.of(queue.getBrokerName(), queue.getQueueId()));
            }
        }
        return queues;
    }

    private Object stop(JSONObject arguments) {
        Shutdowns.quickly(pushing.remove(arguments.getString("name"))::shutdown);
        return null;
    }

    private Object startPuller(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(arguments.getString("group"));
        consumer.setNamesrvAddr(arguments.getString("name_servers"));
        consumer.start();
        pulling.put(arguments.getString("name"), consumer);
        return null;
    }

    private Object pull(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer consumer = pulling.get(arguments.getString("name"));
        PullResult pulled = consumer.pull(queue(arguments), arguments.getOrDefault("tag", "*").toString(),
            arguments.getLongValue("queue_offset"), arguments.getIntValue("count"));
        List<Object> messages = new ArrayList<>();
        if (pulled.getMsgFoundList() != null) {
            pulled.getMsgFoundList().forEach(message -> messages.add(Codec.describe(message)));
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("status", pulled.getPullStatus().name());
        result.put("next_offset", pulled.getNextBeginOffset());
        result.put("min_offset", pulled.getMinOffset());
        result.put("max_offset", pulled.getMaxOffset());
        result.put("messages", messages);
        return result;
    }

    private Object offsets(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer consumer = pulling.get(arguments.getString("name"));
        MessageQueue queue = queue(arguments);
        if (arguments.containsKey("commit")) {
            consumer.updateConsumeOffset(queue, arguments.getLongValue("commit"));
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(
                queue, arguments.getLongValue("commit"), false);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("committed", consumer.fetchConsumeOffset(queue, true));
        result.put("min", consumer.minOffset(queue));
        result.put("max", consumer.maxOffset(queue));
        result.put("earliest_stored_at_ms", consumer.earliestMsgStoreTime(queue));
        if (arguments.containsKey("timestamp_ms")) {
            result.put("at_timestamp", consumer.searchOffset(queue, arguments.getLongValue("timestamp_ms")));
        }
        return result;
    }

    private Object stopPuller(JSONObject arguments) {
        Shutdowns.quickly(pulling.remove(arguments.getString("name"))::shutdown);
        return null;
    }

    private Object startLite(JSONObject arguments) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(arguments.getString("group"));
        consumer.setNamesrvAddr(arguments.getString("name_servers"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(arguments.getString("topic"), arguments.getOrDefault("tag", "*").toString());
        consumer.start();
        polling.put(arguments.getString("name"), consumer);
        return null;
    }

    private Object poll(JSONObject arguments) {
        DefaultLitePullConsumer consumer = polling.get(arguments.getString("name"));
        List<Object> messages = new ArrayList<>();
        consumer.poll(arguments.getLongValue("timeout_ms")).forEach(message -> messages.add(Codec.describe(message)));
        return messages;
    }

    private Object stopLite(JSONObject arguments) {
        Shutdowns.quickly(polling.remove(arguments.getString("name"))::shutdown);
        return null;
    }

    private static MessageQueue queue(JSONObject arguments) {
        return new MessageQueue(
            arguments.getString("topic"), arguments.getString("broker"), arguments.getIntValue("queue_id"));
    }

    void stopAll() {
        pushing.values().forEach(consumer -> Shutdowns.quickly(consumer::shutdown));
        pulling.values().forEach(consumer -> Shutdowns.quickly(consumer::shutdown));
        polling.values().forEach(consumer -> Shutdowns.quickly(consumer::shutdown));
    }
}
