package threads

import "chokepoint/internal/evidence/stacks"

type (
	pattern = stacks.Pattern
	place   = stacks.PlaceRule
	wait    = stacks.WaitRule
)

// Rules are the rules for the stacks of Java programs.
func Rules() *stacks.Rules { return &rules }

// Frames that the rules look for.
var (
	// tomcat runs a request, on a thread of its pool or on a virtual one. Its other
	// pool, Catalina-utility, does not.
	tomcat     = pattern{"org.apache.tomcat.util.net.SocketProcessorBase.run"}
	tomcatPool = pattern{"org.apache.tomcat.util.threads.TaskThread$WrappingRunnable.run"}
	tomcatIdle = pattern{"org.apache.tomcat.util.threads.TaskQueue.*"}

	// executor runs tasks of any kind: in a service without Tomcat, requests.
	executor = pattern{
		"java.util.concurrent.ThreadPoolExecutor.runWorker", "java.util.concurrent.ForkJoinWorkerThread.run",
		"java.lang.VirtualThread.run", "sun.net.httpserver.ServerImpl$Exchange.run",
	}
	executorIdle = pattern{
		"java.util.concurrent.ThreadPoolExecutor.getTask", "java.util.concurrent.ForkJoinPool.awaitWork",
	}

	// database is a pool of connections, or a driver.
	database = append(pattern{
		"org.postgresql.*", "com.mysql.*", "org.mariadb.jdbc.*", "oracle.jdbc.*", "com.microsoft.sqlserver.jdbc.*", "org.h2.*",
	}, databasePool...)
	databasePool = pattern{
		"com.zaxxer.hikari.pool.HikariPool.getConnection", "org.apache.tomcat.jdbc.pool.ConnectionPool.borrowConnection",
		"org.apache.commons.dbcp2.PoolingDataSource.getConnection", "org.apache.tomcat.dbcp.dbcp2.PoolingDataSource.getConnection",
		"com.mchange.v2.resourcepool.BasicResourcePool.*",
	}

	// client is an HTTP client in a call that waits for its answer.
	client = pattern{
		"org.apache.hc.client5.*", "org.apache.http.impl.client.*", "org.apache.http.impl.execchain.*",
		"sun.net.www.protocol.http.*", "okhttp3.*",
	}
	// clientPool is a wait for a connection that the client's own limit allows.
	clientPool = pattern{
		"org.apache.http.pool.AbstractConnPool.getPoolEntryBlocking", "org.apache.hc.core5.pool.*",
		"org.apache.hc.client5.http.impl.classic.InternalExecRuntime.acquireEndpoint",
	}
	// future is how the JDK's own client waits, while its selector thread reads.
	jdkClient = pattern{"jdk.internal.net.http.HttpClientImpl.send"}
	future    = pattern{"java.util.concurrent.CompletableFuture.get"}

	semaphore = pattern{"java.util.concurrent.Semaphore.acquire*", "java.util.concurrent.Semaphore.tryAcquire"}

	connect = pattern{
		"java.net.Socket.connect", "java.net.SocksSocketImpl.connect", "sun.nio.ch.NioSocketImpl.connect", "sun.nio.ch.SocketChannelImpl.connect",
		"java.net.InetAddress.*", "sun.security.ssl.SSLSocketImpl.startHandshake", "sun.security.ssl.SSLSocketImpl.readHandshakeRecord",
	}
	write = pattern{
		"sun.nio.ch.NioSocketImpl.write", "sun.nio.ch.NioSocketImpl.implWrite", "java.net.SocketOutputStream.*", "java.net.Socket$SocketOutputStream.*",
	}
	read = pattern{
		"java.net.Socket$SocketInputStream.*", "sun.nio.ch.NioSocketImpl.read", "sun.nio.ch.NioSocketImpl$1.read",
		"java.net.SocketInputStream.*", // before Java 13
	}
	accepting = pattern{"java.net.ServerSocket.accept", "sun.nio.ch.ServerSocketChannelImpl.accept"}
	// selecting is an event loop: Tomcat's poller, Netty, and the one thread that reads
	// all answers of the JDK's own HTTP client.
	selecting = pattern{"sun.nio.ch.SelectorImpl.*", "io.netty.channel.epoll.Native.epollWait*"}
	// channelRead is how Tomcat reads from its own clients.
	channelRead  = pattern{"sun.nio.ch.SocketChannelImpl.read"}
	channelWrite = pattern{"sun.nio.ch.SocketChannelImpl.write"}
)

// parked are the states in which a thread does not run. A read of a socket does:
// the JVM calls a thread in a system call RUNNABLE.
var parked = []string{"WAITING", "TIMED_WAITING", "BLOCKED"}

