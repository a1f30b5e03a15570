// What the Java library says of the log beside this file and of a fixed sequence of
// values. reference_test.go holds this package against it, byte for byte.
//
//	javac -cp hdrhistogram.jar Reference.java
//	java -cp hdrhistogram.jar:. Reference
//
// The files were written by HdrHistogram 2.1.11.

import java.io.FileOutputStream;
import java.io.PrintStream;
import org.HdrHistogram.EncodableHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogReader;

public class Reference {
    static final long HIGHEST = 3600L * 1000 * 1000 * 1000; // ns
    static final double[] PERCENTILES = {
        0, 1, 5, 10, 25, 33.3, 50, 66.6, 75, 80, 90, 91, 95, 97.5, 99, 99.5, 99.9, 99.95, 99.99, 99.999, 100};

    public static void main(String[] args) throws Exception {
        Histogram log = new Histogram(1, HIGHEST, 3);
        HistogramLogReader reader = new HistogramLogReader("jHiccup-2.0.7S.logV2.hlog");
        for (EncodableHistogram h; (h = reader.nextIntervalHistogram()) != null; ) {
            log.add((Histogram) h);
        }
        write("jHiccup", log);

        // The multiplicative generator of Park and Miller, spread over the magnitudes.
        Histogram sequence = new Histogram(1, HIGHEST, 3);
        long x = 1;
        for (int i = 0; i < 10000; i++) {
            x = x * 48271 % 2147483647L;
            sequence.recordValue((x << 10) >> (x % 31));
        }
        write("sequence", sequence);
    }

    static void write(String name, Histogram h) throws Exception {
        try (PrintStream out = new PrintStream(new FileOutputStream(name + ".hgrm"))) {
            h.outputPercentileDistribution(out, 5, 1e6); // ms
        }
        try (PrintStream out = new PrintStream(new FileOutputStream(name + ".percentiles.csv"))) {
            for (double p : PERCENTILES) {
                out.println(p + "," + h.getValueAtPercentile(p));
            }
        }
    }
}
