package peers;

import com.alibaba.fastjson.JSONObject;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.ClientRemotingProcessor;
import org.apache.rocketmq.client.impl.mqclient.MQClientAPIExt;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.body.MessageRequestModeSerializeWrapper;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.NotificationRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PeekMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PollingInfoRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;

/** Java's own calls for popping, as its proxy makes them: one client for all. */
final class Pops {
    private static final long TIMEOUT_MS = 60_000;
    private static MQClientAPIExt shared;

    private Pops() {
    }

    static void register(Map<String, Peer.Action> actions) {
        actions.put("pop.pop", Pops::pop);
        actions.put("pop.ack", Pops::ack);
        actions.put("pop.batch_ack", Pops::batchAck);
        actions.put("pop.change", Pops::change);
        actions.put("pop.notify", Pops::await);
        actions.put("pop.polling", Pops::polling);
        actions.put("pop.peek", Pops::peek);
        actions.put("pop.modes", Pops::modes);
    }

    private static synchronized MQClientAPIExt client() {
        if (shared == null) {
            shared = new MQClientAPIExt(new ClientConfig(), new NettyClientConfig(), new ClientRemotingProcessor(null), null);
            shared.start();
        }
        return shared;
    }

    private static Object pop(JSONObject arguments) throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(arguments.getString("group"));
        header.setTopic(arguments.getString("topic"));
        header.setQueueId(arguments.getIntValue("queue_id"));
        header.setMaxMsgNums(arguments.getIntValue("count"));
        header.setInvisibleTime(arguments.getLongValue("invisible_ms"));
        header.setPollTime(arguments.getLongValue("poll_ms"));
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(arguments.getIntValue("init_mode"));
        header.setExpType("TAG");
        header.setExp(arguments.getOrDefault("tag", "*").toString());
        header.setOrder(arguments.getBooleanValue("order"));
        header.setAttemptId(arguments.getString("attempt"));
        PopResult popped = client().popMessageAsync(
            arguments.getString("address"), arguments.getString("broker"), header, TIMEOUT_MS).get();
        List<Object> messages = new ArrayList<>();
        if (popped.getMsgFoundList() != null) {
            popped.getMsgFoundList().forEach(message -> messages.add(Codec.describe(message)));
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("status", popped.getPopStatus().name());
        result.put("pop_time_ms", popped.getPopTime());
        result.put("invisible_ms", popped.getInvisibleTime());
        result.put("rest", popped.getRestNum());
        result.put("messages", messages);
        return result;
    }

    private static Object ack(JSONObject arguments) throws Exception {
        String handle = arguments.getString("handle");
        String[] parts = ExtraInfoUtil.split(handle);
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(arguments.getString("group"));
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, arguments.getString("topic"), arguments.getString("group")));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(handle);
        return status(client().ackMessageAsync(arguments.getString("address"), header, TIMEOUT_MS).get());
    }

    private static Object batchAck(JSONObject arguments) throws Exception {
        List<String> handles = arguments.getJSONArray("handles").toJavaList(String.class);
        return status(client().batchAckMessageAsync(arguments.getString("address"), arguments.getString("topic"),
            arguments.getString("group"), handles, TIMEOUT_MS).get());
    }

    private static Object change(JSONObject arguments) throws Exception {
        String handle = arguments.getString("handle");
        String[] parts = ExtraInfoUtil.split(handle);
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(arguments.getString("group"));
        header.setTopic(ExtraInfoUtil.getRealTopic(parts, arguments.getString("topic"), arguments.getString("group")));
        header.setQueueId(ExtraInfoUtil.getQueueId(parts));
        header.setOffset(ExtraInfoUtil.getQueueOffset(parts));
        header.setExtraInfo(handle);
        header.setInvisibleTime(arguments.getLongValue("invisible_ms"));
        return status(client().changeInvisibleTimeAsync(
            arguments.getString("address"), arguments.getString("broker"), header, TIMEOUT_MS).get());
    }

    private static Object await(JSONObject arguments) throws Exception {
        NotificationRequestHeader header = new NotificationRequestHeader();
        header.setConsumerGroup(arguments.getString("group"));
        header.setTopic(arguments.getString("topic"));
        header.setQueueId(arguments.getIntValue("queue_id"));
        header.setPollTime(arguments.getLongValue("poll_ms"));
        header.setBornTime(System.currentTimeMillis());
        header.setOrder(arguments.getBooleanValue("order"));
        header.setAttemptId(arguments.getString("attempt"));
        return client().notification(arguments.getString("address"), header, TIMEOUT_MS).get();
    }

    /** What no client of 5.3.3 asks. */
    private static Object polling(JSONObject arguments) throws Exception {
        PollingInfoRequestHeader header = new PollingInfoRequestHeader();
        header.setConsumerGroup(arguments.getString("group"));
        header.setTopic(arguments.getString("topic"));
        header.setQueueId(arguments.getIntValue("queue_id"));
        RemotingCommand answer = client().getRemotingClient().invokeSync(arguments.getString("address"),
            RemotingCommand.createRequestCommand(RequestCode.POLLING_INFO, header), TIMEOUT_MS);
        return answer.getExtFields().get("pollingNum");
    }

    /** What no client of 5.3.3 asks either. */
    private static Object peek(JSONObject arguments) throws Exception {
        PeekMessageRequestHeader header = new PeekMessageRequestHeader();
        header.setConsumerGroup(arguments.getString("group"));
        header.setTopic(arguments.getString("topic"));
        header.setQueueId(arguments.getIntValue("queue_id"));
        header.setMaxMsgNums(arguments.getIntValue("count"));
        RemotingCommand answer = client().getRemotingClient().invokeSync(arguments.getString("address"),
            RemotingCommand.createRequestCommand(RequestCode.PEEK_MESSAGE, header), TIMEOUT_MS);
        List<Object> messages = new ArrayList<>();
        if (answer.getBody() != null) {
            MessageDecoder.decodes(ByteBuffer.wrap(answer.getBody())).forEach(message -> messages.add(Codec.describe(message)));
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("code", answer.getCode());
        result.put("remark", answer.getRemark());
        result.put("fields", answer.getExtFields());
        result.put("messages", messages);
        return result;
    }

    /** Asks for all request modes as a slave does, and for the roll-back of pops, which mqadmin does. */
    private static Object modes(JSONObject arguments) throws Exception {
        String address = arguments.getString("address");
        RemotingCommand answer = client().getRemotingClient().invokeSync(address,
            RemotingCommand.createRequestCommand(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, null), TIMEOUT_MS);
        RemotingCommand done = client().getRemotingClient().invokeSync(address,
            RemotingCommand.createRequestCommand(RequestCode.POP_ROLLBACK, null), TIMEOUT_MS);
        MessageRequestModeSerializeWrapper modes = MessageRequestModeSerializeWrapper.decode(
            answer.getBody(), MessageRequestModeSerializeWrapper.class);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("codes", List.of(answer.getCode(), done.getCode()));
        result.put("modes", modes.getMessageRequestModeMap().get(arguments.getString("topic")));
        return result;
    }

    private static Object status(AckResult acked) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("status", acked.getStatus().name());
        result.put("handle", acked.getExtraInfo());
        result.put("pop_time_ms", acked.getPopTime());
        return result;
    }

    static synchronized void stop() {
        if (shared != null) {
            shared.shutdown();
        }
    }
}
