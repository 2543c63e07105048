// What a message costs from the bytes of a fetch to its envelope and payload, beside what the decoders of the clients take on the same bytes.
//
// Messages of one SenML record of about 80 bytes with the five headers of the envelope, 1,000 to a batch; each turn takes several batches
// of other devices, which lie in memory of their own. Ours checks the CRC and makes the texts of the envelope; the clients do neither:
// they make an object for each record and leave keys and headers as bytes.

import { createRequire } from 'node:module'
import { createRecordsBatch, Reader, readRecordsBatches } from '@platformatic/kafka'
import { crc32c, crc32cByTables, isNative } from '../../pipeline/kafka/crc32c.ts'
import { type Fetched, runsOf } from '../../pipeline/kafka/record-set.ts'
import type { RawRun } from '../../pipeline/source.ts'
import { median } from '../median-time.ts'

const turns = 15
const turnMs = 40
const batches = 8
const messagesABatch = 1000

const require = createRequire(import.meta.url)
const KafkajsDecoder = require('kafkajs/src/protocol/decoder') as new (bytes: Buffer) => unknown
const decodeMessages = require('kafkajs/src/protocol/requests/fetch/v4/decodeMessages') as (decoder: unknown) => Promise<unknown[]>

const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const
const fetched: Fetched = { topic: 'messages', partition: 0, from: 0, runBytesMax: 1 << 20, runMessagesMax: messagesABatch }

/** Ids like UUIDs, of so many things and a tenth as many channels. */
function id(kind: string, ordinal: number): string {
  return `${kind}f0f0b5-2f0c-4a7f-a7a4-${String(ordinal).padStart(12, '0')}`
}

function recordSet(ordinal: number, things: number, compression: (typeof codecs)[number]): Buffer {
  const messages = Array.from({ length: messagesABatch }, (_, at) => {
    const message = ordinal * messagesABatch + at
    const thing = Math.imul(message + 1, 0x9e3779b1) >>> 0
    const value = `[{"n":"urn:dev:mac:0024befffe${String(thing % things).padStart(6, '0')}:temperature","u":"Cel","v":${20 + (message % 97) / 10}}]`
    const headers = {
      subtopic: 'room.temperature',
      publisher: id('b8', thing % things),
      protocol: 'http',
      created: `${1_700_000_000_000_000 + message * 1237}${String(message % 1000).padStart(3, '0')}`,
      'content-type': 'application/senml+json',
    }
    return {
      topic: 'messages',
      key: Buffer.from(id('0f', (thing % things) % Math.ceil(things / 10))),
      value: Buffer.from(value),
      headers: new Map(Object.entries(headers).map(([name, text]) => [Buffer.from(name), Buffer.from(text)])),
      timestamp: 1_700_000_000_000n + BigInt(message),
    }
  })
  return Buffer.from(createRecordsBatch(messages, { compression }).buffer)
}

/** Reads everything that a writer reads of a message. */
let kept = 0
function walk(run: RawRun): void {
  const cursor = run.cursor()
  const { message } = cursor
  while (cursor.next()) {
    kept += message.channel.length + message.subtopic.length + message.publisher.length + message.protocol.length
    kept += message.contentType.length + message.createdUs + message.createdRestNs + message.payload.byteLength + message.offset
  }
}

/** The thread's own time, so that whoever shares the machine counts less. */
function cpuUs(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}

/** Nanoseconds of the processor a message, over one turn of all sets. */
async function messageNs(each: (set: Buffer) => unknown, sets: readonly Buffer[]): Promise<number> {
  const startUs = cpuUs()
  let calls = 0
  while (cpuUs() - startUs < turnMs * 1000) {
    for (const set of sets) {
      const result = each(set)
      if (result instanceof Promise) await result
    }
    calls += sets.length
  }
  return ((cpuUs() - startUs) * 1000) / (calls * messagesABatch)
}

/** Measures and prints a line for each kind of batch. */
export async function bench(): Promise<void> {
  const cases: [codec: (typeof codecs)[number], things: number][] = [
    ['none', 100],
    ['none', 2000],
    ['none', 100_000],
    ...codecs.slice(1).map((codec): [typeof codec, number] => [codec, 2000]),
  ]
  console.log(
    `medians in CPU ns a message, ${isNative ? 'native' : 'tabular'} CRC`.padEnd(44),
    '    all   walk again   its crc   by tables   kafkajs   platformatic',
  )
  for (const [codec, things] of cases) {
    const sets = Array.from({ length: batches }, (_, ordinal) => recordSet(ordinal, things, codec))
    // kafkajs reads the length of the set as well.
    const prefixed = sets.map(set => {
      const length = Buffer.alloc(4)
      length.writeInt32BE(set.length)
      return Buffer.concat([length, set])
    })
    const whole = (set: Buffer): void => {
      for (const run of runsOf(set, fetched)) walk(run)
    }
    const runs = new Map(sets.map(set => [set, [...runsOf(set, fetched)]]))
    const again = (set: Buffer): void => {
      for (const run of runs.get(set)!) walk(run)
    }
    const measured: [(set: Buffer) => unknown, readonly Buffer[]][] = [
      [whole, sets],
      [again, sets],
      [set => crc32c(set), sets],
      [set => crc32cByTables(set), sets],
      [set => decodeMessages(new KafkajsDecoder(set)), codec === 'none' || codec === 'gzip' ? prefixed : []],
      [set => readRecordsBatches(Reader.from(set)), sets],
    ]
    const figures: number[][] = measured.map(() => [])
    for (let turn = 0; turn < turns; turn++) {
      for (const [at, [each, given]] of measured.entries()) if (given.length > 0) figures[at]!.push(await messageNs(each, given))
    }
    const printed = figures.map((each, at) => (each.length === 0 ? '-' : median(each).toFixed(0)).padStart([7, 13, 10, 12, 10, 15][at]!))
    console.log(
      `${codec}, ${things.toLocaleString('en')} things, ${Math.round(sets[0]!.length / messagesABatch)} bytes`.padEnd(44),
      printed.join(''),
    )
  }
  if (kept === 0) throw new Error('nothing was read')
}

if (import.meta.main) await bench()
