package peers;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;

/** What Java's own SQL92 filter says about expressions and encoded properties. */
final class Filters {
    private Filters() {
    }

    static void register(Map<String, Peer.Action> actions) {
        actions.put("filter.evaluate", Filters::evaluate);
    }

    private static Object evaluate(JSONObject arguments) {
        List<String> verdicts = new ArrayList<>();
        for (Object pair : arguments.getJSONArray("pairs")) {
            verdicts.add(verdict(((JSONArray) pair).getString(0), ((JSONArray) pair).getString(1)));
        }
        return verdicts;
    }

    private static String verdict(String text, String properties) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (Throwable refused) {
            return "invalid";
        }
        try {
            MessageEvaluationContext message = new MessageEvaluationContext(MessageDecoder.string2messageProperties(properties));
            return String.valueOf(expression.evaluate(message));
        } catch (Throwable incomparable) {
            return "incomparable";
        }
    }
}
