// Two writers of one database: of one topic, each for other content types, and each message is stored by one of them; of two topics, under one name.

import { Consumer } from '@platformatic/kafka'
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

describeUnlessMissing('two writers', missingKafka() ?? missingPostgres(), () => {
  test('of one topic store what is theirs and filter the rest, are verified apart, and a third one for everything is refused', async () => {
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

  test('of two topics, with the same default name, store both, whichever starts first', async () => {
    const site = await openSite({ partitions: 3 })
    onTestFinished(() => site.close())
    const topics = ['a', 'b']
    const environments = topics.map((topic): Environment => ({ ...site.direct, SVC_LOG_TOPIC: topic }))
    const append = async (topic: string, count: number): Promise<void> => {
      const log = await openKafkaLog(logSettings(site.kafka.brokers, topic, { partitions: 3 }), silent)
      await log.append(Array.from({ length: count }, (_, at) => outgoing({ payload: utf8(`[{"n":"t","v":${at}}]`), channel: `c${at}` })))
      await log.append([outgoing({ payload: utf8('no JSON'), channel: 'c' })])
      await log.close()
    }
    const start = async (nth: number) => {
      const writer = await startWriter({ ...environments[nth], ...shortWaits, SVC_WORKERS_COUNT: '1' }, 'relational')
      onTestFinished(async () => void (await writer.stop('SIGKILL')))
      await untilReady(writer)
      return writer
    }
    const stored = () =>
      site.store.query<{ name: string; writer: string; stored: number; dead: number }>(
        `SELECT logs.name, offsets.writer, sum(stored)::int AS stored, sum(dead_lettered)::int AS dead
         FROM sluice.offsets JOIN sluice.logs ON logs.number = offsets.log GROUP BY 1, 2 ORDER BY 1`,
      )
    for (const topic of topics) await site.kafka.createTopic({ name: topic, partitions: 3 })
    for (const [round, order] of [
      [1, [0, 1]],
      [2, [1, 0]],
    ] as const) {
      for (const topic of topics) await append(topic, 500)
      const writers = [await start(order[0]), await start(order[1])]
      await expect.poll(stored).toEqual(topics.map(name => ({ name, writer: 'relational', stored: 500 * round, dead: round })))
      if (round === 2) {
        const freed = await runSluice(['logs', 'relational', '--free', '2'], environments[1]!)
        expect(freed.printed).toMatch(/stop all its processes first/)
      }
      for (const [nth, writer] of writers.entries()) {
        const lagging = async () =>
          [...(await writer.metrics('consumer_lag_messages')).keys()].map(label => /topic="(\w+)"/.exec(label)![1])
        await expect.poll(lagging).toEqual(Array(3).fill(topics[order[nth]!]))
        expect(await writer.stop()).toBe(0)
      }
    }
    for (const [nth, topic] of topics.entries()) {
      const { code, printed } = await runSluice(['verify', 'relational'], environments[nth]!)
      expect([code, printed]).toEqual([0, expect.stringContaining(`log ${topic} (`)])
    }
    const groups = (await site.tools.admin.listGroups()).groups.map(({ groupId }) => groupId)
    expect(groups).toEqual(expect.arrayContaining(['relational.a', 'relational.b']))
  })

  test('a writer in a group that another program leads says that it gets no partition, and is well again when that program leaves', async () => {
    const site = await openSite({ partitions: 2 })
    onTestFinished(() => site.close())
    await site.kafka.createTopic({ name: 'other', partitions: 2 })
    const program = new Consumer({
      clientId: 'other-program',
      groupId: 'plant',
      bootstrapBrokers: [...site.kafka.brokers],
      autocommit: false,
    })
    // As the leader it assigns only the topics that it reads itself.
    const stream = await program.consume({ topics: ['other'], mode: 'earliest' })
    const environment = { ...site.direct, ...shortWaits, SVC_LOG_GROUP: 'plant', SVC_WORKERS_COUNT: '2', SVC_CONSUMER_METADATA_MS: '500' }
    const start = async () => {
      const writer = await startWriter(environment, 'relational')
      onTestFinished(async () => void (await writer.stop('SIGKILL')))
      await untilReady(writer)
      return writer
    }
    const writer = await start()
    const unassigned = () => writer.metric('consumer_unassigned_partitions', 'topic="messages"')
    const health = async () => {
      const { status, checks } = await writer.health()
      return [status, checks['partitions']]
    }
    await expect.poll(unassigned).toBe(2)
    expect(await health()).toEqual([200, 'warn'])
    await site.tools.appendTexts(site.topic, ['no message', 'no message'], 1)
    await expect.poll(() => writer.metric('consumer_lag_messages', 'topic="messages"')).toBe(2)
    await expect.poll(() => writer.metric('consumer_lag_seconds', 'partition="1"')).toBeGreaterThan(0)
    expect(await writer.ready()).toBe(200)
    const said = (level: string) => writer.logged().flatMap(line => (line['level'] === level ? [String(line['msg'])] : []))
    const sentence =
      /^no member of the consumer group plant has the partitions 0, 1 of the topic messages, .*leads the group is another program.* other-program at 127\.0\.0\.1.*log\.group \(SVC_LOG_GROUP\)$/
    expect(said('warn')).toEqual([expect.stringMatching(sentence)])

    await stream.close()
    await program.close()
    await expect.poll(unassigned).toBe(0)
    await expect.poll(health).toEqual([200, 'pass'])
    await expect.poll(() => writer.metric('consumer_lag_messages')).toBe(0)
    expect(said('info')).toContain('every partition of the topics has a member of the consumer group again')
    // More workers than partitions are normal.
    const more = await start()
    await expect.poll(() => more.metric('consumer_unassigned_partitions')).toBe(0)
    expect([
      said('warn').filter(line => line !== 'messages dead-lettered').length,
      more.logged().filter(({ level }) => level === 'warn'),
    ]).toEqual([1, []])
  })
})
