package peers;

import com.alibaba.fastjson.JSONObject;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;
import org.apache.rocketmq.tools.command.offset.GetConsumerStatusCommand;

/** RocketMQ's own mqadmin inside the peer: the same commands, without a JVM start for each. */
final class Admin {
    private Admin() {
    }

    static void register(Map<String, Peer.Action> actions) {
        actions.put("mqadmin", Admin::run);
        actions.put("admin.consume_time_span", Admin::consumeTimeSpan);
        actions.put("admin.resume_check", Admin::resumeCheck);
        MQAdminStartup.initCommand(new GetConsumerStatusCommand()); // in its jar, and not on its list
    }

    /** What no mqadmin command asks, but mqadmin's library and the dashboard do. */
    private static Object consumeTimeSpan(JSONObject arguments) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setInstanceName(Long.toString(System.nanoTime()));
        admin.setNamesrvAddr(arguments.getString("name_servers"));
        admin.start();
        try {
            return admin.queryConsumeTimeSpan(arguments.getString("topic"), arguments.getString("group")).size();
        } finally {
            Shutdowns.quickly(admin::shutdown);
        }
    }

    /** Take a message up again whose transaction was given up; known by the offset id of its record. */
    private static Object resumeCheck(JSONObject arguments) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt();
        admin.setInstanceName(Long.toString(System.nanoTime()));
        admin.setNamesrvAddr(arguments.getString("name_servers"));
        admin.start();
        try {
            return admin.resumeCheckHalfMessage(arguments.getString("topic"), arguments.getString("message_id"));
        } finally {
            Shutdowns.quickly(admin::shutdown);
        }
    }

    private static synchronized Object run(JSONObject arguments) {
        PrintStream before = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            Shutdowns.quickly(() -> MQAdminStartup.main(arguments.getJSONArray("args").toArray(new String[0])));
        } finally {
            System.setOut(before);
            System.clearProperty(MixAll.NAMESRV_ADDR_PROPERTY);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }
}
