// The configuration of a single Cassandra node for tests: cassandra.yaml, its logging, and Java's options.

import { join } from 'node:path'

export interface CassandraPlaces {
  readonly folder: string
  /** For clients, and for other nodes, of which there are none. */
  readonly port: number
  readonly storagePort: number
}

export interface CassandraDurability {
  /**
   * Answers wait for the disk. Without this, as by default, writes of the last tenth of a second before a kill may be lost on a single node, because its
   * commit log is replayed up to the last sync mark. A cluster has replicas for that.
   */
  readonly syncsEach?: boolean
}

/** Small, on loopback, without authentication. */
export function cassandraYaml({ folder, port, storagePort }: CassandraPlaces, { syncsEach = false }: CassandraDurability = {}): string {
  const data = (name: string): string => join(folder, name)
  return `cluster_name: tests
num_tokens: 1
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:${storagePort}"
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
native_transport_port: ${port}
storage_port: ${storagePort}
start_native_transport: true
endpoint_snitch: SimpleSnitch
data_file_directories: [ ${data('data')} ]
commitlog_directory: ${data('commitlog')}
hints_directory: ${data('hints')}
saved_caches_directory: ${data('saved_caches')}
cdc_raw_directory: ${data('cdc_raw')}
${syncsEach ? 'commitlog_sync: group\ncommitlog_sync_group_window: 10ms' : 'commitlog_sync: periodic\ncommitlog_sync_period: 10s'}
commitlog_segment_size: 16MiB
disk_failure_policy: stop_paranoid
auto_snapshot: false
authenticator: AllowAllAuthenticator
authorizer: AllowAllAuthorizer
concurrent_reads: 8
concurrent_writes: ${syncsEach ? 64 : 8}
memtable_allocation_type: offheap_objects
memtable_heap_space: 128MiB
memtable_offheap_space: 128MiB
file_cache_size: 64MiB
`
}

/** Logs to standard output, where the ready message is detected. */
export const logbackXml = `<configuration>
<appender name="S" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%-5level %logger{0} %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="S"/></root>
</configuration>
`

/** The internals that Cassandra 5 accesses (its conf/jvm17-server.options). */
const exported = [
  'java.base/jdk.internal.misc',
  'java.management.rmi/com.sun.jmx.remote.internal.rmi',
  'java.rmi/sun.rmi.registry',
  'java.rmi/sun.rmi.server',
  'java.rmi/sun.rmi.transport.tcp',
  'java.sql/java.sql',
  'java.base/jdk.internal.ref',
  'java.base/java.lang.ref',
  'java.base/sun.nio.ch',
  'jdk.unsupported/sun.misc',
  'jdk.attach/sun.tools.attach',
  'jdk.compiler/com.sun.tools.javac.file',
]
const opened = `java.lang java.lang.module java.lang.reflect java.math java.net java.nio java.io java.util java.util.concurrent
  java.util.concurrent.atomic sun.nio.ch jdk.internal.loader jdk.internal.ref jdk.internal.reflect jdk.internal.math jdk.internal.module
  jdk.internal.util.jar`
  .split(/\s+/)
  .map(name => `java.base/${name}`)
const openedBeside = [
  'java.rmi/sun.rmi.transport.tcp',
  'jdk.compiler/com.sun.tools.javac',
  'jdk.management/com.sun.management.internal',
  'jdk.management.jfr/jdk.management.jfr',
]

/** @param agent the library that measures objects, which is required */
export function javaFlags(folder: string, agent: string): string[] {
  const conf = join(folder, 'conf')
  const properties = {
    'jdk.attach.allowAttachSelf': 'true',
    'io.netty.tryReflectionSetAccessible': 'true',
    'java.io.tmpdir': join(folder, 'tmp'),
    'jna.tmpdir': join(folder, 'tmp'),
    'chronicle.announcer.disable': 'true',
    'cassandra.config': `file://${join(conf, 'cassandra.yaml')}`,
    'cassandra.storagedir': folder,
    'logback.configurationFile': join(conf, 'logback.xml'),
    // A single node need not wait for others.
    'cassandra.ring_delay_ms': '100',
    'cassandra.skip_wait_for_gossip_to_settle': '0',
    'cassandra.superuser_setup_delay_ms': '0',
    'cassandra-foreground': 'yes',
  }
  return [
    '-Xms768m',
    '-Xmx1g',
    '-Xss512k',
    '-XX:MaxDirectMemorySize=256m',
    '-XX:+UseSerialGC',
    '-XX:TieredStopAtLevel=1',
    '-XX:+ExitOnOutOfMemoryError',
    ...exported.map(name => `--add-exports=${name}=ALL-UNNAMED`),
    ...[...opened, ...openedBeside].map(name => `--add-opens=${name}=ALL-UNNAMED`),
    `-javaagent:${agent}`,
    ...Object.entries(properties).map(([name, value]) => `-D${name}=${value}`),
  ]
}
