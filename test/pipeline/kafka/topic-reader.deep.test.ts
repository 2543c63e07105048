// The topic reader on Kafka: the contract on a real broker, every codec, and faults of a broker during reading.

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { openKafkaTopicReader } from '../../../pipeline/kafka/topic-reader.ts'
import { topicReaderConformance } from '../../conformance/topic-reader.ts'
import { describeWithKafka, describeWithOwnKafka, type KafkaAccess } from '../../servers/kafka.ts'
import { outgoing } from '../message.ts'
import { connectionTo } from './consumer/source-parts.ts'
import { logSettings, silent } from './stored-messages.ts'

const fetchBytes = 256 * 1024

/** With Kafka's own tool. */
async function deleteRecords(kafka: KafkaAccess, topic: string, offset: number): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-offsets-'))
  const file = join(folder, 'offsets.json')
  await writeFile(file, JSON.stringify({ partitions: [{ topic, partition: 0, offset }], version: 1 }))
  const command = ['-cp', kafka.classPath, 'org.apache.kafka.tools.DeleteRecordsCommand']
  await promisify(execFile)('java', [...command, '--bootstrap-server', kafka.brokers[0]!, '--offset-json-file', file])
  await rm(folder, { recursive: true })
}

describeWithKafka('a topic on Kafka', kafka => {
  topicReaderConformance('the topic reader', async () => {
    const topic = await kafka.createTopic()
    const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
    const reader = await openKafkaTopicReader({ connection: connectionTo(kafka.brokers), topic, fetchBytes })
    return {
      reader,
      append: async messages => void (await log.append(messages)),
      deleteBelow: offset => deleteRecords(kafka, topic, offset),
      async dispose() {
        await reader.close()
        await log.close()
      },
    }
  })

  test('a missing topic is a clear error, and is not created', async () => {
    const connection = connectionTo(kafka.brokers)
    await expect(openKafkaTopicReader({ connection, topic: 'absent', fetchBytes })).rejects.toThrow(/the topic absent does not exist/)
    await expect(openKafkaTopicReader({ connection, topic: 'absent', fetchBytes })).rejects.toThrow(/the topic absent does not exist/)
  })

  test('a topic that is recreated while it is read is not mistaken for the old one', async () => {
    const topic = await kafka.createTopic()
    const connection = connectionTo(kafka.brokers)
    const reader = await openKafkaTopicReader({ connection, topic, fetchBytes, patienceMs: 60_000 })
    await kafka.deleteTopic(topic)
    await kafka.createTopic({ name: topic })
    const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
    await log.append([outgoing()])
    const read = async (): Promise<void> => {
      for await (const _ of reader.read(0, 0, 1));
    }
    await expect(read()).rejects.toThrow(/recreated/)
    await reader.close()
    await log.close()
  })
})

describeWithOwnKafka('a broker that goes away', kafka => {
  test('is waited for while a topic is read, but no longer than the patience', async () => {
    const topic = await kafka.createTopic()
    const log = await openKafkaLog(logSettings(kafka.brokers, topic), silent)
    for (let at = 0; at < 4; at++) await log.append(Array.from({ length: 500 }, () => outgoing({ payload: new Uint8Array(1000) })))
    await log.close()
    const reader = await openKafkaTopicReader({ connection: connectionTo(kafka.brokers), topic, fetchBytes, patienceMs: 240_000 })
    let messages = 0
    let restarted: Promise<void> | undefined
    for await (const chunk of reader.read(0, 0, 2000)) {
      messages += chunk.to - chunk.from
      if (restarted !== undefined) continue
      await kafka.kill()
      restarted = kafka.restart()
    }
    await restarted
    expect(messages).toBe(2000)
    await reader.close()

    const impatient = await openKafkaTopicReader({ connection: connectionTo(kafka.brokers), topic, fetchBytes, patienceMs: 500 })
    await kafka.kill()
    const read = async (): Promise<void> => {
      for await (const _ of impatient.read(0, 0, 2000));
    }
    await expect(read()).rejects.toThrow(/cannot be/)
    await impatient.close()
  })
})
