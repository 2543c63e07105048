// Fills topics for the benchmark: one-record SenML messages as devices send them, packs of twelve, or the documents of another producer.

import { Value } from 'typebox/value'
import { createLogger } from '../../../config/logger.ts'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { kafkaLogOptions } from '../../../pipeline/kafka/options.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'

const appended = 5000
const things = 2000
const channels = 1000
const plants = 24
export const partitions = 12

function id(kind: string, number: number): string {
  return `0f8fad5b-d9cb-469f-${kind}-${String(number).padStart(12, '0')}`
}

function payload(at: number, records: number, timeSeconds: number): Buffer {
  const value = 20 + (at % 97) / 10
  if (records === 1) return Buffer.from(`[{"n":"urn:dev:ow:10e2073a0108${at % things}:temperature","u":"Cel","v":${value}}]`)
  const rest = Array.from({ length: records - 1 }, (_, record) => `{"n":"current","t":${record + 1 - records},"v":${value + record}}`)
  return Buffer.from(
    `[{"bn":"urn:dev:ow:10e2073a0108${at % things}:","bt":${timeSeconds},"bu":"A","n":"voltage","u":"V","v":${value}},${rest.join(',')}]`,
  )
}

/** Creates the topic and appends `messages` of `records` records each. */
export function fill(brokers: readonly string[], topic: string, messages: number, records: number): Promise<void> {
  const createdUs = Date.now() * 1000
  return append(brokers, topic, messages, at => ({
    channel: id('a165', at % channels),
    subtopic: 'floor.3.room',
    publisher: id('a166', at % things),
    protocol: 'http',
    contentType: 'application/senml+json',
    createdUs: createdUs + at,
    createdRestNs: 0,
    payload: payload(at, records, createdUs / 1e6),
  }))
}

/** Creates the topic and appends nested documents, keyed by the device, without any header. */
export function fillForeign(brokers: readonly string[], topic: string, messages: number): Promise<void> {
  const epochMs = Date.now() - messages
  return append(brokers, topic, messages, at => {
    const device = `press-${at % things}`
    const document = {
      device: { id: device, firmware: { version: '4.1.7', build: 20_260_914 } },
      plant: { id: `plant-${(at % things) % plants}`, line: at % 7 },
      sent: epochMs + at,
      readings: { temperature: 20 + (at % 97) / 10, pressure: 101_325 + (at % 1000), speeds: [at % 300, at % 311, at % 313] },
      running: at % 3 !== 0,
    }
    const nothing = { channel: '', subtopic: '', publisher: '', protocol: '', contentType: '', createdUs: 0, createdRestNs: 0 }
    return { ...nothing, key: Buffer.from(device), headers: [], payload: Buffer.from(JSON.stringify(document)) }
  })
}

async function append(
  brokers: readonly string[],
  topic: string,
  messages: number,
  messageAt: (at: number) => OutgoingMessage,
): Promise<void> {
  const log = await openKafkaLog(
    { ...Value.Create(kafkaLogOptions), brokers: [...brokers], topic, partitions, queueBytes: 256 * 2 ** 20, appendTimeoutMs: 60_000 },
    createLogger({ level: 'warn', pretty: false }),
  )
  for (let first = 0; first < messages; first += appended) {
    await log.append(Array.from({ length: Math.min(appended, messages - first) }, (_, step) => messageAt(first + step)))
  }
  await log.close()
}
