// The Kafka broker that the suites of a run share: what it takes, and who it lets in.

import { Consumer, Producer, type SASLOptions, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import { expect, test } from 'vitest'
import { describeWithKafka } from './kafka.ts'
import { requestServer } from './server-request.ts'

interface WayIn {
  brokers: readonly string[]
  tls?: { ca: string }
  sasl?: SASLOptions
}

/** Resolves when the broker has acknowledged it. */
async function send(topic: string, { brokers, ...way }: WayIn): Promise<void> {
  const producer = new Producer({ clientId: 'test', bootstrapBrokers: [...brokers], serializers: stringSerializers, retries: 0, ...way })
  try {
    await producer.send({ messages: [{ topic, key: 'k', value: 'v' }] })
  } finally {
    await producer.close()
  }
}

describeWithKafka('the shared broker', kafka => {
  test('gives back what it acknowledged', async () => {
    const topic = await kafka.createTopic({ partitions: 3 })
    await send(topic, kafka)
    const consumer = new Consumer({
      clientId: 'test',
      groupId: topic,
      bootstrapBrokers: [...kafka.brokers],
      deserializers: stringDeserializers,
    })
    const messages = await consumer.consume({ topics: [topic], mode: 'earliest' })
    for await (const { key, value } of messages) {
      expect([key, value]).toEqual(['k', 'v'])
      break
    }
    await consumer.close(true)
  })

  test('is one for all who ask', async () => {
    expect(await requestServer('kafka')).toEqual(await requestServer('kafka'))
    await expect(requestServer('none')).rejects.toThrow('no server is called none: add it to run-setup.ts')
  })

  test('makes topics as they are asked for, deletes them, and makes none by itself', async () => {
    const topic = await kafka.createTopic({ name: 'greenhouse', config: { 'cleanup.policy': 'compact' } })
    expect(topic).toBe('greenhouse')
    await expect(kafka.createTopic({ name: 'greenhouse' })).rejects.toThrow()
    await kafka.deleteTopic('greenhouse')
    await expect(send('greenhouse', kafka)).rejects.toThrow()
  })

  test('lets in by TLS who trusts its certificate, and nobody who does not', async () => {
    const { tls, certificate } = kafka.secured
    const topic = await kafka.createTopic()
    await send(topic, { brokers: tls, tls: { ca: certificate } })
    await expect(send(topic, { brokers: tls, tls: { ca: '' } })).rejects.toThrow()
  })

  test.each(['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'] as const)('lets in by %s who knows the password', async mechanism => {
    const { sasl, saslTls, certificate, username, password } = kafka.secured
    const topic = await kafka.createTopic()
    await send(topic, { brokers: sasl, sasl: { mechanism, username, password } })
    await send(topic, { brokers: saslTls, tls: { ca: certificate }, sasl: { mechanism, username, password } })
    await expect(send(topic, { brokers: sasl, sasl: { mechanism, username, password: 'wrong' } })).rejects.toThrow()
  })

  test("runs Kafka's own tools", async () => {
    const topic = await kafka.createTopic()
    const records = ['--num-records', '100', '--record-size', '10', '--throughput', '-1']
    const printed = await kafka.tool('ProducerPerformance', ['--topic', topic, '--bootstrap-server', kafka.brokers.join(), ...records])
    expect(printed).toContain('100 records sent')
    await expect(kafka.tool('ProducerPerformance', ['--topic'])).rejects.toThrow()
  })
})
