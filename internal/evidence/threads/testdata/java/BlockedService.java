import com.fasterxml.jackson.databind.ObjectMapper;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;

/**
 * A service with 200 blocked threads, from which the fixtures of this folder are recorded; see
 * record.sh. It serves and calls nothing but 127.0.0.1, says "ready" once every thread stands where
 * it should, writes the dump that Spring Boot's Actuator would give (ThreadMXBean.dumpAllThreads
 * through Jackson) and ends when its standard input does.
 */
public class BlockedService {
  static final int WORKERS = 200;
  static final InetAddress LOOPBACK = InetAddress.getLoopbackAddress();
  static final List<Socket> open = new ArrayList<>();

  interface Call {
    void run() throws Exception;
  }

  public static void main(String[] args) throws Exception {
    String mode = args[0];
    ServerSocket silent = new ServerSocket(0, 1000, LOOPBACK);
    Thread acceptor = new Thread(() -> acceptAndSayNothing(silent), "silent-upstream");
    acceptor.setDaemon(true);
    acceptor.start();
    int upstream = silent.getLocalPort();

    switch (mode) {
      case "jdk" -> jdk(upstream);
      case "httpclient5" -> tomcat(httpClient5(upstream));
      case "httpclient4" -> tomcat(httpClient4(upstream));
      case "urlconnection" -> tomcat(() -> new java.net.URL("http://127.0.0.1:" + upstream + "/").openStream());
      case "hikari" -> tomcat(query(args[2]));
      case "bulkhead" -> tomcat(bulkhead(httpClient5(upstream)));
      case "idle" -> tomcat(null);
      default -> throw new IllegalArgumentException(mode);
    }
    Thread.sleep(2000);
    var dump = ManagementFactory.getThreadMXBean().dumpAllThreads(true, true);
    new ObjectMapper().writeValue(new File(args[1]), java.util.Map.of("threads", dump));
    System.out.println("ready");
    while (System.in.read() >= 0) {}
    Runtime.getRuntime().halt(0);
  }

  static void acceptAndSayNothing(ServerSocket server) {
    try {
      while (true) {
        open.add(server.accept());
      }
    } catch (IOException e) {
      throw new RuntimeException(e);
    }
  }

  /** Threads that need no library but the JDK. */
  static void jdk(int upstream) throws Exception {
    ExecutorService readers = Executors.newFixedThreadPool(WORKERS);
    for (int i = 0; i < WORKERS; i++) {
      readers.submit(() -> new Socket(LOOPBACK, upstream).getInputStream().read());
    }
    Semaphore permits = new Semaphore(0, true);
    ExecutorService waiters = Executors.newFixedThreadPool(20);
    for (int i = 0; i < 20; i++) {
      waiters.submit(() -> { permits.acquire(); return null; });
    }
    ReentrantLock lock = new ReentrantLock();
    lock.lock();
    Object monitor = new Object();
    new Thread(() -> { synchronized (monitor) { sleep(Long.MAX_VALUE); } }, "holder").start();
    sleep(500);
    for (int i = 0; i < 20; i++) {
      new Thread(lock::lock, "locker-" + i).start();
      new Thread(() -> { synchronized (monitor) { open.size(); } }, "blocked \"" + i + "\" #7").start();
    }
    ExecutorService idle = Executors.newFixedThreadPool(20);
    for (int i = 0; i < 20; i++) {
      idle.submit(() -> {});
    }
    Object first = new Object();
    Object second = new Object();
    new Thread(() -> lockBoth(first, second), "deadlocked-1").start();
    new Thread(() -> lockBoth(second, first), "deadlocked-2").start();
  }

  static void lockBoth(Object a, Object b) {
    synchronized (a) {
      sleep(500);
      synchronized (b) {
        sleep(1);
      }
    }
  }

  static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      throw new RuntimeException(e);
    }
  }

  static Call httpClient5(int upstream) {
    var connections = new org.apache.hc.client5.http.impl.io.PoolingHttpClientConnectionManager();
    connections.setMaxTotal(180);
    connections.setDefaultMaxPerRoute(180);
    var client = org.apache.hc.client5.http.impl.classic.HttpClients.custom().setConnectionManager(connections).build();
    return () -> client.execute(new org.apache.hc.client5.http.classic.methods.HttpGet("http://127.0.0.1:" + upstream + "/"), r -> null);
  }

  static Call httpClient4(int upstream) {
    var client = org.apache.http.impl.client.HttpClients.custom().setMaxConnTotal(180).setMaxConnPerRoute(180).build();
    return () -> client.execute(new org.apache.http.client.methods.HttpGet("http://127.0.0.1:" + upstream + "/"));
  }

  static Call bulkhead(Call call) {
    Semaphore permits = new Semaphore(20);
    return () -> {
      permits.acquire();
      call.run();
    };
  }

  static Call query(String url) {
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(url);
    config.setMaximumPoolSize(10);
    config.setConnectionTimeout(600_000);
    HikariDataSource source = new HikariDataSource(config);
    return () -> {
      try (Connection c = source.getConnection(); var s = c.createStatement()) {
        s.execute("select pg_sleep(600)");
      }
    };
  }

  /** Tomcat with 200 workers, each of which runs call; null leaves 200 idle workers. */
  static void tomcat(Call call) throws Exception {
    Path base = Files.createTempDirectory("blocked");
    base.toFile().deleteOnExit();
    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir(base.toString());
    tomcat.setHostname("127.0.0.1");
    tomcat.setPort(0);
    var connector = tomcat.getConnector();
    connector.setProperty("address", "127.0.0.1");
    connector.setProperty("maxThreads", "" + WORKERS);
    connector.setProperty("minSpareThreads", call == null ? "" + WORKERS : "10");
    Context context = tomcat.addContext("", base.toString());
    Tomcat.addServlet(context, "call", new HttpServlet() {
      @Override
      protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        try {
          call.run();
        } catch (Exception e) {
          throw new IOException(e);
        }
      }
    });
    context.addServletMappingDecoded("/", "call");
    tomcat.start();
    if (call == null) {
      return;
    }
    for (int i = 0; i < WORKERS + 30; i++) {
      Socket s = new Socket(LOOPBACK, connector.getLocalPort());
      open.add(s);
      OutputStream out = s.getOutputStream();
      out.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
      out.flush();
    }
  }
}
