package peers;

import java.util.Arrays;

/**
 * Shutdowns of Java clients without their wait: NettyEventExecutor polls its queue for three seconds, and a shutdown joins it.
 */
final class Shutdowns {
    private static final long PAUSE_MS = 20;

    private Shutdowns() {
    }

    /** Run something that shuts clients down, and interrupt the polls for which it waits. */
    static void quickly(Runnable work) {
        Thread caller = Thread.currentThread();
        Thread interrupter = new Thread(() -> interruptWhile(caller), "interrupter");
        interrupter.setDaemon(true);
        interrupter.start();
        try {
            work.run();
        } finally {
            interrupter.interrupt();
        }
    }

    private static void interruptWhile(Thread caller) {
        try {
            while (true) {
                Thread.sleep(PAUSE_MS);
                if (isJoining(caller)) {
                    Thread.getAllStackTraces().keySet().stream()
                        .filter(thread -> thread.getName().startsWith("NettyEventExecutor"))
                        .forEach(Thread::interrupt);
                }
            }
        } catch (InterruptedException ended) {
            return;
        }
    }

    private static boolean isJoining(Thread caller) {
        return caller.getState() == Thread.State.TIMED_WAITING && Arrays.stream(caller.getStackTrace()).anyMatch(
            frame -> frame.getClassName().endsWith(".ServiceThread") && frame.getMethodName().equals("shutdown"));
    }
}
