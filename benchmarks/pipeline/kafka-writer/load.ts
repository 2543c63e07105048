// Fills topics for the benchmark: one-record SenML messages as devices send them, packs of twelve, or the documents of another producer.

import { Value } from 'typebox/value'
import { createLogger } from '../../../config/logger.ts'
import { type KafkaLog, openKafkaLog } from '../../../pipeline/kafka/log.ts'
import { kafkaLogOptions } from '../../../pipeline/kafka/options.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'

const appended = 5000
/** Each sends one value, or a pack of two: 20,000 or 40,000 series. */
const things = 20_000
const channels = 200
const presses = 2000
const plants = 24
export const partitions = 8
/** Between two messages, whichever thing they are of. */
const betweenUs = 100

export interface SentMessage {
  /** Of the fleet's messages: decides the thing and the value. */
  readonly at: number
  readonly records: number
  readonly createdUs: number
}

function id(kind: string, number: number): string {
  return `0f8fad5b-d9cb-469f-${kind}-${String(number).padStart(12, '0')}`
}

function payload({ at, records, createdUs }: SentMessage): Buffer {
  const value = 20 + (at % 97) / 10
  const device = `urn:dev:ow:10e2073a0108${at % things}`
  if (records === 1) return Buffer.from(`[{"n":"${device}:temperature","u":"Cel","v":${value}}]`)
  const rest = Array.from({ length: records - 1 }, (_, record) => `{"n":"current","t":${record + 1 - records},"v":${value + record}}`)
  const time = (createdUs / 1e6).toFixed(6)
  return Buffer.from(`[{"bn":"${device}:","bt":${time},"bu":"A","n":"voltage","u":"V","v":${value}},${rest.join(',')}]`)
}

/** A message as a device of the fleet sends it. */
export function fleetMessage(message: SentMessage): OutgoingMessage {
  const thing = message.at % things
  return {
    channel: id('a165', thing % channels),
    subtopic: 'floor.3.room',
    publisher: id('a166', thing),
    protocol: 'http',
    contentType: 'application/senml+json',
    createdUs: message.createdUs,
    createdRestNs: 0,
    payload: payload(message),
  }
}

/** Creates the topic and appends `messages` of `records` records each. */
export function fill(brokers: readonly string[], topic: string, messages: number, records: number): Promise<void> {
  const epochUs = Date.now() * 1000 - messages * betweenUs
  return append(brokers, topic, messages, at => fleetMessage({ at, records, createdUs: epochUs + at * betweenUs }))
}

/** Creates the topic and appends messages of one record, each with a name of its own, from so many things in as many channels. */
export function fillNewNames(brokers: readonly string[], topic: string, messages: number, thingsOfNames: number): Promise<void> {
  const epochUs = Date.now() * 1000 - messages * betweenUs
  return append(brokers, topic, messages, at => ({
    ...fleetMessage({ at, records: 1, createdUs: epochUs + at * betweenUs }),
    channel: id('a165', at % thingsOfNames),
    publisher: id('a166', at % thingsOfNames),
    payload: Buffer.from(`[{"n":"urn:dev:ow:10e2073a0108:value-${at}","u":"Cel","v":${20 + (at % 97) / 10}}]`),
  }))
}

export interface Fleet {
  readonly messages: number
  readonly partitions: number
  /** Each message is of the next one. */
  readonly series: number
  /** JSON messages in so many formats; SenML if 0. */
  readonly formats: number
}

/** Creates the topic and appends messages of one record. */
export function fillFleet(
  brokers: readonly string[],
  topic: string,
  { messages, partitions: count, series, formats }: Fleet,
): Promise<void> {
  const epochUs = Date.now() * 1000 - messages * betweenUs
  function messageAt(at: number): OutgoingMessage {
    const thing = (at % series) % things
    const rank = Math.floor((at % series) / things)
    const value = 20 + (at % 97) / 10
    const senml = `[{"n":"urn:dev:ow:10e2073a0108${thing}:temperature${rank === 0 ? '' : rank}","u":"Cel","v":${value}}]`
    const message = { ...fleetMessage({ at: thing, records: 1, createdUs: epochUs + at * betweenUs }), payload: Buffer.from(senml) }
    if (formats === 0) return message
    const payload = Buffer.from(`{"temperature":${value},"running":${at % 3 !== 0}}`)
    return { ...message, subtopic: `floor.3.format-${at % formats}`, contentType: 'application/json', payload }
  }
  return append(brokers, topic, messages, messageAt, count)
}

/** Creates the topic and appends nested documents, keyed by the device, without any header. */
export function fillForeign(brokers: readonly string[], topic: string, messages: number): Promise<void> {
  const epochMs = Date.now() - messages
  return append(brokers, topic, messages, at => {
    const device = `press-${at % presses}`
    const document = {
      device: { id: device, firmware: { version: '4.1.7', build: 20_260_914 } },
      plant: { id: `plant-${(at % presses) % plants}`, line: at % 7 },
      sent: epochMs + at,
      readings: { temperature: 20 + (at % 97) / 10, pressure: 101_325 + (at % 1000), speeds: [at % 300, at % 311, at % 313] },
      running: at % 3 !== 0,
    }
    const nothing = { channel: '', subtopic: '', publisher: '', protocol: '', contentType: '', createdUs: 0, createdRestNs: 0 }
    return { ...nothing, key: Buffer.from(device), headers: [], payload: Buffer.from(JSON.stringify(document)) }
  })
}

/** Creates the topic. */
export function openTopic(brokers: readonly string[], topic: string, partitionCount = partitions): Promise<KafkaLog> {
  return openKafkaLog(
    {
      ...Value.Create(kafkaLogOptions),
      brokers: [...brokers],
      topic,
      partitions: partitionCount,
      queueBytes: 256 * 2 ** 20,
      appendTimeoutMs: 60_000,
    },
    createLogger({ level: 'warn', pretty: false }),
  )
}

async function append(
  brokers: readonly string[],
  topic: string,
  messages: number,
  messageAt: (at: number) => OutgoingMessage,
  partitionCount = partitions,
): Promise<void> {
  const log = await openTopic(brokers, topic, partitionCount)
  for (let first = 0; first < messages; first += appended) {
    await log.append(Array.from({ length: Math.min(appended, messages - first) }, (_, step) => messageAt(first + step)))
  }
  await log.close()
}
