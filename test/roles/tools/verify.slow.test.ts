// `sluice verify` after a writer's work, when the log has deleted messages or the store was changed: with a real Kafka and a real PostgreSQL.

import { ConfigResourceTypes } from 'kafkajs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openServer } from '../../../database/server.ts'
import type { PartitionReport } from '../../../pipeline/audit/partition.ts'
import type { VerifyReport } from '../../../pipeline/audit/verify.ts'
import { openKafkaTopicReader } from '../../../pipeline/kafka/topic-reader.ts'
import { sluice } from '../../bin/command.ts'
import { connectionTo, openTools, type Tools } from '../../pipeline/kafka/consumer/source-parts.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { type RunningWriter, startWriter } from './writer.ts'

describeWithKafka('verify', kafka =>
  describeWithPostgres('of a store of PostgreSQL', postgres => {
    let tools: Tools
    beforeAll(async () => void (tools = await openTools(kafka.brokers)))
    afterAll(() => tools.close())

    interface Site {
      readonly topic: string
      readonly database: Database
      /** Resolves when the writer has passed all that the log has. */
      readonly settled: () => Promise<void>
      /** Runs the command with `--json`, and these words. */
      readonly verify: (...words: string[]) => Promise<{ code: number | null; report: PartitionReport }>
      /** What it prints without. */
      readonly words: () => Promise<string>
    }

    async function withSite(work: (site: Site) => Promise<void>): Promise<void> {
      const topic = await kafka.createTopic()
      const url = await postgres.createDatabase()
      const database = await openServer({ url, applicationName: 'operator', connectionsMax: 2 })
      let writer: RunningWriter | undefined
      const environment = { SVC_LOG_BROKERS: kafka.brokers.join(','), SVC_LOG_TOPIC: topic, SVC_RELATIONAL_URL: url }
      try {
        writer = await startWriter(kafka.brokers, topic, url)
        await work({
          topic,
          database,
          async settled() {
            const end = (await boundsOf(topic)).end
            const next = 'SELECT max(next_offset)::int AS next FROM sluice.offsets'
            await expect
              .poll(async () => (await database.query<{ next: number }>(next))[0]!.next, { interval: 50, timeout: 30_000 })
              .toBe(end)
          },
          async verify(...words) {
            const { code, output } = await sluice(['verify', 'relational', '--json', ...words], '', environment)
            return { code, report: (JSON.parse(output.toString()) as VerifyReport).partitions[0]! }
          },
          words: async () => (await sluice(['verify', 'relational'], '', environment)).output.toString(),
        })
      } finally {
        await writer?.stop()
        await database.close()
      }
    }

    async function boundsOf(topic: string) {
      const reader = await openKafkaTopicReader({ connection: connectionTo(kafka.brokers), topic, fetchBytes: 1 << 20 })
      const bounds = await reader.bounds()
      await reader.close()
      return bounds.get(0)!
    }

    async function offsetsIn(topic: string): Promise<number[]> {
      const reader = await openKafkaTopicReader({ connection: connectionTo(kafka.brokers), topic, fetchBytes: 1 << 20 })
      const { start, end } = (await reader.bounds()).get(0)!
      const offsets: number[] = []
      for await (const chunk of reader.read(0, start, end)) {
        for (const cursor = chunk.cursor(); cursor.next(); ) offsets.push(cursor.message.offset)
      }
      await reader.close()
      return offsets
    }

    const send = (topic: string, ...channels: string[]) =>
      tools.producer.send({ topic, messages: channels.map(key => ({ partition: 0, key, value: '[{"n":"a","v":1}]' })) })
    const position = (offset: number): bigint => (1n << 56n) | BigInt(offset)

    test('messages that a compacted log has deleted are no faults, also if its start was deleted; what it still has is compared', () =>
      withSite(async ({ topic, database, settled, verify, words }) => {
        for (let nth = 0; nth < 20; nth++) await send(topic, 'c0', 'c1', 'c2', 'c3', 'c4')
        await settled()
        // Not before, so that the writer has stored all of them.
        const policy = { 'cleanup.policy': 'compact,delete', 'segment.ms': '100', 'min.cleanable.dirty.ratio': '0.01' }
        const configEntries = Object.entries(policy).map(([name, value]) => ({ name, value }))
        await tools.admin.alterConfigs({
          validateOnly: false,
          resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }],
        })
        let left: number[] = []
        await expect
          .poll(
            async () => {
              // Segments roll when something is written.
              await send(topic, 'tick')
              left = await offsetsIn(topic)
              return left.filter(offset => offset < 100)
            },
            { interval: 500, timeout: 60_000 },
          )
          .toEqual([95, 96, 97, 98, 99])
        await settled()

        const compacted = await verify()
        expect(compacted.code).toBe(0)
        const { recount, checked } = compacted.report
        expect(compacted.report).toMatchObject({ checked: { from: 0 }, ledger_covers_more: true, faults: {} })
        expect(recount).toMatchObject({ stored: recount.received, skipped: 0, deleted: checked.to - recount.received })
        expect(recount.deleted).toBeGreaterThanOrEqual(95)
        expect(recount.deleted_stored).toBe(recount.deleted)
        expect(await words()).toContain(
          `\n  deleted  ${recount.deleted} by the log, which is compacted: these can no longer be compared; the store has rows of ${recount.deleted}\n`,
        )

        await tools.deleteBelow(topic, 97)
        const both = await verify()
        expect(both).toMatchObject({
          code: 0,
          report: { checked: { from: 97 }, recount: { stored: both.report.recount.received }, faults: {} },
        })

        await database.query('DELETE FROM sluice.records WHERE position = $1', [position(98)])
        await database.query('INSERT INTO sluice.records SELECT * FROM sluice.records WHERE position = $1', [position(99)])
        const { code, report } = await verify()
        expect([code, report.faults]).toEqual([1, { missing: 1, doubled: 1 }])
      }))

    test('rows that were changed in the store are found with --contents, and only then', () =>
      withSite(async ({ topic, database, settled, verify }) => {
        await send(topic, 'c0', 'c1')
        const reading = {
          value: '{"d":{"rpm":[900,910]},"serial":9007199254740993}',
          headers: { 'content-type': 'application/json', subtopic: 'lathe.readings' },
        }
        await tools.producer.send({ topic, messages: [0, 1].map(() => ({ partition: 0, key: 'c2', ...reading })) })
        await settled()
        expect(await verify('--contents')).toMatchObject({ code: 0, report: { recount: { stored: 4 }, faults: {} } })

        const changed = `UPDATE formats.readings SET payload = jsonb_set(payload, '{d,rpm,1}', '911'), channel = 'evil' WHERE position = $1`
        await database.query(changed, [position(2)])
        await database.query(`UPDATE sluice.records SET time = time - interval '3 months' WHERE position = $1`, [position(1)])
        expect(await verify()).toMatchObject({ code: 0, report: { faults: {} } })
        const { code, report } = await verify('--contents')
        expect([code, report.faults]).toEqual([1, { 'contents differ': 2 }])
        const detail = '1 of its rows differs from what it decodes to, in'
        expect(report.first).toEqual([
          { kind: 'contents differ', id: '1-0-1', offset: 1, detail: `${detail} time` },
          { kind: 'contents differ', id: '1-0-2', offset: 2, detail: `${detail} channel, payload` },
        ])
      }))

    test('rows at the offset of a transaction marker are surplus, and so are those of an aborted transaction; a log without its start is no fault', () =>
      withSite(async ({ topic, database, settled, verify, words }) => {
        const producer = tools.kafka.producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 })
        await producer.connect()
        for (const end of ['commit', 'abort', 'commit'] as const) {
          const transaction = await producer.transaction()
          await transaction.send({ topic, messages: ['c0', 'c1'].map(key => ({ partition: 0, key, value: '[{"n":"a","v":1}]' })) })
          await transaction[end]()
        }
        await producer.disconnect()
        await settled()
        expect(await verify()).toMatchObject({
          code: 0,
          report: { recount: { received: 4, stored: 4, skipped: 5, deleted: 0 }, ledger: { skipped: 5 }, ledger_covers_more: false },
        })

        await tools.deleteBelow(topic, 4)
        expect(await verify()).toMatchObject({
          code: 0,
          report: { checked: { from: 4, to: 9 }, recount: { stored: 2, skipped: 3, deleted: 0 }, ledger_covers_more: true },
        })
        expect(await words()).toContain('; the log starts at 4, and earlier messages can no longer be compared, 0 in flight\n')

        const copy = 'INSERT INTO sluice.records SELECT * FROM sluice.records WHERE position = $1'
        const move = 'UPDATE sluice.records SET position = $2 WHERE ctid IN (SELECT ctid FROM sluice.records WHERE position = $1 LIMIT 1)'
        for (const [message, offset] of [
          [6, 4],
          [7, 8],
        ] as const) {
          await database.query(copy, [position(message)])
          await database.query(move, [position(message), position(offset)])
        }
        const { code, report } = await verify()
        expect([code, report.faults, report.first.map(({ id }) => id)]).toEqual([1, { 'surplus rows': 2 }, ['1-0-4', '1-0-8']])
      }))
  }),
)
