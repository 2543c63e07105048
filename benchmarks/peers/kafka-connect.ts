// Kafka Connect with the JDBC sink of Debezium, standalone, in three settings: batches of INSERT, INSERT … SELECT unnest(…), and batches of upserts by the
// position of the message, so that a repeated message replaces its row.

import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { cachePath, makeOnce } from '../../test/servers/install/cache.ts'
import { missingJava, runMaven } from '../../test/servers/install/java.ts'
import { installKafka } from '../../test/servers/install/kafka.ts'
import { type Peer, plainTable } from './peer.ts'

const version = '3.5.0.Final'
const plugin = cachePath('debezium-jdbc', version)
const settings = join(import.meta.dirname, 'settings')
const files = ['connect-worker.properties', 'jdbc-sink.properties'] as const
/** Those of connect-standalone.sh. */
const memory = ['-Xms256M', '-Xmx2G', '-server', '-XX:+UseG1GC', '-XX:MaxGCPauseMillis=20', '-XX:InitiatingHeapOccupancyPercent=35']
const logging = '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn'
const main = 'org.apache.kafka.connect.cli.ConnectStandalone'

async function install(): Promise<void> {
  const missing = missingJava(!existsSync(plugin))
  if (missing !== undefined) throw new Error(missing)
  const connector = { group: 'io.debezium', name: 'debezium-connector-jdbc', version }
  // Kafka's own Jackson has modules that do not fit to another version of it.
  const copy = [
    'dependency:copy-dependencies',
    '-DincludeScope=runtime',
    '-DexcludeGroupIds=com.fasterxml.jackson.core',
    '-DoutputDirectory=lib',
  ]
  await makeOnce(plugin, draft => runMaven(draft, [connector], copy))
}

function connect(peer: Pick<Peer, 'name' | 'title' | 'promise' | 'schema'>, own: Readonly<Record<string, string>>): Peer {
  return {
    ...plainTable,
    ...peer,
    title: `Kafka Connect 4.3.1, Debezium JDBC 3.5.0, ${peer.title}`,
    install,
    async command({ broker, topic, group, url, folder }) {
      const { host, pathname } = new URL(url)
      const variables = { BROKER: broker, TOPIC: topic, JDBC: `jdbc:postgresql://${host}${pathname}`, PLUGINS: plugin }
      const fill = async (name: string, lines: Readonly<Record<string, string>>): Promise<void> => {
        let text = await readFile(join(settings, name), 'utf8')
        for (const [variable, value] of Object.entries(variables)) text = text.replaceAll(`\${${variable}}`, value)
        for (const [key, value] of Object.entries(lines)) text += `${key}=${value}\n`
        await writeFile(join(folder, name), text)
      }
      await fill(files[0], {})
      await fill(files[1], { name: group, ...own })
      const { classPath } = await installKafka()
      return { words: ['java', ...memory, logging, '-cp', classPath, main, ...files] }
    },
  }
}

const { schema } = plainTable
const promise = 'at least once'
const position = ['__connect_topic', '__connect_partition', '__connect_offset']
const keyed = `ALTER TABLE readings ADD ${position[0]} text, ADD ${position[1]} int, ADD ${position[2]} bigint, ADD PRIMARY KEY (${position.join()})`

export const kafkaConnect: readonly Peer[] = [
  connect({ name: 'jdbc-insert', title: 'INSERT', promise, schema }, {}),
  connect({ name: 'jdbc-unnest', title: 'unnest', promise, schema }, { 'dialect.postgres.unnest.insert.enabled': 'true' }),
  // With unnest this version fails on such keys.
  connect(
    { name: 'jdbc-upsert', title: 'upsert', promise: `${promise}, and a repeated message replaces its row`, schema: [...schema, keyed] },
    { 'insert.mode': 'upsert', 'primary.key.mode': 'kafka' },
  ),
]
