// Describes topics, creates missing ones, and reads their offsets.

import { randomBytes } from 'node:crypto'
import { Admin, kGetApi, kGetBootstrapConnection } from '@platformatic/kafka'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { brokerError, code } from '../../../pipeline/kafka/failure.ts'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { describeTopic, openTopics, reachTopic, readCommitted, topicNames } from '../../../pipeline/kafka/topics.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { describeWithKafka } from '../../servers/kafka.ts'
import { outgoing } from '../message.ts'
import { recordingLogger } from '../writer/workers/recording-logger.ts'
import { connectionTo } from './consumer/source-parts.ts'
import { logSettings, readTopic, silent } from './stored-messages.ts'

const randomName = (): string => `test-${randomBytes(6).toString('hex')}`

test('a topic that this user may not see needs the right to describe it, whatever is done with it then', async () => {
  const refused = { brokers: [], topics: [{ name: 'plant', errorCode: 29, partitions: [] }] }
  const admin = {
    [kGetBootstrapConnection]: (done: (error: null, connection: object) => void) => done(null, {}),
    [kGetApi]: (_name: string, done: (error: null, api: object) => void) => done(null, { version: 12, async: async () => refused }),
  }
  const described = describeTopic(admin as unknown as Admin, 'plant')
  await expect(described).rejects.toBeInstanceOf(SystemicError)
  await expect(described).rejects.toThrow(/^no permission to see the topic plant: grant describe on it to the user$/)
})

describeWithKafka('a topic', kafka => {
  let admin: Admin
  beforeAll(() => {
    admin = new Admin({ clientId: 'test', bootstrapBrokers: [...kafka.brokers], retries: 20, retryDelay: 100 })
  })
  afterAll(() => admin.close())

  test('that is missing is created once by ten clients that open it at the same time, with the requested partitions', async () => {
    const topic = randomName()
    const settings = logSettings(kafka.brokers, topic, { partitions: 12 })
    const logs = await Promise.all(Array.from({ length: 10 }, () => openKafkaLog(settings, silent)))
    expect(new Set(logs.map(({ id }) => id)).size).toBe(1)
    expect(logs.map(({ partitions }) => partitions)).toEqual(logs.map(() => 12))
    await Promise.all(logs.map((log, at) => log.append([outgoing({ channel: `${at}` })])))
    await Promise.all(logs.map(log => log.close()))
    expect(await readTopic(kafka.brokers, topic)).toHaveLength(10)
  })

  test('that exists keeps its partitions', async () => {
    const topic = await kafka.createTopic({ partitions: 2 })
    const found = await openTopics(connectionTo(kafka.brokers), [topic], { partitions: 12, replicationFactor: 0, logger: silent })
    expect(found).toMatchObject([{ name: topic, partitions: 2 }])
  })

  test('that is missing is created with a line in the log, once, and only if that is allowed', async () => {
    const [there, missing] = [await kafka.createTopic({ partitions: 2 }), randomName()]
    const connection = connectionTo(kafka.brokers)
    const opening = openTopics(connection, [missing, there], undefined)
    await expect(opening).rejects.toBeInstanceOf(SystemicError)
    await expect(opening).rejects.toThrow(
      `the topic ${missing} does not exist: create it (kafka-topics.sh --bootstrap-server ${kafka.brokers[0]} --create --topic ${missing} --partitions 12), set log.create (SVC_LOG_CREATE) to true`,
    )
    expect(await describeTopic(admin, missing)).toBeUndefined()
    const { logger, lines } = recordingLogger()
    const make = { partitions: 3, replicationFactor: 0, logger }
    for (let time = 0; time < 2; time++) {
      const found = await openTopics(connection, [missing, there], make)
      expect(found.map(({ name, partitions }) => [name, partitions])).toEqual(
        [
          [missing, 3],
          [there, 2],
        ].toSorted(([one], [other]) => (one! < other! ? -1 : 1)),
      )
    }
    expect(lines()).toMatchObject([{ msg: 'created a topic', topic: missing, partitions: 3 }])
  })

  test('that matches a pattern is found when it is there', async () => {
    const prefix = randomName()
    const connection = connectionTo(kafka.brokers)
    const find = async (): Promise<string[]> => (await openTopics(connection, [`^${prefix}\\.`], undefined)).map(({ name }) => name)
    await expect(find()).rejects.toBeInstanceOf(LogUnavailableError)
    for (const name of ['b', 'b.dead-letters.relational', 'a']) await kafka.createTopic({ name: `${prefix}.${name}` })
    expect(await find()).toEqual([`${prefix}.a`, `${prefix}.b`])
    expect(await topicNames(connection, [`^${prefix}\\.a`, 'named'])).toEqual(['named', `${prefix}.a`].toSorted())
  })

  test('is created with the requested configuration', async () => {
    const topic = randomName()
    const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent, { 'max.message.bytes': '2000000' })
    await log.append([outgoing({ payload: new Uint8Array(1_900_000) })])
    await log.close()
  })

  test('that is missing and may not be created is a clear error', async () => {
    const topic = randomName()
    expect(await describeTopic(admin, topic)).toBeUndefined()
    const opening = reachTopic(admin, topic, undefined)
    await expect(opening).rejects.toBeInstanceOf(SystemicError)
    await expect(opening).rejects.toThrow(`the topic ${topic} does not exist: create it, or correct log.topic`)
  })

  test('with an invalid name is a clear error', async () => {
    await expect(describeTopic(admin, 'a topic')).rejects.toThrow(
      /a topic is not a valid topic name: correct log\.topic \(SVC_LOG_TOPIC\) and log\.group/,
    )
  })

  test('that cannot be created as requested is an error that names the option', async () => {
    const opening = openKafkaLog(logSettings(kafka.brokers, randomName(), { replicationFactor: 3 }), silent)
    await expect(opening).rejects.toBeInstanceOf(SystemicError)
    await expect(opening).rejects.toThrow(/does not exist and cannot be created .*log\.replication_factor/)
  })

  test('is created once a broker is registered, which none is after a restart or a pause', async () => {
    const name = randomName()
    const creating = vi.spyOn(admin, 'createTopics').mockRejectedValueOnce(brokerError(code.invalidReplicationFactor))
    const found = await reachTopic(admin, name, { partitions: 2, replicationFactor: 1, logger: silent })
    expect(found.partitions).toBe(2)
    expect(creating.mock.calls.length).toBeGreaterThan(1)
    creating.mockRestore()
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

  test('has the offsets that a group committed, and none for other partitions', async () => {
    const topic = await kafka.createTopic({ partitions: 3 })
    const group = randomName()
    expect(await readCommitted(admin, group, topic, [0, 1, 2])).toEqual(new Map())
    await admin.alterConsumerGroupOffsets({ groupId: group, topics: [{ name: topic, partitionOffsets: [{ partition: 1, offset: 42n }] }] })
    expect(await readCommitted(admin, group, topic, [0, 1, 2])).toEqual(new Map([[1, 42]]))
  })
})
