package peers;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The producers of a peer, by name. */
final class Producers {
    private final Map<String, DefaultMQProducer> running = new ConcurrentHashMap<>();

    Producers(Map<String, Peer.Action> actions) {
        actions.put("producer.start", this::start);
        actions.put("producer.send", this::send);
        actions.put("producer.batch", this::batch);
        actions.put("producer.oneway", this::oneway);
        actions.put("producer.request", this::request);
        actions.put("producer.reply", this::reply);
        actions.put("producer.recall", this::recall);
        actions.put("producer.stop", this::stop);
    }

    private Object start(JSONObject arguments) throws Exception {
        String group = arguments.getString("group");
        DefaultMQProducer producer = arguments.getBooleanValue("transactional")
            ? transactional(group) : new DefaultMQProducer(group, Signing.hook(arguments));
        producer.setNamesrvAddr(arguments.getString("name_servers"));
        producer.setEnableTrace(arguments.getBooleanValue("trace"));
        producer.setTraceMsgBatchNum(1); // told at once: what waits when a client stops may be lost
        if (arguments.containsKey("compress_over")) {
            producer.setCompressMsgBodyOverHowmuch(arguments.getIntValue("compress_over"));
        }
        if (arguments.containsKey("compress_type")) {
            producer.setCompressType(CompressionType.of(arguments.getString("compress_type")));
        }
        if (arguments.containsKey("send_timeout_ms")) {
            producer.setSendMsgTimeout(arguments.getIntValue("send_timeout_ms"));
        }
        if (arguments.containsKey("poll_ms")) {
            producer.setPollNameServerInterval(arguments.getIntValue("poll_ms"));
        }
        producer.start();
        running.put(arguments.getString("name"), producer);
        return null;
    }

    /** A transactional producer whose messages say in the property OUTCOME how they end, and in CHECKED what a check finds. */
    private static DefaultMQProducer transactional(String group) {
        TransactionMQProducer producer = new TransactionMQProducer(group);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.valueOf(message.getUserProperty("OUTCOME"));
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                Peer.emit(Map.of("event", "check", "key", String.valueOf(message.getKeys())));
                return LocalTransactionState.valueOf(message.getUserProperty("CHECKED"));
            }
        });
        return producer;
    }

    private Object send(JSONObject arguments) throws Exception {
        DefaultMQProducer producer = running.get(arguments.getString("name"));
        List<Object> results = new ArrayList<>();
        for (Object item : arguments.getJSONArray("messages")) {
            JSONObject description = (JSONObject) item;
            Message message = message(description);
            results.add(result(sendOne(producer, description, message)));
        }
        return results;
    }

    private static SendResult sendOne(DefaultMQProducer producer, JSONObject description, Message message)
        throws Exception {
        if (producer instanceof TransactionMQProducer) {
            return producer.sendMessageInTransaction(message, null);
        }
        if (description.containsKey("queue_id")) {
            return producer.send(message, new MessageQueue(
                description.getString("topic"), description.getString("broker"), description.getIntValue("queue_id")));
        }
        if (description.containsKey("order_key")) {
            int hash = description.getString("order_key").hashCode() & Integer.MAX_VALUE;
            return producer.send(message, (queues, sent, argument) -> queues.get(hash % queues.size()), null);
        }
        return producer.send(message);
    }

    private Object recall(JSONObject arguments) throws Exception {
        return running.get(arguments.getString("name")).recallMessage(
            arguments.getString("topic"), arguments.getString("handle"));
    }

    private Object batch(JSONObject arguments) throws Exception {
        return result(running.get(arguments.getString("name")).send(messages(arguments.getJSONArray("messages"))));
    }

    private Object oneway(JSONObject arguments) throws Exception {
        for (Message message : messages(arguments.getJSONArray("messages"))) {
            running.get(arguments.getString("name")).sendOneway(message);
        }
        return null;
    }

    /**
     * Send a request; its reply becomes an event. 5.3.3 takes the success of the send for the reply, in each form of this
     * call, and tells its callback of nothing then; the reply comes with a second call.
     */
    private Object request(JSONObject arguments) throws Exception {
        CompletableFuture<Void> sent = new CompletableFuture<>();
        AtomicBoolean isTold = new AtomicBoolean();
        RequestCallback callback = new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                if (reply != null && isTold.compareAndSet(false, true)) {
                    Map<String, Object> event = new LinkedHashMap<>(Codec.describe((MessageExt) reply));
                    event.put("event", "reply");
                    event.put("producer", arguments.getString("name"));
                    Peer.emit(event);
                }
                sent.complete(null);
            }

            @Override
            public void onException(Throwable failure) {
                sent.completeExceptionally(failure);
            }
        };
        Message request = message(arguments.getJSONObject("message"));
        running.get(arguments.getString("name")).request(request, callback, arguments.getLongValue("timeout_ms"));
        return sent.get();
    }

    /** Reply to a request, known by the properties with which a consumer received it. */
    private Object reply(JSONObject arguments) throws Exception {
        Message request = new Message();
        arguments.getJSONObject("properties").forEach(
            (name, value) -> MessageAccessor.putProperty(request, name, String.valueOf(value)));
        byte[] body = Base64.getDecoder().decode(arguments.getString("body"));
        Message reply = MessageUtil.createReplyMessage(request, body);
        return result(running.get(arguments.getString("name")).send(reply));
    }

    private Object stop(JSONObject arguments) {
        Shutdowns.quickly(running.remove(arguments.getString("name"))::shutdown);
        return null;
    }

    void stopAll() {
        running.values().forEach(producer -> Shutdowns.quickly(producer::shutdown));
    }

    private static List<Message> messages(JSONArray descriptions) {
        List<Message> messages = new ArrayList<>();
        descriptions.forEach(item -> messages.add(message((JSONObject) item)));
        return messages;
    }

    private static Message message(JSONObject description) {
        Message message = new Message(
            description.getString("topic"), Base64.getDecoder().decode(description.getString("body")));
        if (description.containsKey("tag")) {
            message.setTags(description.getString("tag"));
        }
        if (description.containsKey("keys")) {
            message.setKeys(description.getString("keys"));
        }
        message.setFlag(description.getIntValue("flag"));
        if (description.containsKey("delay_level")) {
            message.setDelayTimeLevel(description.getIntValue("delay_level"));
        }
        if (description.containsKey("delay_ms")) {
            message.setDelayTimeMs(description.getLongValue("delay_ms"));
        }
        if (description.containsKey("delay_s")) {
            message.setDelayTimeSec(description.getLongValue("delay_s"));
        }
        if (description.containsKey("deliver_ms")) {
            message.setDeliverTimeMs(description.getLongValue("deliver_ms"));
        }
        if (description.containsKey("raw_properties")) {
            description.getJSONObject("raw_properties").forEach(
                (k, v) -> MessageAccessor.putProperty(message, k, String.valueOf(v)));
        }
        if (description.containsKey("properties")) {
            description.getJSONObject("properties").forEach((k, v) -> message.putUserProperty(k, String.valueOf(v)));
        }
        return message;
    }

    private static Map<String, Object> result(SendResult sent) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("status", sent.getSendStatus().name());
        result.put("message_id", sent.getMsgId());
        result.put("offset_message_id", sent.getOffsetMsgId());
        result.put("broker", sent.getMessageQueue().getBrokerName());
        result.put("queue_id", sent.getMessageQueue().getQueueId());
        result.put("queue_offset", sent.getQueueOffset());
        result.put("transaction_id", sent.getTransactionId());
        result.put("recall_handle", sent.getRecallHandle());
        return result;
    }
}
