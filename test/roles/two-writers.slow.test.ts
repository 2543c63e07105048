// Two writers of one topic and one database, each for other content types: each message is stored by one of them.

import { expect, onTestFinished, test } from 'vitest'
import { openKafkaLog } from '../../pipeline/kafka/log.ts'
import { logSettings, silent } from '../pipeline/kafka/stored-messages.ts'
import { outgoing } from '../pipeline/message.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { missingKafka } from '../servers/install/kafka.ts'
import { missingPostgres } from '../servers/install/postgres.ts'
import { type Environment, runSluice, startWriter, untilReady } from '../writer/process.ts'
import { openSite, shortWaits } from '../writer/site.ts'

const utf8 = (text: string) => new TextEncoder().encode(text)
const json = (payload: string) => outgoing({ payload: utf8(payload), contentType: 'application/json', subtopic: 'speeds' })
const senml = (payload: string) => outgoing({ payload: utf8(payload) })

describeUnlessMissing('two writers of a topic', missingKafka() ?? missingPostgres(), () => {
  test('store what is theirs and filter the rest, are verified apart, and a third one for everything is refused', async () => {
    const site = await openSite({ partitions: 1 })
    onTestFinished(() => site.close())
    const log = await openKafkaLog(logSettings(site.kafka.brokers, site.topic, { partitions: 1 }), silent)
    const append = async (...messages: Parameters<typeof log.append>[0][number][]) => void (await log.append(messages))
    onTestFinished(() => log.close())
    const environmentOf = (group: string, contentTypes: string): Environment => ({
      ...site.direct,
      SVC_LOG_GROUP: group,
      SVC_TRANSFORMER_CONTENT_TYPES: contentTypes,
    })
    const documents = environmentOf('documents', 'application/json')
    const records = environmentOf('records', 'application/senml+json,application/senml+cbor')
    const start = async (environment: Environment) => {
      const writer = await startWriter({ ...environment, ...shortWaits, SVC_WORKERS_COUNT: '1' }, 'relational')
      onTestFinished(async () => void (await writer.stop('SIGKILL')))
      await untilReady(writer)
      return writer
    }
    const offsets = () =>
      site.store.query<{ writer: string; next: number; stored: number; filtered: number; dead: number }>(
        `SELECT writer, next_offset::int AS next, stored::int AS stored, filtered::int AS filtered, dead_lettered::int AS dead
         FROM sluice.offsets ORDER BY writer`,
      )

    // While everything is filtered a writer has no number.
    await append(json('{"speed":1}'), json('{"speed":'))
    await start(documents)
    await start(records)
    await expect.poll(offsets).toEqual([{ writer: 'documents', next: 2, stored: 1, filtered: 0, dead: 1 }])
    await append(senml('[{"n":"a","v":1},{"n":"b","v":2}]'), json('{"speed":2}'), senml('[{"n":"c"'))
    await expect.poll(offsets).toEqual([
      { writer: 'documents', next: 5, stored: 2, filtered: 2, dead: 1 },
      { writer: 'records', next: 5, stored: 1, filtered: 3, dead: 1 },
    ])
    for (const environment of [documents, records]) {
      const { code, printed } = await runSluice(['verify', 'relational'], environment)
      expect([code, printed]).toEqual([0, expect.stringContaining('ok: 5 messages')])
    }
    expect((await runSluice(['verify', 'relational'], site.direct)).printed).toMatch(/--writer \(documents, records\)/)
    expect((await runSluice(['logs', 'relational'], site.direct)).printed).toMatch(
      /^1 +messages +\S+ +documents +application\/json +\S+ +current\n2 +messages +\S+ +records +application\/senml\+json, application\/senml\+cbor +/m,
    )

    const refused = await startWriter({ ...site.direct, ...shortWaits }, 'relational')
    expect(await refused.ended).toBe(1)
    expect(refused.printed()).toMatch(/belong to the writer \\"(documents|records)\\" .*transformer\.content_types/)
  })
})
