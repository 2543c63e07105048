// `sluice bench` with a real Kafka and a real PostgreSQL: a load that a writer stored is found complete, and each row that was deleted or doubled is found.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Database } from '../../../../database/database.ts'
import { openServer } from '../../../../database/server.ts'
import type { CheckReport } from '../../../../roles/tools/bench/check.ts'
import type { LoadReport } from '../../../../roles/tools/bench/load.ts'
import { type Ended, sluice } from '../../../bin/command.ts'
import { describeWithKafka } from '../../../servers/kafka.ts'
import { describeWithPostgres } from '../../../servers/postgres.ts'
import { temporaryFolder } from '../../../temporary-folder.ts'
import { call } from '../../../up/operator.ts'
import { administrator, ingestWords, spawnRole, startApi, token, whenReady } from '../../processes.ts'
import { startWriter } from '../writer.ts'

describeWithKafka('bench', kafka =>
  describeWithPostgres('on a store of PostgreSQL', postgres => {
    interface Site {
      readonly topic: string
      readonly database: Database
      /** Writes the ledger of this name. */
      readonly load: (ledger: string, ...words: string[]) => Promise<LoadReport>
      /** Resolves when the writer has passed so many messages. */
      readonly passed: (messages: number) => Promise<void>
      readonly check: (ledger: string, ...words: string[]) => Promise<Ended>
      readonly checked: (ledger: string, code: number) => Promise<CheckReport>
    }

    async function withSite(work: (site: Site) => Promise<void>): Promise<void> {
      const topic = await kafka.createTopic({ partitions: 3 })
      const url = await postgres.createDatabase()
      const database = await openServer({ url, applicationName: 'operator', connectionsMax: 2 })
      const writer = await startWriter(kafka.brokers, topic, url)
      const environment = { SVC_LOG_BROKERS: kafka.brokers.join(','), SVC_LOG_TOPIC: topic, SVC_RELATIONAL_URL: url }
      const folder = temporaryFolder()
      const check = (ledger: string, ...words: string[]) =>
        sluice(['bench', 'check', 'relational', '--ledger', join(folder, ledger), ...words], '', environment)
      try {
        await work({
          topic,
          database,
          check,
          async load(ledger, ...words) {
            const all = ['bench', 'load', '--ledger', join(folder, ledger), '--json', ...words]
            const { code, output, errors } = await sluice(all, '', environment)
            expect({ code, errors }).toEqual({ code: 0, errors: '' })
            return JSON.parse(output.toString()) as LoadReport
          },
          async passed(messages) {
            const received = 'SELECT sum(received)::int AS received FROM sluice.offsets'
            await expect
              .poll(async () => (await database.query<{ received: number }>(received))[0]!.received, { interval: 50, timeout: 30_000 })
              .toBe(messages)
          },
          async checked(ledger, code) {
            const ended = await check(ledger, '--json')
            expect({ code: ended.code, errors: ended.errors }).toEqual({ code, errors: '' })
            return JSON.parse(ended.output.toString()) as CheckReport
          },
        })
      } finally {
        await writer.stop()
        await database.close()
      }
    }

    test('a load of every kind is complete; then a row that is deleted is lost, and one that is doubled is doubled', () =>
      withSite(async ({ database, load, passed, check, checked }) => {
        const kinds = 'record-senml=70,record-cbor,record-json,pack-senml=9,pack-cbor,pack-json,truck-senml=9,truck-cbor,truck-json=7'
        const sent = await load('all', '--messages', '2000', '--devices', '50', '--channels', '10', '--mix', kinds, '--invalid', '2%')
        expect(sent).toMatchObject({ sent: 2000, acknowledged: 2000 })
        await passed(2000)
        const { messages, rows, ...rest } = await checked('all', 0)
        expect(rest).toEqual({ in_flight: 0, first: [], holds: true })
        expect(messages.rejected_invalid).toBeGreaterThan(10)
        expect(messages).toEqual({
          planned: 2000,
          acknowledged: 2000,
          stored: 2000 - messages.rejected_invalid,
          rejected_invalid: messages.rejected_invalid,
          rejected_valid: 0,
          lost: 0,
          doubled: 0,
          unacknowledged: 0,
        })
        expect(rows).toEqual({ expected: sent.rows, stored: sent.rows, distinct: sent.rows, lost: 0, doubled: 0, other: 0 })
        expect(String((await check('all')).output)).toMatch(/\nok: nothing is lost, and nothing is doubled\n$/)

        await database.query('DELETE FROM formats.fleet WHERE ctid = (SELECT min(ctid) FROM formats.fleet)')
        await database.query('INSERT INTO sluice.records SELECT * FROM sluice.records LIMIT 1')
        const changed = await checked('all', 1)
        expect(changed.rows).toEqual({ ...rows, stored: sent.rows, distinct: sent.rows - 1, lost: 1, doubled: 1 })
        expect(changed.messages).toMatchObject({ lost: 1, doubled: 1 })
        expect(changed.first.toSorted((one, other) => one.length - other.length)).toEqual([
          expect.stringMatching(/^message \d+ of the load \(channel .*\): 1 of its 1 rows are missing$/),
          expect.stringMatching(/^message \d+ of the load \(channel .*\): 1 of its rows are stored more than once$/),
        ])
        expect(String((await check('all')).output)).toMatch(/, lost 1, doubled 1\n/)
      }))

    test('things publish a load over HTTP, and at its times over MQTT; each is found in the store beside the other', () =>
      withSite(async ({ topic, load, passed, checked }) => {
        const api = await startApi(await postgres.createDatabase())
        const ingest = await whenReady(
          spawnRole(ingestWords, {
            SVC_CONTROL_URL: api.internalUrl,
            SVC_CONTROL_TOKEN: token,
            SVC_INTERNAL_LISTEN: '127.0.0.1:0',
            SVC_LOG_BROKERS: kafka.brokers.join(','),
            SVC_LOG_TOPIC: topic,
            SVC_MQTT_ENABLED: 'true',
            SVC_MQTT_PORT: '0',
          }),
        )
        const [, mqtt] = /^mqtt on (mqtt:\S+)$/m.exec(ingest.printed())!
        const signedIn = await call(api.url, 'POST', '/tokens', { body: administrator })
        const owner = ['--url', api.url, '--token', String(signedIn.json?.['token'])]
        const own = ['--devices', '6', '--channels', '2', '--mix', 'record-senml,pack-cbor,truck-json', '--invalid', '5%', ...owner]
        const overHttp = await load('http', '--messages', '150', '--to', ingest.url, ...own)
        const overMqtt = await load('mqtt', '--messages', '100', '--rate', '400', '--to', mqtt!, ...own)
        expect([overHttp.acknowledged, overMqtt.acknowledged]).toEqual([150, 100])
        expect(overMqtt.seconds).toBeGreaterThan(0.2)
        await passed(250)
        const [http, other] = [await checked('http', 0), await checked('mqtt', 0)]
        expect(http).toMatchObject({ messages: { acknowledged: 150 }, rows: { distinct: overHttp.rows, other: overMqtt.rows } })
        expect(other).toMatchObject({ messages: { acknowledged: 100 }, rows: { distinct: overMqtt.rows, other: overHttp.rows } })
        expect(http.messages.rejected_invalid + other.messages.rejected_invalid).toBeGreaterThan(0)
      }))
  }),
)
