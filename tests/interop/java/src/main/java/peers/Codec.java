package peers;

import com.alibaba.fastjson.JSONObject;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** What Java's own decoders read in given bytes: the expectations of the golden files come from here. */
final class Codec {
    private Codec() {
    }

    static void register(Map<String, Peer.Action> actions) {
        actions.put("decode.frame", Codec::frame);
        actions.put("decode.records", Codec::records);
    }

    private static Object frame(JSONObject arguments) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(arguments.getString("bytes")));
        bytes.getInt();
        RemotingCommand command = RemotingCommand.decode(bytes);
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("serialize_type", command.getSerializeTypeCurrentRPC().name());
        fields.put("code", command.getCode());
        fields.put("language", command.getLanguage().name());
        fields.put("version", command.getVersion());
        fields.put("opaque", command.getOpaque());
        fields.put("flag", command.getFlag());
        fields.put("remark", command.getRemark());
        fields.put("ext_fields", command.getExtFields() == null ? null : new TreeMap<>(command.getExtFields()));
        fields.put("body_size", command.getBody() == null ? 0 : command.getBody().length);
        return fields;
    }

    private static Object records(JSONObject arguments) {
        ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(arguments.getString("bytes")));
        List<Object> messages = new ArrayList<>();
        while (bytes.hasRemaining()) {
            MessageExt message = MessageDecoder.decode(bytes, true, arguments.getBooleanValue("decompress"));
            if (message == null) {
                break;
            }
            messages.add(describe(message));
        }
        return messages;
    }

    static Map<String, Object> describe(MessageExt message) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("topic", message.getTopic());
        fields.put("broker", message.getBrokerName());
        fields.put("queue_id", message.getQueueId());
        fields.put("queue_offset", message.getQueueOffset());
        fields.put("physical_offset", message.getCommitLogOffset());
        fields.put("message_id", message.getMsgId());
        fields.put("offset_message_id", MessageDecoder.createMessageId(message.getStoreHost(), message.getCommitLogOffset()));
        fields.put("size", message.getStoreSize());
        fields.put("flag", message.getFlag());
        fields.put("sys_flag", message.getSysFlag());
        fields.put("born_at_ms", message.getBornTimestamp());
        fields.put("born_host", String.valueOf(message.getBornHost()));
        fields.put("stored_at_ms", message.getStoreTimestamp());
        fields.put("store_host", String.valueOf(message.getStoreHost()));
        fields.put("reconsume_times", message.getReconsumeTimes());
        fields.put("prepared_transaction_offset", message.getPreparedTransactionOffset());
        fields.put("body_crc", message.getBodyCRC());
        fields.put("tag", message.getTags());
        fields.put("keys", message.getKeys());
        fields.put("properties", new TreeMap<>(message.getProperties()));
        fields.put("body", Base64.getEncoder().encodeToString(message.getBody() == null ? new byte[0] : message.getBody()));
        return fields;
    }
}
