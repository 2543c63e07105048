// The guides for operators of Kafka and PostgreSQL: their commands are run on a topic with a writer.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openServer } from '../../../database/server.ts'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { logSettings, silent } from '../../pipeline/kafka/stored-messages.ts'
import { outgoing } from '../../pipeline/message.ts'
import { extractBlocks, runBlocks } from '../../readme/blocks.ts'
import { postgresPrograms } from '../../servers/install/postgres.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { describeWithPostgres } from '../../servers/postgres.ts'
import { temporaryFolder } from '../../temporary-folder.ts'
import { startWriter } from './writer.ts'

const root = join(import.meta.dirname, '../../..')
const sluice = { './sluice': `'${root}/sluice'` }
const blocksOf = (document: string, name: string) => extractBlocks(readFileSync(join(root, document), 'utf8'), name)

describeWithKafka('the guides', kafka =>
  describeWithPostgres('on a writer of PostgreSQL', postgres => {
    async function openWriterSite() {
      const topic = await kafka.createTopic({ partitions: 1 })
      const url = await postgres.createDatabase()
      const database = await openServer({ url, applicationName: 'operator', connectionsMax: 2 })
      onTestFinished(() => database.close())
      const start = () => startWriter(kafka.brokers, topic, url)
      const append = async (count: number, payload: string): Promise<void> => {
        const log = await openKafkaLog(logSettings(kafka.brokers, topic, { partitions: 1 }), silent)
        await log.append(Array.from({ length: count }, () => outgoing({ payload: new TextEncoder().encode(payload) })))
        await log.close()
      }
      const untilPassed = (offset: number) =>
        expect
          .poll(async () => (await database.query<{ next: number }>('SELECT next_offset::int4 AS next FROM sluice.offsets'))[0]?.next)
          .toBe(offset)
      const environment = { SVC_LOG_BROKERS: kafka.brokers.join(','), SVC_LOG_TOPIC: topic, SVC_RELATIONAL_URL: url }
      return { topic, url, database, start, append, untilPassed, environment }
    }

    test('dead letters: those of a writer are listed with its options and the kind of its store', async () => {
      const site = await openWriterSite()
      const writer = await site.start()
      onTestFinished(() => writer.stop())
      await site.append(1, '[{"n":"a"}]')
      await site.untilPassed(1)
      // The other store in the guide has no writer here.
      const log = await openKafkaLog(logSettings(kafka.brokers, `${site.topic}.dead-letters.document`, { partitions: 1 }), silent)
      await log.close()
      const [output] = await runBlocks(blocksOf('docs/guides/dead-letters.md', 'writer'), {
        cwd: temporaryFolder(),
        environment: site.environment,
        replace: { ...sluice, 'kafka:9092': kafka.brokers.join(','), 'postgres://sluice@db/sluice': `'${site.url}'` },
      })
      expect(output).toMatch(/1-0-0 +open +no-value [^]*no matching dead letters/)
    })

    test('backup and restore: a writer reads again what an older backup lacks, each message once', async () => {
      const site = await openWriterSite()
      let writer = await site.start()
      const cwd = temporaryFolder()
      const guide = 'docs/guides/backup-and-restore.md'
      const run = (name: string) =>
        runBlocks(blocksOf(guide, name), {
          cwd,
          environment: {
            ...site.environment,
            SVC_DATABASE_URL: site.url,
            PATH: [postgresPrograms(), process.env['PATH']].join(delimiter),
          },
        })
      await site.append(10, '[{"n":"a","v":1}]')
      await site.untilPassed(10)
      await run('backup-servers')
      await site.append(10, '[{"n":"a","v":2}]')
      await site.untilPassed(20)
      await writer.stop()
      await run('restore-servers')
      await site.untilPassed(10)
      writer = await site.start()
      onTestFinished(() => writer.stop())
      await site.untilPassed(20)
      const rows = await site.database.query('SELECT value, count(*)::int4 AS count FROM messages GROUP BY value ORDER BY value')
      expect(rows).toEqual([
        { value: 1, count: 10 },
        { value: 2, count: 10 },
      ])
      const verified = execFileSync(join(root, 'sluice'), ['verify', 'relational'], { env: { ...process.env, ...site.environment } })
      expect(verified.toString()).toMatch(/ok: 20 messages in 1 partition/)
    })
  }),
)
