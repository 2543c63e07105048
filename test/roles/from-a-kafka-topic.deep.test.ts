// The guide from a Kafka topic to rows: its commands are run with kcat and Kafka's own tools, on a broker that checks rights.

import { readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry'
import { expect, onTestFinished, test } from 'vitest'
import { openServer } from '../../database/server.ts'
import { sluice } from '../bin/command.ts'
import { openTools } from '../pipeline/kafka/consumer/source-parts.ts'
import { extractBlocks, runBlocks } from '../readme/blocks.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKcat } from '../servers/install/kcat.ts'
import { describeWithOwnKafka, type Kafka } from '../servers/kafka.ts'
import { describeWithPostgres, type PostgresAccess } from '../servers/postgres.ts'
import { describeWithRegistry } from '../servers/registry.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { spawnRole } from './processes.ts'

const root = join(import.meta.dirname, '../..')
const guide = readFileSync(join(root, 'docs/guides/from-a-kafka-topic.md'), 'utf8')

/** A broker that allows nothing to users who log in, and everything to all others. */
const checkingRights = {
  settings: {
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'super.users': 'User:ANONYMOUS',
  },
}

/** Kafka's scripts, as a folder for the path. */
function kafkaScripts(classPath: string): string {
  const folder = temporaryFolder()
  const tools = { 'kafka-topics.sh': 'TopicCommand', 'kafka-acls.sh': 'AclCommand', 'kafka-console-producer.sh': 'ConsoleProducer' }
  for (const [script, tool] of Object.entries(tools)) {
    const command = `java -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp '${classPath}' org.apache.kafka.tools.${tool}`
    writeFileSync(join(folder, script), `#!/bin/sh\nexec ${command} "$@"\n`, { mode: 0o755 })
  }
  return folder
}

/** What somebody has who follows the guide: an empty folder, an empty database, and a topic of its own. */
async function openGuide(kafka: Kafka, postgres: PostgresAccess, topic: string) {
  const folder = temporaryFolder()
  const url = await postgres.createDatabase()
  const database = await openServer({ url, applicationName: 'operator', connectionsMax: 2 })
  onTestFinished(() => database.close())
  const path = [kafkaScripts(kafka.classPath), process.env['PATH']].join(delimiter)
  const replace = {
    './sluice': `'${root}/sluice'`,
    'kafka:9092': kafka.brokers[0]!,
    'postgres://sluice@db/plant': url,
    'plant.readings': topic,
    '--topic measurements': `--topic ${topic}`,
    'topic = "framed"': `topic = "${topic}"`,
  }
  const received = async (): Promise<number> => {
    const [row] = await database
      .query<{ received: number }>('SELECT coalesce(sum(received), 0)::int AS received FROM sluice.offsets')
      .catch((error: unknown) => {
        // Before the writer has created its schema.
        if (!String(error).includes('does not exist')) throw error
        return []
      })
    return row?.received ?? 0
  }
  return {
    folder,
    url,
    database,
    /** Runs the blocks of this name; returns what each printed. */
    run: (name: string, more: Readonly<Record<string, string>> = {}) =>
      runBlocks(extractBlocks(guide, name), { cwd: folder, environment: { PATH: path, PGTZ: 'UTC' }, replace: { ...more, ...replace } }),
    /** Starts the writer as the guide does, with this file. */
    start(file = 'writer.toml', environment: Readonly<Record<string, string>> = {}) {
      const [{ text } = { text: '' }] = extractBlocks(guide, 'start')
      const [, ...words] = text.replace('writer.toml', join(folder, file)).split(' ')
      const own = { SVC_HTTP_PORT: '0', SVC_INTERNAL_LISTEN: '127.0.0.1:0', SVC_WORKERS_COUNT: '1' }
      const writer = spawnRole([join(root, 'main.ts'), ...words], { ...own, ...environment })
      const stop = (): Promise<number | string> => {
        writer.child.kill('SIGTERM')
        return writer.ended
      }
      return { ...writer, stop }
    },
    untilReceived: (count: number) => expect.poll(received).toBe(count),
  }
}

/** The block that the guide shows below the blocks of this name. */
function shownBelow(name: string): string {
  const [, shown] = new RegExp(`<!-- run:${name} -->\n\`\`\`sh\n[^]*?\n\`\`\`\n\n\`\`\`\n([^]*?)\n\`\`\``).exec(guide) ?? []
  return shown!
}

const withoutPadding = (text: string): string => text.replaceAll(/ +$/gm, '')

describeUnlessMissing('the guide from a Kafka topic', missingKcat(), () =>
  describeWithOwnKafka(
    'to rows',
    kafka =>
      describeWithPostgres('in PostgreSQL', postgres => {
        test('its documents become rows, what had no key is a dead letter, and a replay stores it', async () => {
          const site = await openGuide(kafka, postgres, 'five.minutes')
          const [made] = await site.run('topic')
          expect(made!.match(/^.*"temperature".*$/gm)).toHaveLength(4)
          expect(made).toMatch(/^oven-1 {2}\{"device"/m)
          expect(await site.run('file')).toEqual([expect.stringContaining('ok')])
          const writer = site.start()
          await site.untilReceived(4)

          const [rows] = await site.run('rows')
          expect(withoutPadding(rows!)).toContain(shownBelow('rows'))
          expect(rows).toMatch(/ok: 4 messages in 3 partitions/)
          const [letters] = await site.run('letters')
          const shape = (text: string): string =>
            text
              .replaceAll(/\d-\d-\d/g, 'ID')
              .replaceAll(/ +/g, ' ')
              .trim()
          expect(shape(letters!)).toBe(shape(shownBelow('letters')))

          expect(await writer.stop()).toBe(0)
          expect(await site.run('mend')).toEqual([expect.stringMatching(/^1 dead letter replayed[^]*ok: 4 messages/)])
          expect(
            await site.database.query("SELECT channel, payload->>'temperature' AS value FROM formats.readings ORDER BY created"),
          ).toEqual([
            { channel: 'press-7', value: '21.5' },
            { channel: 'press-7', value: '21.75' },
            { channel: 'oven-1', value: '180' },
            { channel: 'oven-1', value: '181' },
          ])
        })

        test('the rights that it lists are enough, and a start without them names the next missing one', async () => {
          const topic = 'with.rights'
          const site = await openGuide(kafka, postgres, topic)
          await kafka.createTopic({ name: topic })
          await site.run('file')
          const tools = await openTools(kafka.brokers)
          onTestFinished(() => tools.close())
          const value = JSON.stringify({ at: 1_790_000_005, temperature: 90 })
          await tools.producer.send({ topic, messages: [{ key: 'oven-1', value }] })
          const owner = site.start()
          await site.untilReceived(1)
          expect(await owner.stop()).toBe(0)
          // Empty; so the writer has to create it.
          await kafka.deleteTopic(`${topic}.dead-letters.relational`)
          const [grants] = extractBlocks(readFileSync(join(root, 'docs/stores/postgres.md'), 'utf8'), 'writer-rights')
          await site.database.execute(`REVOKE ALL ON SCHEMA public FROM PUBLIC; ${grants!.text.replaceAll(' writer', ' plant_writer')}`)

          const limited = {
            SVC_LOG_BROKERS: kafka.secured.sasl[0]!,
            SVC_LOG_SASL_MECHANISM: 'scram-sha-512',
            SVC_LOG_SASL_USERNAME: kafka.secured.username,
            SVC_LOG_SASL_PASSWORD: kafka.secured.password,
            SVC_RELATIONAL_URL: site.url.replace('postgres@', 'plant_writer@'),
          }
          const [rights] = extractBlocks(guide, 'kafka-rights')
          const allowing = rights!.text.split('\n').filter(line => line.startsWith('allow --'))
          expect(allowing).toHaveLength(3)
          const missing = [new RegExp(`topic ${topic}:`), new RegExp(`topic ${topic}.dead-letters.relational:`), /group relational/]
          for (const [at, line] of allowing.entries()) {
            const refused = site.start('writer.toml', limited)
            expect(await refused.ended).toBe(1)
            expect(refused.printed().trim().split('\n').at(-1)).toMatch(missing[at]!)
            const others = Object.fromEntries(allowing.filter(other => other !== line).map(other => [other, ':']))
            await site.run('kafka-rights', others)
          }
          const writer = site.start('writer.toml', limited)
          await tools.producer.send({ topic, messages: [{ key: 'oven-2', value }, { value }] })
          await site.untilReceived(3)
          expect(await writer.stop()).toBe(0)
          const verified = await sluice(['verify', 'relational', '--config', join(site.folder, 'writer.toml')], '', limited)
          expect(verified).toMatchObject({ code: 0 })
          expect(
            await site.database.query("SELECT payload->>'temperature' AS value FROM formats.readings WHERE channel = 'oven-2'"),
          ).toEqual([{ value: '90' }])
          expect(await site.database.query('SELECT sum(dead_lettered)::int AS count FROM sluice.offsets')).toEqual([{ count: 1 }])
        })

        test('a message of Kafka’s own producer in the layout of ingest is stored', async () => {
          const site = await openGuide(kafka, postgres, 'own.layout')
          await kafka.createTopic({ name: 'own.layout' })
          await site.run('producer')
          writeFileSync(join(site.folder, 'writer.toml'), `[log]\nbrokers = ["${kafka.brokers[0]}"]\ntopic = "own.layout"\n`)
          const writer = site.start('writer.toml', { SVC_RELATIONAL_URL: site.url })
          await site.untilReceived(1)
          expect(await writer.stop()).toBe(0)
          const rows = await site.database.query('SELECT channel, subtopic, protocol, name, value FROM messages')
          const channel = '7acb5f9e-3c0e-4a57-9d0a-5f9f0a3c1b77'
          expect(rows).toEqual([{ channel, subtopic: 'attic', protocol: 'kafka', name: 'temperature', value: 21.5 }])
        })

        describeWithRegistry('with a schema registry', registry =>
          test('framed JSON and Avro records with a payload are stored, and other schemas are dead letters', async () => {
            const site = await openGuide(kafka, postgres, 'framed.readings')
            await kafka.createTopic({ name: 'framed.readings' })
            expect(await site.run('framed-file', { 'http://schemas:8081': registry.url })).toEqual([expect.stringContaining('ok')])
            const json = { type: SchemaType.JSON, schema: '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}' }
            const avroOf = (name: string, field: string) => {
              const schema = { type: 'record', name, namespace: 'plants', fields: [{ name: field, type: 'string' }] }
              return { type: SchemaType.AVRO, schema: JSON.stringify(schema) }
            }
            const document = { at: 1_790_000_001, temperature: 21.5 }
            const library = new SchemaRegistry({ host: registry.url })
            const framed = async (subject: string, schema: object, value: object): Promise<Buffer> => {
              const { id } = await library.register(schema as never, { subject: `guide-${subject}` })
              return library.encode(id, value)
            }
            const messages = [
              { key: 'press-1', value: await framed('json', json, document) },
              { key: 'press-2', value: await framed('avro', avroOf('Framed', 'payload'), { payload: JSON.stringify(document) }) },
              { key: 'press-3', value: await framed('other', avroOf('Other', 'temperature'), { temperature: '21.5' }) },
            ]
            const tools = await openTools(kafka.brokers)
            onTestFinished(() => tools.close())
            await tools.producer.send({ topic: 'framed.readings', messages })

            const writer = site.start('framed.toml')
            await site.untilReceived(3)
            expect(await writer.stop()).toBe(0)
            const rows = await site.database.query(
              "SELECT channel, created::text, payload->>'temperature' AS value FROM formats.readings ORDER BY channel",
            )
            const stored = { created: '1790000001000000000', value: '21.5' }
            expect(rows).toEqual(['press-1', 'press-2'].map(channel => ({ channel, ...stored })))
            expect(await site.database.query('SELECT dead_lettered::int AS count FROM sluice.offsets')).toEqual([{ count: 1 }])
          }),
        )
      }),
    checkingRights,
  ),
)
