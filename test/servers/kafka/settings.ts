// The settings of the tests' brokers: one node that is broker and controller, with short waits.

/** The user of the listeners with authentication. Public, on loopback. */
export const credentials = { username: 'sluice', password: 'open sesame' } as const

/** Ports on loopback: a listener for each way to connect. */
export interface BrokerPorts {
  /** Without encryption and authentication. */
  readonly plain: number
  readonly tls: number
  /** PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512, not encrypted. */
  readonly sasl: number
  readonly saslTls: number
  readonly controller: number
  /** Like `plain`, but clients get the address of `proxy`. */
  readonly proxied: number
  readonly proxy: number
}

export interface BrokerOptions {
  /** The data folder. */
  data: string
  ports: BrokerPorts
  /** Private key and certificate, as PEM. */
  identity: string
  /** Further lines of server.properties, which take precedence: `{ 'message.max.bytes': '10485760' }`. */
  settings?: Readonly<Record<string, string>>
}

/** The text of server.properties. */
export function brokerSettings({ data, ports, identity, settings = {} }: BrokerOptions): string {
  const { username, password } = credentials
  const listeners = [
    { name: 'PLAIN', protocol: 'PLAINTEXT', port: ports.plain, advertised: ports.plain },
    { name: 'TLS', protocol: 'SSL', port: ports.tls, advertised: ports.tls },
    { name: 'SASL', protocol: 'SASL_PLAINTEXT', port: ports.sasl, advertised: ports.sasl },
    { name: 'SASLTLS', protocol: 'SASL_SSL', port: ports.saslTls, advertised: ports.saslTls },
    { name: 'PROXIED', protocol: 'PLAINTEXT', port: ports.proxied, advertised: ports.proxy },
  ]
  const address = (name: string, port: number): string => `${name}://127.0.0.1:${port}`
  const scram = 'org.apache.kafka.common.security.scram.ScramLoginModule required;'
  const logins = ['sasl', 'sasltls'].flatMap(listener => [
    [`listener.name.${listener}.sasl.enabled.mechanisms`, 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512'],
    [
      `listener.name.${listener}.plain.sasl.jaas.config`,
      `org.apache.kafka.common.security.plain.PlainLoginModule required user_${username}="${password}";`,
    ],
    [`listener.name.${listener}.scram-sha-256.sasl.jaas.config`, scram],
    [`listener.name.${listener}.scram-sha-512.sasl.jaas.config`, scram],
  ])
  const all: Record<string, string> = {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@127.0.0.1:${ports.controller}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAIN',
    listeners: [...listeners.map(({ name, port }) => address(name, port)), address('CONTROLLER', ports.controller)].join(','),
    'advertised.listeners': listeners.map(({ name, advertised }) => address(name, advertised)).join(','),
    'listener.security.protocol.map': [...listeners.map(({ name, protocol }) => `${name}:${protocol}`), 'CONTROLLER:PLAINTEXT'].join(','),
    'log.dirs': data,
    'ssl.keystore.type': 'PEM',
    'ssl.keystore.location': identity,
    ...Object.fromEntries(logins),

    // A killed broker may rejoin only after its session has ended: with Kafka's 9 s a restart takes 12 s.
    'broker.session.timeout.ms': '2000',
    'broker.heartbeat.interval.ms': '500',

    // Topics are created explicitly, so that a wrong name is noticed.
    'auto.create.topics.enable': 'false',
    'num.network.threads': '1',
    'num.io.threads': '4',
    'offsets.topic.num.partitions': '1',
    'offsets.topic.replication.factor': '1',
    'transaction.state.log.num.partitions': '1',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'share.coordinator.state.topic.num.partitions': '1',
    'share.coordinator.state.topic.replication.factor': '1',
    'share.coordinator.state.topic.min.isr': '1',
    'group.initial.rebalance.delay.ms': '0',
    'group.min.session.timeout.ms': '100',

    // Nothing is deleted by age, because tests write messages with any time; deleted data is removed immediately.
    'log.retention.ms': '-1',
    'log.segment.delete.delay.ms': '0',
    // Compaction within a second if a topic requests it, in 4 MB of memory instead of 128.
    'log.cleaner.backoff.ms': '500',
    'log.cleaner.dedupe.buffer.size': '4194304',
    ...settings,
  }
  return Object.entries(all)
    .map(([key, value]) => `${key}=${value}\n`)
    .join('')
}
