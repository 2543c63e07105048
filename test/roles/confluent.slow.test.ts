// The encoding `confluent` from a device to a row, in separate processes: messages framed by ingest and by others are stored, the rest are dead letters.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry'
import { afterAll, beforeAll, expect, onTestFailed, test } from 'vitest'
import type { Database } from '../../database/database.ts'
import { openServer } from '../../database/server.ts'
import { typeHook } from '../pipeline/kafka/confluent/framed-messages.ts'
import { openTools, type Tools } from '../pipeline/kafka/consumer/source-parts.ts'
import { readTopic } from '../pipeline/kafka/stored-messages.ts'
import { describeWithKafka } from '../servers/kafka.ts'
import { describeWithPostgres } from '../servers/postgres.ts'
import { missingRegistry, type OwnRegistry, startRegistry } from '../servers/registry.ts'
import { expectStatus, makeSite, publish } from '../up/operator.ts'
import { ingestWords, spawnRole, startApi, token, untilHealth, untilPrinted, whenReady } from './processes.ts'

const main = join(new URL('../..', import.meta.url).pathname, 'main.ts')

/** For roles, which retry: a silent registry is away after a second. */
const shortWait = { SVC_LOG_REGISTRY_TIMEOUT_MS: '1000' }

describeWithKafka('framed messages', kafka =>
  describeWithPostgres('from a device to a row', postgres => {
    const skipped = missingRegistry() !== undefined
    let registry: OwnRegistry
    let library: SchemaRegistry
    let database: Database
    let tools: Tools
    let topic: string
    let environment: Record<string, string>

    beforeAll(async () => {
      if (skipped) return
      registry = await startRegistry()
      library = new SchemaRegistry({ host: registry.url }, { [SchemaType.AVRO]: { typeHook: typeHook as never } })
      tools = await openTools(kafka.brokers)
      topic = await kafka.createTopic({ partitions: 1 })
      const url = await postgres.createDatabase()
      database = await openServer({ url, applicationName: 'operator', connectionsMax: 2 })
      environment = {
        SVC_LOG_BROKERS: kafka.brokers.join(','),
        SVC_LOG_TOPIC: topic,
        SVC_LOG_ENCODING: 'confluent',
        SVC_LOG_REGISTRY: registry.url,
        SVC_RELATIONAL_URL: url,
        SVC_HTTP_PORT: '0',
        SVC_INTERNAL_LISTEN: '127.0.0.1:0',
        SVC_WORKERS_COUNT: '1',
      }
    })

    afterAll(async () => {
      if (skipped) return
      await tools.close()
      await database.close()
      await registry.stop()
    })

    function writer(): ReturnType<typeof spawnRole> {
      return spawnRole([main, 'writer', 'relational'], { ...environment, ...shortWait })
    }

    async function valuesUntil(count: number): Promise<number[]> {
      for (;;) {
        const rows = await database
          .query<{ value: number }>('SELECT value FROM messages ORDER BY value')
          .catch((error: unknown): { value: number }[] => {
            // Before the writer has created its schema.
            if (!String(error).includes('does not exist')) throw error
            return []
          })
        if (rows.length >= count) return rows.map(({ value }) => value)
        await new Promise(resolve => setTimeout(resolve, 50))
      }
    }

    async function produce(...values: readonly (Buffer | null)[]): Promise<void> {
      await tools.producer.send({ topic, messages: values.map(value => ({ key: 'a-key', value, headers: { trace: 'x' } })) })
    }

    async function tool(...words: string[]): Promise<{ code: unknown; output: string }> {
      const child = spawn(process.execPath, [main, ...words], { env: { PATH: process.env['PATH'], ...environment } })
      let output = ''
      for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (output += text))
      const [code] = (await once(child, 'close')) as unknown[]
      return { code, output }
    }

    test.skipIf(skipped)('ingest waits for the registry, and acknowledges framed messages', async () => {
      const api = await startApi(await postgres.createDatabase())
      const site = await makeSite(api.url)
      registry.pause()
      const spawned = spawnRole(ingestWords, {
        ...environment,
        ...shortWait,
        SVC_CONTROL_URL: api.internalUrl,
        SVC_CONTROL_TOKEN: token,
        SVC_INTERNAL_LISTEN: '127.0.0.1:0',
      })
      await untilPrinted(spawned, /Kafka is away .*: the start waits for it/)
      expect(spawned.printed()).toContain('the schema registry at')
      expect(await readTopic(kafka.brokers, topic)).toEqual([])
      registry.resume()
      const ingest = await whenReady(spawned)
      await untilHealth(ingest, 'control-plane', 'pass')
      await expectStatus(publish(ingest.url, site, [{ n: 'count', v: 1 }], 'attic'), 202)
      // It has the id of its schema, and no longer needs the registry.
      registry.pause()
      await expectStatus(publish(ingest.url, site, [{ n: 'count', v: 2 }], 'attic'), 202)
      registry.resume()
      expect(await ingest.stop()).toBe(0)
      expect(await api.stop()).toBe(0)

      const [stored] = await readTopic(kafka.brokers, topic)
      expect(stored!.key!.toString()).toBe(site.channel)
      expect(stored!.headers).toEqual([])
      expect(await library.decode(stored!.value)).toMatchObject({
        channel: site.channel,
        subtopic: 'attic',
        publisher: site.thing,
        protocol: 'http',
        content_type: 'application/senml+json',
        payload: Buffer.from('[{"n":"count","v":1}]'),
      })
    })

    test.skipIf(skipped)('a writer stores them and those framed by others; the rest are unchanged dead letters', async () => {
      const fields = [
        { name: 'battery', type: ['null', 'double'] },
        { name: 'payload', type: 'bytes' },
        { name: 'channel', type: 'string' },
        { name: 'created', type: { type: 'long', logicalType: 'timestamp-millis' } },
      ]
      const schema = { type: 'record' as const, name: 'Reading', namespace: 'plants', fields }
      const { id } = await library.register(schema, { subject: `readings-${topic}` })
      const reading = (v: number): Promise<Buffer> =>
        library.encode(id, {
          battery: 0.5,
          channel: 'another',
          created: BigInt(Date.now()),
          payload: Buffer.from(`[{"n":"count","v":${v}}]`),
        })
      const protobuf = { type: SchemaType.PROTOBUF, schema: 'syntax = "proto3"; message Reading { string channel = 1; }' }
      const other = await library.register(protobuf as never, { subject: `messages-${topic}` })
      const bad = [
        Buffer.from('[{"n":"count","v":99}]'),
        Buffer.concat([Buffer.from([0, 0x7f, 0xff, 0xff, 0xff]), Buffer.from('unknown')]),
        await library.encode(other.id, {}),
        (await reading(98)).subarray(0, -1),
        await library.encode(id, { battery: null, channel: 'c', created: BigInt(Date.now()), payload: Buffer.from('no pack') }),
      ]
      await produce(await reading(3), bad[0]!, bad[1]!, await reading(4), bad[2]!, bad[3]!, bad[4]!, await reading(5))

      const running = writer()
      onTestFailed(() => console.error(running.printed().slice(-6000)))
      expect(await valuesUntil(5)).toEqual([1, 2, 3, 4, 5])
      expect(await database.query('SELECT count(*)::int4 AS n FROM messages WHERE channel = $1', ['another'])).toEqual([{ n: 3 }])

      const deadLetters = await readTopic(kafka.brokers, `${topic}.dead-letters.relational`)
      const text = (headers: (typeof deadLetters)[number]['headers'], name: string): string | undefined =>
        headers.findLast(([key]) => key === name)?.[1]?.toString()
      expect(deadLetters.map(({ headers }) => text(headers, 'sluice.rule'))).toEqual([
        'confluent-frame',
        'schema-unknown',
        'schema-unusable',
        'confluent-frame',
        'format-empty',
      ])
      expect(deadLetters.map(({ value }) => value)).toEqual(bad)
      for (const { key, headers } of deadLetters) {
        expect(key!.toString()).toBe('a-key')
        expect(text(headers, 'trace')).toBe('x')
        expect(headers.map(([name]) => name)).not.toContain('publisher')
      }

      // A message with a schema that is not cached yet waits for the registry, and is not a dead letter.
      const later = await library.register({ ...schema, name: 'Later' }, { subject: `later-${topic}` })
      const waiting = await library.encode(later.id, {
        battery: null,
        channel: 'c',
        created: BigInt(Date.now()),
        payload: Buffer.from('[{"n":"count","v":6}]'),
      })
      registry.pause()
      await produce(waiting)
      await untilPrinted(running, /the schema registry at \S+ is unavailable/)
      registry.resume()
      expect(await valuesUntil(6)).toEqual([1, 2, 3, 4, 5, 6])
      expect(await readTopic(kafka.brokers, `${topic}.dead-letters.relational`)).toHaveLength(5)

      // A replay decodes a letter from its frame, like the writer: this one still has no subtopic.
      const replayed = await tool('dlq', 'replay', '--rule', 'format-empty', '--yes')
      expect(replayed).toMatchObject({ code: 1 })
      expect(JSON.stringify(replayed)).toMatch(/1-0-8 stays open: format-empty: /)
      running.child.kill('SIGTERM')
      expect(await running.ended).toBe(0)
      expect(running.printed()).not.toMatch(/no pack|"v":/)
    })

    test.skipIf(skipped)('verify and trace decode them like the writer', async () => {
      const verified = await tool('verify', 'relational', '--json')
      expect(verified).toMatchObject({ code: 0 })
      const report = JSON.parse(verified.output) as { partitions: { recount: Record<string, number> }[] }
      expect(report.partitions[0]!.recount).toMatchObject({ received: 11, stored: 6, dead_lettered: 5 })
      const traced = await tool('trace', `${topic}-0-0`, '--json')
      expect(JSON.parse(traced.output)).toMatchObject({ state: 'stored', received: { subtopic: 'attic', protocol: 'http' } })
    })
  }),
)
