// Topics as the brokers describe them, made where they are missing, and their offsets.

import { randomBytes } from 'node:crypto'
import { Admin } from '@platformatic/kafka'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { describeTopic, openTopic, reachTopic, readBounds, readCommitted } from '../../../pipeline/kafka/topics.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { outgoing } from '../message.ts'
import { logSettings, readTopic, silent } from './stored-messages.ts'

const randomName = (): string => `test-${randomBytes(6).toString('hex')}`

describeWithKafka('a topic', kafka => {
  let admin: Admin
  beforeAll(() => {
    admin = new Admin({ clientId: 'test', bootstrapBrokers: [...kafka.brokers], retries: 20, retryDelay: 100 })
  })
  afterAll(() => admin.close())

  test('that is missing is made once by ten that open it at once, with the partitions asked for', async () => {
    const topic = randomName()
    const settings = logSettings(kafka.brokers, topic, { partitions: 12 })
    const logs = await Promise.all(Array.from({ length: 10 }, () => openKafkaLog(settings, silent)))
    expect(new Set(logs.map(({ id }) => id)).size).toBe(1)
    expect(logs.map(({ partitions }) => partitions)).toEqual(logs.map(() => 12))
    await Promise.all(logs.map((log, at) => log.append([outgoing({ channel: `${at}` })])))
    await Promise.all(logs.map(log => log.close()))
    expect(await readTopic(kafka.brokers, topic)).toHaveLength(10)
  })

  test('that is there keeps its partitions', async () => {
    const topic = await kafka.createTopic({ partitions: 2 })
    const connection = {
      brokers: kafka.brokers,
      clientId: 'test',
      tls: undefined,
      sasl: undefined,
      connectTimeoutMs: 1000,
      requestTimeoutMs: 1000,
    }
    expect(await openTopic(connection, { topic, partitions: 12, replicationFactor: 0 })).toMatchObject({ name: topic, partitions: 2 })
  })

  test('is made with the configuration asked for', async () => {
    const topic = randomName()
    const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent, { 'max.message.bytes': '2000000' })
    await log.append([outgoing({ payload: new Uint8Array(1_900_000) })])
    await log.close()
  })

  test('that is missing and not to be made is a sentence', async () => {
    const topic = randomName()
    expect(await describeTopic(admin, topic)).toBeUndefined()
    const opening = reachTopic(admin, topic, undefined)
    await expect(opening).rejects.toBeInstanceOf(SystemicError)
    await expect(opening).rejects.toThrow(`there is no topic ${topic}: make it, or set log.topic`)
  })

  test('whose name cannot be is a sentence', async () => {
    await expect(describeTopic(admin, 'a topic')).rejects.toThrow(
      /a topic is no name for a topic: correct log\.topic \(SVC_LOG_TOPIC\) and log\.group/,
    )
  })

  test('that cannot be made as asked is a sentence that names the option', async () => {
    const opening = openKafkaLog(logSettings(kafka.brokers, randomName(), { replicationFactor: 3 }), silent)
    await expect(opening).rejects.toBeInstanceOf(SystemicError)
    await expect(opening).rejects.toThrow(/is missing and cannot be made .*log\.replication_factor/)
  })

  test('has an id, and the address of the leader of each partition', async () => {
    const topic = await kafka.createTopic({ partitions: 3 })
    const [host, port] = kafka.brokers[0]!.split(':')
    const leader = { host, port: Number(port) }
    expect(await reachTopic(admin, topic, undefined)).toEqual({
      name: topic,
      id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      partitions: 3,
      leaders: [leader, leader, leader],
    })
  })

  test('has bounds: its first offset that is still there, and the next one', async () => {
    const topic = await kafka.createTopic({ partitions: 2 })
    const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
    const positions = await log.append(Array.from({ length: 20 }, (_, at) => outgoing({ channel: `channel ${at}` })))
    await log.close()
    const [zero, one] = [0, 1].map(partition => positions.filter(at => at.partition === partition).length)
    expect(zero).toBeGreaterThan(1)
    await admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset: 1n }] }] })
    expect(await readBounds(admin, topic, [0, 1])).toEqual(
      new Map([
        [0, { start: 1, end: zero }],
        [1, { start: 0, end: one }],
      ]),
    )
  })

  test('has the offsets that a group committed, and none for a partition of which it committed none', async () => {
    const topic = await kafka.createTopic({ partitions: 3 })
    const group = randomName()
    expect(await readCommitted(admin, group, topic, [0, 1, 2])).toEqual(new Map())
    await admin.alterConsumerGroupOffsets({ groupId: group, topics: [{ name: topic, partitionOffsets: [{ partition: 1, offset: 42n }] }] })
    expect(await readCommitted(admin, group, topic, [0, 1, 2])).toEqual(new Map([[1, 42]]))
  })
})
