// A real writer with a file in the sections of SPEC (§2, writer configuration), which the variable of SPEC names: what it stores, and how it decodes.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, beforeAll, expect, onTestFailed, onTestFinished, test } from 'vitest'
import { openTools, type Tools } from '../../pipeline/kafka/consumer/source-parts.ts'
import { readTopic } from '../../pipeline/kafka/stored-messages.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { temporaryFolder } from '../../temporary-folder.ts'
import { startWriter, type WriterProcess } from '../../writer/process.ts'
import { openStoreView, type StoreView } from '../../writer/stores/relational.ts'

interface Message {
  readonly subtopic: string
  readonly value: string | Buffer
  readonly contentType?: string
}

describeWithKafka('a writer by its file', kafka =>
  describeWithPostgres('stores', postgres => {
    let tools: Tools
    beforeAll(async () => {
      tools = await openTools(kafka.brokers)
    })
    afterAll(() => tools.close())

    async function start(toml: string, messages: readonly Message[]): Promise<{ writer: WriterProcess; store: StoreView; topic: string }> {
      const topic = await kafka.createTopic()
      const file = join(temporaryFolder(), 'writer.toml')
      writeFileSync(file, toml)
      await tools.producer.send({
        topic,
        messages: messages.map(({ subtopic, value, contentType }) => ({
          key: 'a-channel',
          value,
          headers: {
            subtopic,
            publisher: 'a-thing',
            protocol: 'http',
            ...(contentType === undefined ? {} : { 'content-type': contentType }),
          },
        })),
      })
      const url = await postgres.createDatabase()
      const writer = await startWriter({
        SVC_RELATIONAL_WRITER_CONFIG_PATH: file,
        SVC_RELATIONAL_URL: url,
        SVC_LOG_BROKERS: kafka.brokers.join(','),
        SVC_LOG_TOPIC: topic,
        // Its own consumer group on the shared broker.
        SVC_LOG_GROUP: topic,
        SVC_WORKERS_COUNT: '1',
      })
      onTestFinished(async () => void (await writer.stop('SIGKILL')))
      onTestFailed(() => console.error(writer.printed().slice(-3000)))
      const store = await openStoreView(url)
      while ((await store.positions()).get(0) !== messages.length) await wait(50)
      return { writer, store, topic }
    }

    test('only its subjects, JSON with the time in its time fields', async () => {
      const { writer, store, topic } = await start(
        `[subscriber]
subjects = ["channels.*.bedroom.temperature", "channels.a-channel.kitchen.>"]

[transformer]
format = "json"
time_fields = [
  { field_name = "measured", field_format = "2006-01-02 15:04:05", location = "Europe/Berlin" },
  { field_name = "at", field_format = "unix_ms", location = "UTC" },
]
`,
        [
          { subtopic: 'bedroom.temperature', value: '{"measured":"2024-07-01 14:00:00","n":1}', contentType: 'application/json' },
          { subtopic: 'kitchen.oven.temperature', value: '[{"at":1719835200500,"n":2}]' },
          { subtopic: 'bedroom.humidity', value: '{"n":3}' },
          { subtopic: 'bedroom.temperature.max', value: 'not of its subjects, so nobody reads it' },
          { subtopic: 'bedroom.temperature', value: '{"measured":"yesterday","n":4}' },
        ],
      )
      const [{ table_name: table }] = (await store.query<{ table_name: string }>(
        `SELECT table_name FROM sluice.formats WHERE format = 'temperature'`,
      )) as [{ table_name: string }]
      const rows = await store.query(`SELECT created::float8 / 1e9 AS time, subtopic, payload->'n' AS n FROM formats."${table}" ORDER BY n`)
      expect(rows).toEqual([
        { time: 1719835200, subtopic: 'bedroom.temperature', n: 1 },
        { time: 1719835200.5, subtopic: 'kitchen.oven.temperature', n: 2 },
      ])
      expect(await store.books()).toEqual([expect.objectContaining({ received: 5, stored: 2, filtered: 2, dead_lettered: 1 })])
      expect((await readTopic(kafka.brokers, `${topic}.dead-letters.${topic}`)).map(({ value }) => Buffer.from(value).toString())).toEqual([
        '{"measured":"yesterday","n":4}',
      ])
      expect(await writer.stop()).toBe(0)
    })

    test("SenML in the file's content type, if a message has none", async () => {
      const { writer, store } = await start(
        `[subscriber]
subjects = ["channels.>"]

[transformer]
format = "senml"
content_type = "application/senml+cbor"
`,
        [
          // [{0: "level", 2: 7}], RFC 8428 §6.
          { subtopic: 'meter', value: Buffer.from('81a200656c6576656c0207', 'hex') },
          { subtopic: 'meter', value: '[{"n":"level","v":8}]', contentType: 'application/senml+json' },
        ],
      )
      expect(await store.query('SELECT channel, subtopic, publisher, name, value FROM messages ORDER BY value')).toEqual(
        [7, 8].map(value => ({ channel: 'a-channel', subtopic: 'meter', publisher: 'a-thing', name: 'level', value })),
      )
      expect(await writer.stop()).toBe(0)
    })
  }),
)
