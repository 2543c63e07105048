// A row at a time: a consumer that inserts each message on its own, and commits its offset afterwards, as services do that are written in an hour.

import { Kafka, logLevel } from 'kafkajs'
import { Client } from 'pg'
import { type Peer, plainTable } from './peer.ts'

export const rowAtATime: Peer = {
  ...plainTable,
  name: 'row',
  title: 'A row at a time (Node.js, kafkajs, pg)',
  promise: 'at least once',
  command: ({ broker, topic, group, url }) => ({ words: [process.execPath, import.meta.filename, broker, topic, group, url] }),
}

if (import.meta.main) {
  const [broker, topic, group, url] = process.argv.slice(2) as [string, string, string, string]
  const store = new Client(url)
  store.on('error', error => {
    console.error(error.message)
    process.exit(1)
  })
  await store.connect()
  const consumer = new Kafka({ brokers: [broker], logLevel: logLevel.ERROR }).consumer({ groupId: group, sessionTimeout: 10_000 })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ message }) => {
      const { device, sent_us: sentUs, temperature } = JSON.parse(message.value!.toString()) as Record<string, unknown>
      await store.query({ name: 'insert', text: 'INSERT INTO readings VALUES ($1, $2, $3)', values: [device, sentUs, temperature] })
    },
  })
}
