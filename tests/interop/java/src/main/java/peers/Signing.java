package peers;

import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** RocketMQ's own signing of requests, for clients that are given an access key. */
final class Signing {
    private Signing() {
    }

    /** The hook that signs with the arguments' access_key and secret_key, null where there are none. */
    static RPCHook hook(JSONObject arguments) {
        if (!arguments.containsKey("access_key")) {
            return null;
        }
        return new AclClientRPCHook(
            new SessionCredentials(arguments.getString("access_key"), arguments.getString("secret_key")));
    }
}
