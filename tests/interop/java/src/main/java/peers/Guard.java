package peers;

import java.util.Arrays;

/** Runs another main class and stops the JVM cleanly when stdin closes: no server outlives the test that started it. */
public final class Guard {
    private Guard() {
    }

    public static void main(String[] args) throws Exception {
        Thread watch = new Thread(Guard::stopWhenStdinCloses, "guard");
        watch.setDaemon(true);
        watch.start();
        String[] rest = Arrays.copyOfRange(args, 1, args.length);
        Class.forName(args[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
    }

    private static void stopWhenStdinCloses() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (java.io.IOException gone) {
            // The other end is gone, which is what this thread waits for.
        }
        System.exit(0);
    }
}
