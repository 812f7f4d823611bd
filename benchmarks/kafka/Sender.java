import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends numbered messages of 128 bytes to Kafka at a rate and prints the time of each one's acknowledgement, in
 * microseconds since 1970: the counterpart of benchmarks/spark_latency.py.
 *
 * <p>Arguments: address, topic, messages a second, count.
 */
public class Sender {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0]);
        String topic = arguments[1];
        long rate = Long.parseLong(arguments[2]);
        int count = Integer.parseInt(arguments[3]);
        AtomicLongArray acknowledged = new AtomicLongArray(count);
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            long began = System.nanoTime();
            int number = 0;
            while (number < count) {
                if (number >= (System.nanoTime() - began) / 1e9 * rate) {
                    Thread.sleep(1);
                    continue;
                }
                int sent = number++;
                byte[] body = String.format("%0128d", sent).getBytes();
                producer.send(new ProducerRecord<>(topic, body), (metadata, error) -> {
                    if (error == null) {
                        acknowledged.set(sent, ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()));
                    }
                });
            }
        }
        StringBuilder lines = new StringBuilder();
        for (int number = 0; number < count; number++) {
            lines.append(acknowledged.get(number)).append('\n');
        }
        System.out.print(lines);
    }
}
