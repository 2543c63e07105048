// What the log on Kafka writes, and where: read back with an independent decoder.
//
// Longer than most files: one broker for all.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { connectTo, kafkaConnection, openAdmin } from '../../../pipeline/kafka/connection.ts'
import { type KafkaLog, type KafkaLogSettings, openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { encodeBatch } from '../../../pipeline/kafka/producer/batch.ts'
import { produce } from '../../../pipeline/kafka/producer/requests.ts'
import { describeTopic } from '../../../pipeline/kafka/topics.ts'
import { LogUnavailableError, MessageRefusedError, type OutgoingMessage } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { outgoing } from '../message.ts'
import { impatient, logSettings, readTopic, type StoredMessage, silent } from './stored-messages.ts'

const text = (payload: string, channel = 'c1'): OutgoingMessage => outgoing({ channel, payload: Buffer.from(payload) })

describeWithKafka('the log on Kafka', kafka => {
  async function withLog(
    work: (log: KafkaLog, topic: string) => Promise<void>,
    { partitions = 3, config = {} }: { partitions?: number; config?: Record<string, string> } = {},
    settings: Partial<KafkaLogSettings> = {},
    logger = silent,
  ): Promise<void> {
    const topic = await kafka.createTopic({ partitions, config })
    const log = await openKafkaLog(logSettings(kafka.brokers, topic, settings), logger)
    try {
      await work(log, topic)
    } finally {
      await log.close()
    }
  }

  test('a message has its channel as key, its unchanged payload as value, and its envelope in headers', () =>
    withLog(async (log, topic) => {
      const payload = Uint8Array.from({ length: 256 }, (_, byte) => byte)
      await log.append([outgoing({ channel: 'c1', subtopic: 'room.t', publisher: 't1', payload, createdRestNs: 7 })])
      const [stored] = await readTopic(kafka.brokers, topic)
      expect(stored!.key!.toString()).toBe('c1')
      expect(new Uint8Array(stored!.value)).toEqual(payload)
      expect(stored!.headers.map(([name, value]) => [name, value?.toString()])).toEqual([
        ['subtopic', 'room.t'],
        ['publisher', 't1'],
        ['protocol', 'http'],
        ['created', '1700000000000000007'],
        ['content-type', 'application/senml+json'],
      ])
      expect(Math.abs(stored!.timestampMs - Date.now())).toBeLessThan(60_000)
    }))

  test("the sender's headers are unchanged, whatever they contain, and none of them counts as the envelope", () =>
    withLog(async (log, topic) => {
      const bytes = Buffer.from([0, 0xff, 0xfe])
      const headers = [
        { key: 'trace', value: 'one' },
        { key: 'trace', value: null },
        { key: 'trace', value: bytes },
        { key: '', value: '' },
        { key: '__proto__', value: 'x' },
        { key: 'nul\0 line\n ü \u{1F321} toString', value: 'v'.repeat(10_000) },
        { key: 'k'.repeat(5000), value: 'ü'.repeat(63) },
        { key: 'publisher', value: 'somebody else' },
      ]
      await log.append([outgoing({ publisher: 't1', headers })])
      const [stored] = await readTopic(kafka.brokers, topic)
      const own = stored!.headers.slice(0, headers.length)
      expect(own.map(([name]) => name)).toEqual(headers.map(({ key }) => key))
      expect(own.map(([, value]) => value)).toEqual(
        headers.map(({ value }) => (value === null ? null : typeof value === 'string' ? Buffer.from(value) : value)),
      )
      // Of repeated headers the last one counts.
      expect(stored!.headers.findLast(([name]) => name === 'publisher')![1]!.toString()).toBe('t1')
    }))

  test('the key of a dead letter stays bytes, and a message without a key has none', () =>
    withLog(async (log, topic) => {
      const key = Buffer.from([0xff, 0, 0x80])
      const positions = await log.append([
        outgoing({ channel: '', key }),
        outgoing({ channel: '', key: Buffer.alloc(0) }),
        outgoing({ channel: '' }),
      ])
      const stored = await readTopic(kafka.brokers, topic)
      const keys = positions.map(at => stored.find(({ partition, offset }) => partition === at.partition && offset === at.offset)!.key)
      expect(keys).toEqual([key, Buffer.alloc(0), null])
    }))

  test('10,000 concurrent appends get exact positions, and each channel keeps its order', () =>
    withLog(
      async (log, topic) => {
        const sent = Array.from({ length: 10_000 }, (_, at) => ({ channel: `channel ${at % 37}`, payload: `${at}` }))
        const positions = await Promise.all(sent.map(({ channel, payload }) => log.append([text(payload, channel)])))
        const stored = new Map((await readTopic(kafka.brokers, topic)).map(one => [`${one.partition}-${one.offset}`, one]))
        expect(stored.size).toBe(10_000)
        const last = new Map<string, number>()
        sent.forEach(({ channel, payload }, at) => {
          const [position] = positions[at]!
          const one = stored.get(`${position!.partition}-${position!.offset}`)!
          expect([one.key!.toString(), one.value.toString()]).toEqual([channel, payload])
          expect(position!.offset).toBeGreaterThan(last.get(channel) ?? -1)
          last.set(channel, position!.offset)
        })
      },
      { partitions: 12 },
    ))

  test('one append to several partitions resolves with every position, in the order given', () =>
    withLog(async (log, topic) => {
      const messages = Array.from({ length: 100 }, (_, at) => text(`${at}`, `channel ${at}`))
      const positions = await log.append(messages)
      const stored = await readTopic(kafka.brokers, topic)
      const found = positions.map(at => stored.find(({ partition, offset }) => partition === at.partition && offset === at.offset)!)
      expect(found.map(({ value }) => value.toString())).toEqual(messages.map((_, at) => `${at}`))
      expect(new Set(positions.map(({ partition }) => partition)).size).toBe(3)
    }))

  test("a channel is written to the partition to which Kafka's own producer sends it", () =>
    withLog(
      async (log, topic) => {
        const channels = Array.from({ length: 50 }, (_, at) => `channel ${at} ü`)
        await produceByJava(topic, channels)
        await log.append(channels.map(channel => text('ours', channel)))
        const stored = await readTopic(kafka.brokers, topic)
        const places = (value: string): Map<string, number> =>
          new Map(stored.filter(one => one.value.toString() === value).map(one => [one.key!.toString(), one.partition]))
        expect(places('ours')).toEqual(places('theirs'))
        expect(new Set(places('ours').values()).size).toBe(12)
      },
      { partitions: 12 },
    ))

  /** Sends a message under each key with Kafka's console producer. */
  async function produceByJava(topic: string, keys: readonly string[]): Promise<void> {
    const flags = ['-Xmx128m', '-XX:TieredStopAtLevel=1', '-Dfile.encoding=UTF-8', '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn']
    const options = ['--topic', topic, '--bootstrap-server', kafka.brokers.join(), '--reader-property', 'parse.key=true']
    const java = spawn('java', [...flags, '-cp', kafka.classPath, 'org.apache.kafka.tools.ConsoleProducer', ...options], {
      stdio: ['pipe', 'ignore', 'inherit'],
    })
    java.stdin.end(keys.map(key => `${key}\ttheirs\n`).join(''))
    expect(await once(java, 'exit')).toEqual([0, null])
  }

  test('an append that exceeds the queue is refused, and smaller ones are accepted', () =>
    withLog(
      async (log, topic) => {
        const payload = new Uint8Array(4000)
        const results = await Promise.allSettled(Array.from({ length: 5 }, () => log.append([outgoing({ payload })])))
        expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected', 'rejected'])
        expect((results[2] as PromiseRejectedResult).reason).toBeInstanceOf(LogUnavailableError)
        // A message that never fits is refused permanently.
        await expect(log.append([outgoing({ payload: new Uint8Array(10_000) })])).rejects.toThrow(MessageRefusedError)
        // The accepted messages have left the queue.
        await log.append([outgoing({ payload })])
        expect(await readTopic(kafka.brokers, topic)).toHaveLength(3)
      },
      {},
      { queueBytes: 10_000 },
    ))

  test('a message larger than the topic allows is refused permanently, and affects no other in its batch', () =>
    withLog(
      async (log, topic) => {
        const results = await Promise.allSettled([
          log.append([text('a')]),
          log.append([outgoing({ payload: new Uint8Array(20_000) })]),
          log.append([text('b')]),
          ...Array.from({ length: 100 }, (_, at) => log.append([text(`${at}`.padStart(500, '.'))])),
        ])
        expect(results.map(({ status }) => status).filter(status => status === 'rejected')).toHaveLength(1)
        const { reason } = results[1] as PromiseRejectedResult
        expect(reason).toBeInstanceOf(MessageRefusedError)
        expect((reason as Error).message).toMatch(/accepts no message of 20\d{3} bytes .*max\.message\.bytes/)
        const stored = await readTopic(kafka.brokers, topic)
        expect(stored).toHaveLength(102)
        expect(stored.slice(0, 2).map(({ value }) => value.toString())).toEqual(['a', 'b'])
        expect(stored.slice(2).map(({ value }) => Number(value.toString().replaceAll('.', '')))).toEqual(
          Array.from({ length: 100 }, (_, at) => at),
        )
      },
      { partitions: 1, config: { 'max.message.bytes': '10000' } },
    ))

  test('a whole append that is larger than the topic allows for a batch is refused as a whole, and affects no other', () =>
    withLog(
      async (log, topic) => {
        const many = Array.from({ length: 20 }, (_, at) => text(`${at}`.padStart(1000, '.')))
        const results = await Promise.allSettled([
          log.append([text('a')]),
          log.append(many, { isWhole: true }),
          log.append([text('b'), text('c')], { isWhole: true }),
          log.append([text('d')]),
        ])
        expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
        const { reason } = results[1] as PromiseRejectedResult
        expect(reason).toBeInstanceOf(MessageRefusedError)
        expect((reason as Error).message).toMatch(/accepts no batch of 20 messages of 2\d{4} bytes .*max\.message\.bytes/)
        expect((await readTopic(kafka.brokers, topic)).map(({ value }) => value.toString())).toEqual(['a', 'b', 'c', 'd'])
      },
      { partitions: 1, config: { 'max.message.bytes': '10000' } },
    ))

  test('a message that the topic never accepts is refused alone: one without a key in a compacted topic', () =>
    withLog(
      async (log, topic) => {
        const results = await Promise.allSettled([
          log.append([text('a')]),
          log.append([outgoing({ channel: '' })]),
          log.append([text('b')]),
        ])
        expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
        expect((results[1] as PromiseRejectedResult).reason).toBeInstanceOf(MessageRefusedError)
        expect((await readTopic(kafka.brokers, topic)).map(({ value }) => value.toString())).toEqual(['a', 'b'])
      },
      { partitions: 1, config: { 'cleanup.policy': 'compact' } },
    ))

  test.each<[string, Record<string, string>, (readonly [key: string, isShortened: boolean])[]]>([
    [
      'that is compacted, and so takes none without a key',
      { 'cleanup.policy': 'compact' },
      [
        ['c1', false],
        ['0-1', true],
      ],
    ],
    [
      'with room for less than a reason',
      { 'max.message.bytes': '500' },
      [
        ['0-0', true],
        ['0-1', true],
      ],
    ],
  ])('a topic of dead letters %s gets a letter of each message', (_name, config, expected) =>
    withLog(
      async (log, topic) => {
        await putDeadLetters(log)
        const found = new Map<string, boolean>()
        for (const { key, headers } of await readTopic(kafka.brokers, topic)) {
          expect(headers.map(([name]) => name)).toEqual(expect.arrayContaining(['sluice.partition', 'sluice.offset', 'sluice.rule']))
          found.set(
            key!.toString(),
            headers.some(([name]) => name === 'sluice.shortened'),
          )
        }
        expect([...found]).toEqual(expected)
      },
      { partitions: 1, config },
    ),
  )

  test('a topic of dead letters with room for none ends the writer with a sentence that says what to raise', () =>
    withLog(
      async log => {
        const reason = await putDeadLetters(log).catch((error: unknown) => error)
        expect(reason).toBeInstanceOf(SystemicError)
        expect((reason as Error).message).toMatch(/^the topic messages\.dead-letters\.w refuses even .*raise its max\.message\.bytes/)
      },
      { partitions: 1, config: { 'max.message.bytes': '100' } },
    ))

  /** Of a message, and of one without a key. */
  async function putDeadLetters(log: KafkaLog): Promise<void> {
    const deadLetters = openDeadLetters({ logOf: async () => log, topics: ['messages'], logIds: ['id'], logNumbers: [1], writer: 'w' })
    const rejection = { message: 0, rule: 'numbers', reason: 'a reason '.repeat(50) }
    const messages = [outgoing({ payload: new Uint8Array(10_000) }), outgoing({ channel: '' })]
    await deadLetters.put(messages.map((message, offset) => ({ stage: 'decode', at: logPartition(0, 0), offset, rejection, message })))
  }

  test('an outage is logged once when it begins and once when it ends', () => {
    const lines: string[] = []
    const stream = new Writable({
      write(chunk: Buffer, _encoding, done) {
        const { msg } = JSON.parse(chunk.toString()) as { msg: string }
        if (msg === 'log cannot be written' || msg === 'log is writable again') lines.push(msg)
        done()
      },
    })
    return withLog(
      async (log, topic) => {
        await log.append([text('before')])
        await kafka.deleteTopic(topic)
        const append = (): Promise<unknown> => log.append([text('x'), text('y')]).catch((error: unknown) => error)
        // The broker deletes it a moment after it has agreed to.
        await expect.poll(append).toBeInstanceOf(LogUnavailableError)
        for (const refused of await Promise.all([append(), append()])) expect(refused).toBeInstanceOf(LogUnavailableError)
        expect(lines).toEqual(['log cannot be written'])
        await kafka.createTopic({ name: topic, partitions: 3 })
        await expect.poll(() => log.append([text('after')]).catch(() => [])).toHaveLength(1)
        expect(lines).toEqual(['log cannot be written', 'log is writable again'])
      },
      {},
      impatient,
      pino({ level: 'debug' }, stream),
    )
  })

  test('without its topic an append is refused in time and the check says so; after the topic is recreated it continues under the new id', () =>
    withLog(
      async (log, topic) => {
        const { id } = log
        await log.append([text('before')])
        await kafka.deleteTopic(topic)
        await expect.poll(() => log.check().catch((error: unknown) => String(error))).toMatch(/the topic \S+ does not exist/)
        // It is repeated until the append expires: nothing else ends it.
        const refused = await log.append([text('x')]).catch((error: unknown) => error)
        expect(refused).toBeInstanceOf(LogUnavailableError)
        expect((refused as Error).message).toMatch(/does not accept messages .*topic/)
        await kafka.createTopic({ name: topic, partitions: 3 })
        await expect.poll(() => log.append([text('after')]).catch(() => [])).toHaveLength(1)
        await log.check()
        await expect.poll(() => log.id).not.toBe(id)
        expect((await readTopic(kafka.brokers, topic)).map(({ value }) => value.toString())).toContain('after')
      },
      {},
      impatient,
    ))

  test('a log whose producer the broker no longer accepts continues with a new one, and duplicates nothing', () =>
    withLog(
      async (log, topic) => {
        await log.append([text('before')])
        const [{ producerId }] = (await readTopic(kafka.brokers, topic)) as [StoredMessage]
        const connection = await kafkaConnection(logSettings(kafka.brokers, topic))
        const admin = await openAdmin(connection)
        const [leader] = (await describeTopic(admin, topic))!.leaders
        // Another producer with the same id and a higher epoch.
        const bytes = encodeBatch([text('theirs')], { producerId, epoch: 1, sequence: 0 }, Date.now())
        const produced = await produce(await connectTo(admin, leader!), topic, [{ partition: 0, bytes }], 1000)
        expect(produced).toEqual([{ partition: 0, errorCode: 0, baseOffset: 1 }])
        await admin.close()

        expect(await log.append([text('after')])).toEqual([{ partition: 0, offset: 2 }])
        const stored = await readTopic(kafka.brokers, topic)
        expect(stored.map(({ value }) => value.toString())).toEqual(['before', 'theirs', 'after'])
        expect(stored[2]!.producerId).not.toBe(producerId)
      },
      { partitions: 1 },
    ))

  test('a batch that was damaged on the way is sent again, and one that the broker always takes for damaged is refused', () =>
    withLog(
      async (log, topic) => {
        const copy = Buffer.copyBytesFrom.bind(Buffer)
        const damaged: typeof copy = (...of) => {
          const batch = copy(...of)
          batch[batch.length - 1]! ^= 1
          return batch
        }
        const encoded = vi.spyOn(Buffer, 'copyBytesFrom').mockImplementationOnce(damaged)
        onTestFinished(() => encoded.mockRestore())
        await log.append([text('a'), text('b')])
        encoded.mockImplementation(damaged)
        await expect(log.append([text('c')])).rejects.toThrow(MessageRefusedError)
        encoded.mockRestore()
        await log.append([text('d')])
        expect((await readTopic(kafka.brokers, topic)).map(({ value }) => value.toString())).toEqual(['a', 'b', 'd'])
      },
      { partitions: 1 },
    ))

  test('if the topic does not accept the time of this machine, appends are refused at once, by what corrects it', () =>
    withLog(
      async log => {
        const now = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 3_600_000)
        onTestFinished(() => now.mockRestore())
        const [refused] = await Promise.allSettled([log.append([text('a'), text('b')])])
        const { reason } = refused as PromiseRejectedResult
        expect(reason).toBeInstanceOf(SystemicError)
        expect((reason as Error).message).toMatch(
          /does not accept the time of this machine, .*: correct the clock, or its message\.timestamp/,
        )
        await expect(log.check()).rejects.toBe(reason)
        now.mockRestore()
        expect(await log.append([text('c')])).toHaveLength(1)
        await log.check()
      },
      { partitions: 1, config: { 'message.timestamp.after.max.ms': '60000' } },
    ))

  test('times before 1970 and at the ends of the safe range are written exactly', () =>
    withLog(async (log, topic) => {
      const timestamps = [
        [0, 0],
        [-1, 999],
        [1, 1],
        [Number.MAX_SAFE_INTEGER, 999],
        [Number.MIN_SAFE_INTEGER, 0],
      ] as const
      await log.append(timestamps.map(([createdUs, createdRestNs]) => outgoing({ createdUs, createdRestNs })))
      const stored = await readTopic(kafka.brokers, topic)
      const created = stored.map(({ headers }) => headers.find(([name]) => name === 'created')![1]!.toString())
      expect(created).toEqual(['0', '-1', '1001', '9007199254740991999', '-9007199254740991000'])
    }))

  test('a recreated topic has another id', async () => {
    const topic = await kafka.createTopic()
    const before = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
    await before.close()
    await kafka.deleteTopic(topic)
    await expect.poll(() => kafka.createTopic({ name: topic }).catch(() => 'not yet')).toBe(topic)
    const after = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
    await after.close()
    expect(after.id).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    expect(after.id).not.toBe(before.id)
  })
})
