// Fills topics for the benchmark: one-record SenML messages as devices send them, or packs of twelve.

import { Value } from 'typebox/value'
import { createLogger } from '../../../config/logger.ts'
import { openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { kafkaLogOptions } from '../../../pipeline/kafka/options.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'

const appended = 5000
const things = 2000
const channels = 1000
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

/** Makes the topic and appends `messages`, each of `records` records. */
export async function fill(brokers: readonly string[], topic: string, messages: number, records: number): Promise<void> {
  const log = await openKafkaLog(
    { ...Value.Create(kafkaLogOptions), brokers: [...brokers], topic, partitions, queueBytes: 256 * 2 ** 20, appendTimeoutMs: 60_000 },
    createLogger({ level: 'warn', pretty: false }),
  )
  const createdUs = Date.now() * 1000
  for (let first = 0; first < messages; first += appended) {
    const group = Array.from({ length: Math.min(appended, messages - first) }, (_, step): OutgoingMessage => {
      const at = first + step
      return {
        channel: id('a165', at % channels),
        subtopic: 'floor.3.room',
        publisher: id('a166', at % things),
        protocol: 'http',
        contentType: 'application/senml+json',
        createdUs: createdUs + at,
        createdRestNs: 0,
        payload: payload(at, records, createdUs / 1e6),
      }
    })
    await log.append(group)
  }
  await log.close()
}
