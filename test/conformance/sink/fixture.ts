// What the suites of a sink need of its store, and the rows that they write.

import type { SenmlRow } from '../../../readers/reader.ts'
import type { StoreAudit } from '../../../sinks/audit.ts'
import { type RetentionOptions, retentionNotes, type StoreErasure } from '../../../sinks/erasure.ts'
import type { LogIdentity } from '../../../sinks/logs.ts'
import type { ReplaySink } from '../../../sinks/replay.ts'
import type { MessageCounts, Sink } from '../../../sinks/sink.ts'
import type { JsonObject } from '../../../transformers/record-batch.ts'
import { fullRecord, noonUs, type RecordField, type TestMessage } from '../../sinks/batches.ts'

type StoredRecord = { readonly [Field in RecordField]?: SenmlRow[Field] | undefined }

/** A row as the store returns it; absent values are undefined. `table` is `messages` or the format. */
export interface StoredRow extends StoredRecord {
  readonly table: string
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  /** Packed as in sinks/sink.ts. */
  readonly position: bigint
  readonly index: number
  readonly createdNs?: bigint | undefined
  readonly payload?: JsonObject | undefined
}

export interface SinkIdentity extends Partial<LogIdentity> {
  /** Names of further logs that the writer reads. */
  readonly otherLogs?: readonly string[]
  /** The logs get no numbers yet, as before a writer's first batch. */
  readonly unnumbered?: boolean
}

/** The sink, with a number for each of its logs, as after a writer's first batch. */
export async function withNumbers<Opened extends Sink>(
  opening: Promise<Opened>,
  { unnumbered = false }: SinkIdentity = {},
): Promise<Opened> {
  const sink = await opening
  if (unnumbered) return sink
  try {
    await sink.takeNumbers(sink.logNumbers.keys())
  } catch (error) {
    await sink.close()
    throw error
  }
  return sink
}

/** Defaults to the log `messages` of writer-1. */
export function logsOf({ logName = 'messages', otherLogs = [], unnumbered: _unnumbered, ...some }: SinkIdentity = {}): LogIdentity[] {
  return [logName, ...otherLogs].map(name => ({ logId: 'id-1', writer: 'writer-1', ...some, logName: name }))
}

export interface Retention extends RetentionOptions {
  readonly retentionChannels?: string[]
  readonly retentionFormats?: string[]
}

/** An empty store, with what a test needs of it. */
export interface SinkStore {
  /** Opens a sink on it, like a writer's worker; by default with the log `messages`. */
  open(identity?: SinkIdentity): Promise<Sink>
  /** For replays of the dead letters of writer-1. */
  readonly replays: {
    readonly audit: StoreAudit
    readonly openSink: (logNumber: number) => Promise<ReplaySink>
  }
  /** Closed with the store. */
  readonly erasure: StoreErasure
  /** Deletes what the retention lets go at a time, as a writer does every few hours. */
  readonly maintain: (retention: Retention, now: Date) => Promise<unknown>
  /** All rows, by position and index. */
  rows(): Promise<StoredRow[]>
  /** Messages that this store really refuses, by reason. The fault is in their second record or document. */
  readonly poisons: Readonly<Record<string, (offset: number) => TestMessage>>
  /** False if the store cannot be read during a write. */
  readonly readableDuringWrite: boolean
  /** Closes every connection of the store's sinks. Absent for a store in the same process. */
  cutConnections?(): Promise<void>
  /** Resolves after a restart of the server. */
  restart?(): Promise<void>
  /** Adds this latency to every exchange with the server; 0 removes it. */
  delay?(latencyMs: number): void
  /** Connections stay open, and nothing is answered until `resume`. */
  pause?(): void
  resume?(): Promise<void> | void
  /** What the store keeps of a payload; absent if it keeps everything. */
  keptOf?(payload: JsonObject): JsonObject
  /** True if a message whose rows exist already counts as a duplicate, although the store keeps no positions. */
  readonly tellsDuplicates?: boolean
  /** False if its audit does not report the counts that a store with positions keeps. */
  readonly keepsCounts?: boolean
  /** Messages of one series and time whose offsets differ by less are different rows; absent if all are. */
  readonly offsetsApartMax?: number
  /** How many JSON formats it allows, in total and in one channel. */
  readonly formatsMax: number
  readonly formatsPerChannelMax: number
  close(): Promise<void>
}

/** For a store without a maintenance of its own. */
export async function maintainBy(erasure: StoreErasure, retention: RetentionOptions, now: Date): Promise<void> {
  for (const note of retentionNotes(retention, now.getTime())) {
    await erasure.note(note)
    await erasure.erase(note, new AbortController().signal, async () => undefined)
  }
}

export interface SinkTraits {
  /** False for a store in the same process, without connections. */
  readonly connections?: boolean
  /** True if its server can be restarted. */
  readonly restarts?: boolean
  /** True if the connection to its server can be slow, and the server silent. */
  readonly slow?: boolean
  /** True if a request without an answer ends by itself, within a time limit in the store's options. */
  readonly givesUp?: boolean
  /** False for a store that identifies its rows by their keys, and resumes at the log's commits. */
  readonly transactional?: boolean
}

export const everyValue = {
  zero: { value: 0 },
  'a negative number': { value: -12.625 },
  'the largest numbers': { value: 1e308, sum: -1e308, updateTime: 1e308 },
  'the smallest number': { value: 5e-324 },
  'beyond 2^53': { value: 2 ** 53 + 2 },
  // A value is a double: 9007199254740993 from a device is stored as this one.
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
  'every field at once': fullRecord,
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

/** @param log its index */
export function packed(sink: Sink, offset: number, partition = 0, log = 0): bigint {
  return (BigInt(sink.logNumbers[log]!) << 56n) | (BigInt(partition) << 44n) | BigInt(offset)
}

export function senmlRow(sink: Sink, offset: number, index: number, record: object): StoredRow {
  const origin = { table: 'messages', channel: 'channel-1', subtopic: 'room', publisher: 'thing-1', protocol: 'http' }
  return { ...origin, position: packed(sink, offset), index, name: 'temperature', timeUs: noonUs, ...record }
}

export function unexpected(): never {
  throw new Error('the write succeeded')
}
