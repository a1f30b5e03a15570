package threads

import (
	"slices"
	"strings"
	"testing"

	"chokepoint/internal/evidence/stacks"
)

const (
	request    = "org.apache.tomcat.util.net.SocketProcessorBase.run"
	poolThread = "org.apache.tomcat.util.threads.TaskThread$WrappingRunnable.run"
	runWorker  = "java.util.concurrent.ThreadPoolExecutor.runWorker"
	park       = "jdk.internal.misc.Unsafe.park"
	socketRead = "java.net.Socket$SocketInputStream.read"
	handler    = "com.example.Orders.fetch"
)

// stack makes a thread of functions, the innermost first.
func stack(state string, functions ...string) stacks.Stack {
	s := stacks.Stack{State: state, Count: 1}
	for _, f := range functions {
		s.Frames = append(s.Frames, stacks.Frame{Func: f})
	}
	return s
}

// Frames that the recorded dumps do not have.
func TestLocate(t *testing.T) {
	for _, tt := range []struct {
		name        string
		s           stacks.Stack
		where, wait string
		worker      bool
		frame       string
	}{
		{"java.net.http", stack("WAITING", park, "java.util.concurrent.CompletableFuture.get", "jdk.internal.net.http.HttpClientImpl.send", handler, request),
			stacks.UpstreamRead, stacks.WaitHTTP, true, "jdk.internal.net.http.HttpClientImpl.send"},
		{"OkHttp", stack("RUNNABLE", socketRead, "okio.InputStreamSource.read", "okhttp3.internal.connection.RealCall.execute", handler, request),
			stacks.UpstreamRead, stacks.WaitHTTP, true, "okio.InputStreamSource.read"},
		{"a socket, before Java 13", stack("RUNNABLE", "java.net.SocketInputStream.socketRead0", "java.net.SocketInputStream.read", handler, request),
			stacks.UpstreamRead, stacks.WaitRead, true, handler},
		{"a TLS handshake of a client", stack("RUNNABLE", socketRead, "sun.security.ssl.SSLSocketImpl.startHandshake", "org.apache.http.impl.execchain.MainClientExec.execute", handler, request),
			stacks.UpstreamConnect, stacks.WaitConnect, true, "org.apache.http.impl.execchain.MainClientExec.execute"},
		{"a connect", stack("RUNNABLE", "sun.nio.ch.Net.poll", "sun.nio.ch.NioSocketImpl.connect", "java.net.Socket.connect", handler, request),
			stacks.UpstreamConnect, stacks.WaitConnect, true, handler},
		{"a name", stack("RUNNABLE", "java.net.Inet6AddressImpl.lookupAllHostAddr", "java.net.InetAddress.getAllByName", "org.apache.http.impl.execchain.MainClientExec.execute", handler, request),
			stacks.UpstreamConnect, stacks.WaitConnect, true, "java.net.Inet6AddressImpl.lookupAllHostAddr"},
		{"a write", stack("RUNNABLE", "sun.nio.ch.NioSocketImpl.implWrite", "java.net.Socket$SocketOutputStream.write", "org.apache.http.impl.execchain.MainClientExec.execute", handler, request),
			stacks.Other, stacks.WaitWrite, true, "org.apache.http.impl.execchain.MainClientExec.execute"},
		{"MySQL", stack("RUNNABLE", socketRead, "com.mysql.cj.protocol.ReadAheadInputStream.fill", handler, request),
			stacks.Database, stacks.WaitDatabase, true, "com.mysql.cj.protocol.ReadAheadInputStream.fill"},
		{"a monitor within a driver", stack("BLOCKED", "com.mysql.cj.jdbc.ConnectionImpl.commit", handler, request),
			stacks.Database, stacks.WaitLock, true, "com.mysql.cj.jdbc.ConnectionImpl.commit"},
		{"a semaphore within a driver", stack("WAITING", park, "java.util.concurrent.Semaphore.acquire", "org.h2.engine.Session.lock", handler, request),
			stacks.Database, stacks.WaitSemaphore, true, "org.h2.engine.Session.lock"},
		{"Tomcat reads a body", stack("RUNNABLE", "sun.nio.ch.SocketChannelImpl.read", "org.apache.tomcat.util.net.NioChannel.read", handler, request),
			stacks.Running, stacks.WaitRead, true, "org.apache.tomcat.util.net.NioChannel.read"},
		{"a handler that computes", stack("RUNNABLE", handler, request), stacks.Running, stacks.WaitNothing, true, handler},
		{"a worker on a virtual thread", stack("", socketRead, "org.apache.http.impl.client.CloseableHttpClient.execute", handler, request, "java.lang.VirtualThread.run"),
			stacks.UpstreamRead, stacks.WaitHTTP, true, "org.apache.http.impl.client.CloseableHttpClient.execute"},
		{"idle, no TaskQueue", stack("WAITING", park, "java.util.concurrent.ScheduledThreadPoolExecutor$DelayedWorkQueue.take", "java.util.concurrent.ThreadPoolExecutor.getTask", runWorker, poolThread),
			stacks.Idle, stacks.WaitIdle, false, poolThread},
		{"a pool's thread in a socket is no worker", stack("RUNNABLE", socketRead, handler, runWorker), stacks.Other, stacks.WaitRead, false, handler},
		{"a pool's thread at a database", stack("RUNNABLE", socketRead, "org.postgresql.core.PGStream.receiveChar", handler, runWorker),
			stacks.Database, stacks.WaitDatabase, false, "org.postgresql.core.PGStream.receiveChar"},
		{"ForkJoin, idle", stack("WAITING", park, "java.util.concurrent.ForkJoinPool.awaitWork", "java.util.concurrent.ForkJoinPool.runWorker", "java.util.concurrent.ForkJoinWorkerThread.run"),
			stacks.Idle, stacks.WaitIdle, false, "java.util.concurrent.ForkJoinWorkerThread.run"},
		{"a lock", stack("WAITING", park, "java.util.concurrent.locks.ReentrantLock.lock", handler, runWorker), stacks.Other, stacks.WaitLock, false, handler},
		{"holding a lock's code, running", stack("RUNNABLE", "java.util.concurrent.locks.ReentrantLock.unlock", handler, runWorker), stacks.Other, stacks.WaitNothing, false, handler},
		{"sleeps", stack("TIMED_WAITING", "java.lang.Thread.sleep", handler, runWorker), stacks.Other, stacks.WaitTimer, false, handler},
		{"a future", stack("WAITING", park, "java.util.concurrent.FutureTask.get", handler), stacks.Other, stacks.WaitCondition, false, handler},
		{"the reader of the JDK's HTTP client", stack("RUNNABLE", "sun.nio.ch.EPoll.wait", "sun.nio.ch.SelectorImpl.lockAndDoSelect", "sun.nio.ch.SelectorImpl.select", "jdk.internal.net.http.HttpClientImpl$SelectorManager.run"),
			stacks.Other, stacks.WaitSelector, false, "jdk.internal.net.http.HttpClientImpl$SelectorManager.run"},
		{"Tomcat's poller", stack("RUNNABLE", "sun.nio.ch.EPoll.wait", "sun.nio.ch.SelectorImpl.select", "org.apache.tomcat.util.net.NioEndpoint$Poller.run", "java.lang.Thread.run"),
			stacks.Other, stacks.WaitSelector, false, "org.apache.tomcat.util.net.NioEndpoint$Poller.run"},
		{"Netty's loop", stack("RUNNABLE", "io.netty.channel.epoll.Native.epollWait0", "io.netty.channel.epoll.EpollEventLoop.run"),
			stacks.Other, stacks.WaitSelector, false, "io.netty.channel.epoll.Native.epollWait0"},
		{"Tomcat's acceptor", stack("RUNNABLE", "sun.nio.ch.Net.accept", "sun.nio.ch.ServerSocketChannelImpl.accept", "org.apache.tomcat.util.net.Acceptor.run", "java.lang.Thread.run"),
			stacks.Other, stacks.WaitAccept, false, "org.apache.tomcat.util.net.Acceptor.run"},
		{"no frame", stack("RUNNABLE"), stacks.Other, stacks.WaitNothing, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Rules().Locate(tt.s)
			if got.Where != tt.where || got.Wait != tt.wait || got.Worker != tt.worker || got.Frame.Func != tt.frame {
				t.Errorf("at %s for %s, worker %v, in %s", got.Where, got.Wait, got.Worker, got.Frame.Func)
			}
		})
	}
}

// Every alternative of every rule decides for the stack of its own frames: none
// is hidden by a rule before it. Some frames of rules lie within others': a pool of
// the JDK runs under several names.
func TestEveryAlternativeDecides(t *testing.T) {
	for i, r := range rules.Places {
		if !slices.Contains(stacks.Wheres(), r.Where) {
			t.Errorf("rule %d: where is %q", i, r.Where)
		}
		for p, alternatives := range r.Frames {
			for a := range alternatives {
				var functions []string // the innermost first
				for q, other := range r.Frames {
					function := other[0]
					if q == p {
						function = other[a]
					}
					if prefix, ok := strings.CutSuffix(function, "*"); ok {
						function = prefix + "x"
					}
					functions = append([]string{function}, functions...)
				}
				if got := Rules().Locate(stack("WAITING", functions...)); got.Where != r.Where || got.Worker != r.Worker {
					t.Errorf("rule %d: %q is at %s, worker %v", i, functions, got.Where, got.Worker)
				}
			}
		}
	}
	for _, r := range rules.Waits {
		if !slices.Contains(stacks.Waits(), r.Wait) {
			t.Errorf("%q is no word of a wait", r.Wait)
		}
	}
}