// rules are tried in this order, and the first that fits decides. A database goes
// before an HTTP client, and both before a semaphore, since drivers, clients and
// pools have semaphores of their own.
var rules = stacks.Rules{
	Places: []place{
		{Where: stacks.Idle, Worker: true, Frames: []pattern{tomcatPool, tomcatIdle}},
		{Where: stacks.Database, Worker: true, Frames: []pattern{tomcat, database}},
		// No answer is on its way to a thread that has not sent its request.
		{Where: stacks.Other, Worker: true, Frames: []pattern{tomcat, client, clientPool}},
		{Where: stacks.UpstreamConnect, Worker: true, Frames: []pattern{tomcat, client, connect}},
		{Where: stacks.Other, Worker: true, Frames: []pattern{tomcat, client, write}},
		{Where: stacks.UpstreamRead, Worker: true, Frames: []pattern{tomcat, client, read}},
		{Where: stacks.UpstreamRead, Worker: true, Frames: []pattern{tomcat, jdkClient, future}},
		{Where: stacks.PermitWait, Worker: true, Frames: []pattern{tomcat, semaphore}},
		// Tomcat reads from its clients through channels: a stream is an upstream's.
		{Where: stacks.UpstreamConnect, Worker: true, Frames: []pattern{tomcat, connect}},
		{Where: stacks.UpstreamRead, Worker: true, Frames: []pattern{tomcat, read}},
		{Where: stacks.Running, Worker: true, Frames: []pattern{tomcat}},

		// Other services: the same words, and no worker.
		{Where: stacks.Idle, Frames: []pattern{executor, executorIdle}},
		{Where: stacks.Idle, Frames: []pattern{{"java.util.concurrent.ForkJoinPool.awaitWork"}}},
		{Where: stacks.Database, Frames: []pattern{executor, database}},
		{Where: stacks.Other, Frames: []pattern{executor, client, clientPool}},
		{Where: stacks.UpstreamConnect, Frames: []pattern{executor, client, connect}},
		{Where: stacks.Other, Frames: []pattern{executor, client, write}},
		{Where: stacks.UpstreamRead, Frames: []pattern{executor, client, read}},
		{Where: stacks.UpstreamRead, Frames: []pattern{executor, jdkClient, future}},
		{Where: stacks.PermitWait, Frames: []pattern{executor, semaphore}},
	},
	Waits: []wait{
		{Wait: stacks.WaitLock, States: []string{"BLOCKED"}},
		{Wait: stacks.WaitIdle, Frames: []pattern{tomcatIdle}},
		{Wait: stacks.WaitIdle, Frames: []pattern{executorIdle}},
		{Wait: stacks.WaitConnection, Frames: []pattern{databasePool}, States: parked},
		{Wait: stacks.WaitConnection, Frames: []pattern{clientPool}, States: parked},
		{Wait: stacks.WaitSemaphore, Frames: []pattern{semaphore}},
		{Wait: stacks.WaitLock, Frames: []pattern{{
			"java.util.concurrent.locks.ReentrantLock.*", "java.util.concurrent.locks.ReentrantReadWriteLock$*", "java.util.concurrent.locks.StampedLock.*",
		}}, States: parked},
		{Wait: stacks.WaitTimer, Frames: []pattern{{"java.lang.Thread.sleep"}}},
		{Wait: stacks.WaitConnect, Frames: []pattern{connect}},
		{Wait: stacks.WaitDatabase, Frames: []pattern{database, read}},
		{Wait: stacks.WaitHTTP, Frames: []pattern{client, read}},
		{Wait: stacks.WaitHTTP, Frames: []pattern{jdkClient, future}},
		{Wait: stacks.WaitAccept, Frames: []pattern{accepting}},
		{Wait: stacks.WaitSelector, Frames: []pattern{selecting}},
		{Wait: stacks.WaitWrite, Frames: []pattern{write}},
		{Wait: stacks.WaitWrite, Frames: []pattern{channelWrite}},
		{Wait: stacks.WaitRead, Frames: []pattern{read}},
		{Wait: stacks.WaitRead, Frames: []pattern{channelRead}},
		{Wait: stacks.WaitCondition, States: []string{"WAITING", "TIMED_WAITING"}},
		{Wait: stacks.WaitNothing, States: []string{"RUNNABLE", "NEW"}},
	},
	Plumbing: pattern{
		"java.lang.*", "java.util.*", "java.io.*", "java.net.Socket*", "java.net.ServerSocket*", "java.nio.*", "java.security.*",
		"sun.nio.*", "sun.security.*", "jdk.internal.misc.*", "jdk.internal.vm.*", "jdk.internal.reflect.*", "sun.misc.*",
		"org.apache.hc.core5.concurrent.*",
	},
	Entry: pattern{"java.lang.Thread.run*", "java.lang.VirtualThread.run*"},
	Own:   append(tomcat, tomcatPool...),
}
