// What the suites of a sink are given of its store, and what they write.

import type { MessageCounts, Sink } from '../../../sinks/sink.ts'
import type { JsonObject } from '../../../transformers/record-batch.ts'
import { noonUs, type TestMessage } from '../../sinks/batches.ts'

/** A row as the store gives it back; absent values are undefined. `table` is `messages` or the format. */
export interface StoredRow {
  readonly table: string
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  /** Packed as in sinks/sink.ts. */
  readonly position: bigint
  readonly index: number
  readonly name?: string | undefined
  readonly unit?: string | undefined
  readonly timeUs?: number | undefined
  readonly value?: number | undefined
  readonly stringValue?: string | undefined
  readonly boolValue?: boolean | undefined
  readonly dataValue?: Uint8Array | undefined
  readonly sum?: number | undefined
  readonly updateTime?: number | undefined
  readonly createdNs?: bigint | undefined
  readonly payload?: JsonObject | undefined
}

export interface SinkIdentity {
  logName?: string
  logId?: string
  writer?: string
  acceptNewLog?: boolean
}

/** An empty store, and what a test needs of it. */
export interface SinkStore {
  /** Opens a sink on it, as a writer's worker would; the log is called `messages` where it is not said otherwise. */
  open(identity?: SinkIdentity): Promise<Sink>
  /** All rows, by position and index. */
  rows(): Promise<StoredRow[]>
  /** Messages that this store truly refuses, by why. Their second record, or second document, is the culprit. */
  readonly poisons: Readonly<Record<string, (offset: number) => TestMessage>>
  /** False where the store cannot be read while a write is under way. */
  readonly readableDuringWrite: boolean
  /** Cuts every connection of the store's sinks. Absent for a store in the same process: there is nothing between it and its sinks. */
  cutConnections?(): Promise<void>
  /** Resolves when the server has gone down and come up again. */
  restart?(): Promise<void>
  /** Everything takes so much longer on its way to the server and back; 0 ends it. */
  delay?(latencyMs: number): void
  /** Connections stay open, and nothing is answered until `resume`. */
  pause?(): void
  resume?(): Promise<void> | void
  /** What the store keeps of a payload; all of it where it is absent. */
  keptOf?(payload: JsonObject): JsonObject
  /** True where a message whose rows are there already is counted as a duplicate, though no positions are kept. */
  readonly tellsDuplicates?: boolean
  /** How many JSON formats it takes, and how many of one channel. */
  readonly formatsMax: number
  readonly formatsPerChannelMax: number
  close(): Promise<void>
}

export const everyValue = {
  zero: { value: 0 },
  'a negative number': { value: -12.625 },
  'the largest numbers': { value: 1e308, sum: -1e308, updateTime: 1e308 },
  'the smallest number': { value: 5e-324 },
  'beyond 2^53': { value: 2 ** 53 + 2 },
  // A value is a double: what a device writes as 9007199254740993 is this one.
  '2^53 + 1, which no double is': { value: Number('9007199254740993') },
  true: { boolValue: true },
  false: { boolValue: false },
  'the empty string': { stringValue: '' },
  'a long text': { stringValue: 'ü€😀x'.repeat(10_000) },
  'a text with quotes and line ends': { stringValue: `\\.\n\r\t'"\\N,;` },
  'no bytes': { dataValue: new Uint8Array(0) },
  bytes: { dataValue: Uint8Array.from({ length: 256 }, (_, at) => at) },
  'a sum alone': { sum: 0 },
  'a sum beside a value': { value: 1, sum: 2.5, unit: 'Cel', updateTime: 0 },
  'a time before 1970': { value: 1, timeUs: -1 },
  'a time far ahead': { value: 1, timeUs: 4_102_444_800_000_001 },
} satisfies Record<string, TestMessage['records'] extends (infer R)[] | undefined ? R : never>

export const hostileFormats = [
  'temp',
  'Temp',
  'TEMP',
  'temp_channel_created_idx',
  'x'.repeat(200),
  `${'x'.repeat(199)}y`,
  '_x',
  'x',
  '$',
  '$temp',
  'temp$',
  'room-1',
  'room_1',
  'room 1',
  `"; DROP TABLE messages; --`,
  `'); DROP TABLE messages; --`,
  'select',
  'offsets',
  'pg_class',
  'system.users',
  '1',
  'größe',
  '😀',
  '%s',
  '\\',
  '__proto__',
  'constructor',
]

export function counts(some: Partial<MessageCounts>): MessageCounts {
  return { received: 0, stored: 0, empty: 0, filtered: 0, skipped: 0, duplicate: 0, deadLettered: 0, lost: 0, ...some }
}

export function pair(offset: number): TestMessage {
  return { offset, records: [{ value: offset }, { value: offset + 0.5 }] }
}

export function packed(sink: Sink, offset: number, partition = 0): bigint {
  return (BigInt(sink.logNumber) << 56n) | (BigInt(partition) << 44n) | BigInt(offset)
}

export function senmlRow(sink: Sink, offset: number, index: number, record: object): StoredRow {
  const origin = { table: 'messages', channel: 'channel-1', subtopic: 'room', publisher: 'thing-1', protocol: 'http' }
  return { ...origin, position: packed(sink, offset), index, name: 'temperature', timeUs: noonUs, ...record }
}

export function unexpected(): never {
  throw new Error('the write succeeded')
}
