// `sluice copy` on real servers: from a store whose writer was stopped to another one, whose writer goes on from there, and back.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'
import type { StoreName } from '../../../roles/stores/store.ts'
import type { CopyReport } from '../../../roles/tools/copy/report.ts'
import { logSettings, silent } from '../../pipeline/kafka/stored-messages.ts'
import { outgoing } from '../../pipeline/message.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { temporaryFolder } from '../../temporary-folder.ts'
import { type Environment, runSluice, startWriter, untilReady, type WriterProcess } from '../../writer/process.ts'
import { shortWaits } from '../../writer/site.ts'

const senml = (payload: string, channel = 'c1'): OutgoingMessage => outgoing({ payload: new TextEncoder().encode(payload), channel })
const json = (payload: string): OutgoingMessage =>
  outgoing({ payload: new TextEncoder().encode(payload), channel: 'c1', contentType: 'application/json', subtopic: 'engine' })

/** Twenty with rows, and one that is a dead letter, one that is empty and one with rows of its format. */
const messages = [
  ...Array.from({ length: 20 }, (_, at) => senml(`[{"n":"a","v":${at}},{"n":"b","vs":"${at}"}]`, `c${at % 5}`)),
  senml('[{"n":"a"'),
  outgoing({ payload: new TextEncoder().encode('[]'), channel: 'c1', contentType: 'application/json', subtopic: 'engine' }),
  json('{"speed":{"now":88.5,"list":[1,2]}}'),
]

describeWithKafka('./sluice copy', kafka =>
  describeWithPostgres('on PostgreSQL', postgres =>
    describeWithMongo('and MongoDB', mongo => {
      test('refuses while the writer runs; then the writer of the target goes on, and verify holds, there and back', async () => {
        const topic = await kafka.createTopic({ partitions: 2 })
        const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
        onTestFinished(() => log.close())
        const common = { SVC_LOG_BROKERS: kafka.brokers.join(','), SVC_LOG_TOPIC: topic }
        const document = { SVC_DOCUMENT_URL: `${mongo.url}${topic.replaceAll(/[^a-z0-9]/gi, '_')}` }
        const first = { ...common, ...document, SVC_RELATIONAL_URL: await postgres.createDatabase() }
        const back = { ...common, ...document, SVC_RELATIONAL_URL: await postgres.createDatabase(), SVC_LOG_GROUP: 'relational' }

        async function start(store: StoreName, environment: Environment): Promise<WriterProcess> {
          const writer = await startWriter({ ...environment, ...shortWaits, SVC_WORKERS_COUNT: '1' }, store)
          onTestFinished(async () => void (await writer.stop('SIGKILL')))
          await untilReady(writer)
          return writer
        }
        const verified = async (store: StoreName, environment: Environment) =>
          runSluice(['verify', store, '--contents', '--writer', 'relational'], environment)
        const whenStored = (store: StoreName, environment: Environment, count: number) =>
          expect
            .poll(async () => (await verified(store, environment)).printed, { interval: 500 })
            .toContain(`ok: ${count} messages in 2 partitions, with every column of their rows, 0 more in flight\n`)
        const copied = async (from: StoreName, to: StoreName, environment: Environment) => {
          const { code, printed } = await runSluice(['copy', from, to, '--contents', '--json'], environment)
          return { code, report: JSON.parse(printed) as CopyReport }
        }

        await log.append(messages)
        const relational = await start('relational', first)
        await whenStored('relational', first, 23)
        expect(await runSluice(['copy', 'relational', 'document'], first)).toEqual({
          code: 2,
          printed: `the writer "relational" is running (the consumer group relational.${topic} has members): stop all its processes first\n`,
        })
        await relational.stop()
        const there = await copied('relational', 'document', first)
        expect(there).toMatchObject({ code: 0, report: { holds: true, logs: [{ name: topic, writer: 'relational', written: 41 }] } })
        expect(await verified('document', first)).toMatchObject({ code: 0 })
        expect((await runSluice(['copy', 'relational', 'document'], first)).printed).toMatch(
          /\nok: the target has all 41 rows; 0 were copied now\n$/,
        )

        await log.append(messages)
        const next = await start('document', back)
        await whenStored('document', back, 46)
        expect(await next.metric('component_received_events_total')).toBe(23)
        await next.stop()
        expect((await runSluice(['copy', 'relational', 'document'], first)).printed).toMatch(
          /^the target stands at offset \d+ of partition \d, and the source at \d+: a writer has stored into/,
        )

        expect(await copied('document', 'relational', back)).toMatchObject({ code: 0, report: { logs: [{ written: 82 }] } })
        const { printed } = await verified('relational', back)
        expect(printed).toMatch(/ledger +received 0 = stored 0 .*; counts from offset \d+ on, below which another store was copied\n/)
        expect(printed).toMatch(/\nok: 46 messages in 2 partitions, with every column of their rows, 0 more in flight\n$/)

        await log.append(messages)
        const last = await start('relational', back)
        await whenStored('relational', back, 69)
        expect(await last.metric('component_received_events_total')).toBe(23)
        await last.stop()
        // Their group is one, so the source seems to stand where the target does: the copy says that it lacks rows, and writes none.
        const again = await runSluice(['copy', 'document', 'relational'], back)
        expect([again.code, again.printed]).toEqual([1, expect.stringMatching(/WRONG[^]*: 0 of 82 were copied now\n$/)])
        expect(await verified('relational', back)).toMatchObject({ code: 0 })
        const elsewhere = { SVC_COPY_URL: await postgres.createDatabase() }
        const file = join(temporaryFolder(), 'writer.toml')
        writeFileSync(
          file,
          `[log]\nbrokers = ${JSON.stringify(kafka.brokers)}\ntopic = "${topic}"\ngroup = "relational"\n[store]\nurl = "${back.SVC_RELATIONAL_URL}"\n`,
        )
        const moved = await runSluice(['copy', 'relational', 'relational', '--config', file], elsewhere)
        expect([moved.code, moved.printed]).toEqual([0, expect.stringMatching(/\nok: the target has all 123 rows; 123 were copied now\n$/)])
      })

      test('one store is not copied to itself, and without an address it says which one is missing', async () => {
        const environment = { SVC_LOG_BROKERS: kafka.brokers.join(','), SVC_RELATIONAL_URL: postgres.url }
        const itself = await runSluice(['copy', 'relational', 'postgres'], environment)
        expect([itself.code, itself.printed]).toEqual([
          2,
          expect.stringMatching(/^the source and the target are one store: give .* --to-url/),
        ])
        const missing = await runSluice(['copy', 'relational', 'document'], environment)
        expect([missing.code, missing.printed]).toEqual([
          2,
          expect.stringMatching(/^the address of the document store is missing: set SVC_DOCUMENT_URL/),
        ])
      })
    }),
  ),
)
