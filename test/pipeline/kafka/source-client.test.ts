// The client of a source: chosen by an option, loaded alone, and let in as the connection says.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { describeWithKafka } from '../../servers/kafka.ts'
import { clients, connectionTo, openTools, sourcesOf, textsOf } from './source-parts.ts'

const module = new URL('../../../pipeline/kafka/source.ts', import.meta.url).href
/** Opens a source of the client on a port where nobody listens, and prints which of the clients' files were loaded. */
const program = (client: string): string => `
  import { registerHooks } from 'node:module'
  const loaded = []
  registerHooks({
    load(url, context, next) {
      const found = /node_modules\\/(kafkajs|@platformatic\\/kafka)\\//.exec(url)
      if (found !== null) loaded.push(found[1])
      return next(url, context)
    },
  })
  const { openKafkaSource } = await import(${JSON.stringify(module)})
  const logger = { child: () => logger, debug() {}, info() {}, warn() {}, error() {} }
  const source = openKafkaSource({
    client: '${client}',
    connection: { brokers: ['127.0.0.1:9'], clientId: 'tests', tls: undefined, sasl: undefined, connectTimeoutMs: 500, requestTimeoutMs: 500 },
    topic: 't', group: 'g', runBytesMax: 1, runMessagesMax: 1, logger,
    consumer: { fetchBytes: 1, partitionBytes: 1, queueBytes: 1, waitMs: 1, sessionMs: 3000, rebalanceMs: 3000, heartbeatMs: 100, metadataMs: 100 },
  })
  const failure = await source.bounds(0).catch(error => error)
  await source.close()
  console.log(JSON.stringify([failure.name, [...new Set(loaded)]]))
`

for (const [client, packageName] of [
  ['kafkajs', 'kafkajs'],
  ['platformatic', '@platformatic/kafka'],
] as const) {
  test(`a source on ${client} loads no other client`, async () => {
    const { stdout } = await promisify(execFile)(process.execPath, ['--no-warnings', '--input-type=module', '-e', program(client)])
    expect(JSON.parse(stdout)).toEqual(['LogUnavailableError', [packageName]])
  })
}

describeWithKafka('a secured broker', kafka => {
  for (const client of clients) {
    for (const mechanism of ['plain', 'scram-sha-256', 'scram-sha-512'] as const) {
      test(`lets in the source on ${client} by TLS and ${mechanism}`, async () => {
        const topic = await kafka.createTopic()
        const tools = await openTools(kafka.brokers)
        await tools.appendTexts(topic, ['a'])
        const { saslTls, certificate, username, password } = kafka.secured
        const sources = sourcesOf(saslTls, topic, client)
        const connection = { ...connectionTo(saslTls), tls: { ca: certificate }, sasl: { mechanism, username, password } }
        for await (const run of sources.open({ connection }).runs(new AbortController().signal)) {
          expect(textsOf(run)).toEqual(['a'])
          break
        }
        await sources.close()
        await tools.close()
      })
    }
  }
})
