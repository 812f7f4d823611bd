package peers;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * A Java client process that a test drives: one JSON command per line on stdin, one JSON answer or event per line on stdout.
 *
 * <p>Many clients live in one JVM, because starting one takes seconds. Closing stdin stops every client cleanly.
 */
public final class Peer {
    private static final PrintStream OUT = System.out;

    private Peer() {
    }

    interface Action {
        Object run(JSONObject arguments) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err);
        Map<String, Action> actions = new LinkedHashMap<>();
        Producers producers = new Producers(actions);
        Consumers consumers = new Consumers(actions);
        Admin.register(actions);
        Codec.register(actions);
        Filters.register(actions);
        Pops.register(actions);
        ExecutorService workers = Executors.newCachedThreadPool();
        emit(Map.of("event", "ready"));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JSONObject command = JSON.parseObject(line);
            workers.execute(() -> answer(actions, command));
        }
        consumers.stopAll();
        producers.stopAll();
        Pops.stop();
        System.exit(0);
    }

    private static void answer(Map<String, Action> actions, JSONObject command) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", command.get("id"));
        try {
            Action action = actions.get(command.getString("do"));
            if (action == null) {
                throw new IllegalArgumentException("no such command: " + command.getString("do"));
            }
            answer.put("result", action.run(command));
        } catch (Throwable failure) {
            answer.put("error", failure.getClass().getSimpleName() + ": " + failure.getMessage());
            failure.printStackTrace();
        }
        emit(answer);
    }

    static void emit(Map<String, Object> line) {
        String text = JSON.toJSONString(line);
        synchronized (OUT) {
            OUT.println(text);
            OUT.flush();
        }
    }
}
