package peers;

import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** RocketMQ's own mqadmin inside the peer: the same commands, without a JVM start for each. */
final class Admin {
    private Admin() {
    }

    static void register(Map<String, Peer.Action> actions) {
        actions.put("mqadmin", Admin::run);
    }

    private static synchronized Object run(JSONObject arguments) {
        PrintStream before = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            MQAdminStartup.main(arguments.getJSONArray("args").toArray(new String[0]));
        } finally {
            System.setOut(before);
            System.clearProperty(MixAll.NAMESRV_ADDR_PROPERTY);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }
}
