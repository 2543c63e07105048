// A sink in memory, by the same protocol as the real ones: for tests of what calls a sink. It passes test/conformance/sink/index.ts.

import { countMessages } from '../../sinks/counts.ts'
import { type MessageCounts, positionHigh, positionLow, type Reject, type Rejection, type Sink } from '../../sinks/sink.ts'
import { SinkError } from '../../sinks/sink-error.ts'
import { type RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import type { SinkIdentity, StoredRow } from '../conformance/sink/index.ts'

/** What the next write fails with, at its beginning or with its rows ready and its rejections acknowledged. */
export interface FakeFailure {
  errorClass: 'transient' | 'systemic' | 'fenced'
  when?: 'before' | 'commit'
}

/** Outlives the sinks that write to it. */
export interface FakeStore {
  readonly rows: StoredRow[]
  /** By log number and partition, `1/0`. */
  readonly nextOffsets: Map<string, number>
  readonly logs: { name: string; id: string; writer: string }[]
  readonly formats: Map<string, string>
  /** Positions of messages that were replayed and stored. */
  readonly replayed: Set<bigint>
  /** Failures of the writes to come, in order; `undefined` lets one pass. */
  readonly failures: (FakeFailure | undefined)[]
  /** Set during a write, it fails at its commit, as with a connection that is cut. */
  cut: boolean
  /** How many writes have begun. */
  writes: number
  /** Why a row is refused; undefined: it is not. */
  refuses: (row: StoredRow) => string | undefined
  /** Awaited by each write before it does anything. */
  gate: Promise<void>
  formatsMax: number
  formatsPerChannelMax: number
}

export function createFakeStore(): FakeStore {
  return {
    rows: [],
    nextOffsets: new Map(),
    logs: [],
    formats: new Map(),
    replayed: new Set(),
    failures: [],
    cut: false,
    writes: 0,
    refuses: () => undefined,
    gate: Promise.resolve(),
    formatsMax: 1000,
    formatsPerChannelMax: 32,
  }
}

export interface FakeEncoded {
  readonly batch: RecordBatch
  readonly rejected: Map<number, Rejection>
  readonly acknowledged: Set<number>
}

export interface FakeSinkOptions extends SinkIdentity {
  store?: FakeStore
  logName?: string
}

export async function openFakeSink(options: FakeSinkOptions = {}): Promise<Sink<FakeEncoded> & { readonly store: FakeStore }> {
  const { store = createFakeStore() } = options
  const logNumber = register(store, options)
  const key = (partition: number) => `${logNumber}/${partition}`

  async function write({ batch, rejected, acknowledged }: FakeEncoded, reject: (some: readonly Rejection[]) => Promise<void>) {
    store.writes++
    const failure = store.failures.shift()
    await store.gate
    if (failure !== undefined && failure.when !== 'commit') throw failed(failure)
    const next = new Map<number, number>()
    for (const { partition, from } of batch.ranges) {
      const settled = store.nextOffsets.get(key(partition)) ?? from
      if (from > settled)
        throw new SinkError('fenced', `partition ${partition}: the batch begins at ${from}, the store goes on at ${settled}`)
      next.set(partition, settled)
    }
    const isSettled = (message: number) => batch.messages.offset[message]! < next.get(batch.messages.partition[message]!)!
    const rows = new Map<number, StoredRow[]>()
    const duplicates = duplicatesOf(batch, logNumber, isSettled)
    for (const [message, row] of rowsOf(batch, logNumber)) {
      if (isSettled(message) || duplicates.has(message)) continue
      const refusal = refusalOf(store, row)
      if (refusal !== undefined && !rejected.has(message)) rejected.set(message, { message, record: row.index, ...refusal })
      rows.set(message, [...(rows.get(message) ?? []), row])
    }
    for (const [twin, first] of duplicates) {
      if (!rejected.has(first)) continue
      rejected.set(twin, { ...rejected.get(first)!, message: twin })
      duplicates.delete(twin)
    }
    const fresh = [...rejected.values()].filter(({ message }) => !acknowledged.has(message) && !isSettled(message))
    if (fresh.length > 0) await reject(fresh)
    for (const { message } of fresh) acknowledged.add(message)
    if (failure !== undefined) throw failed(failure)
    if (store.cut) {
      store.cut = false
      throw failed({ errorClass: 'transient' })
    }

    for (const [message, some] of rows) {
      if (rejected.has(message)) continue
      store.rows.push(...some)
      if (batch.originals?.has(message) === true) store.replayed.add(some[0]!.position)
    }
    for (const { partition, to } of batch.ranges) store.nextOffsets.set(key(partition), Math.max(to, next.get(partition)!))
    return countMessages(batch.messages, batch.ranges, rejected, next, duplicates)
  }

  /** By replayed message that is in the store or comes again, the one before it in the batch, or itself. Settled ones are no matter of it. */
  function duplicatesOf(batch: RecordBatch, logNumber: number, isSettled: (message: number) => boolean): Map<number, number> {
    const duplicates = new Map<number, number>()
    const firsts = new Map<bigint, number>()
    for (const [message, { position }] of rowsOf(batch, logNumber)) {
      if (batch.originals?.has(message) !== true || isSettled(message)) continue
      const first = firsts.get(position) ?? message
      firsts.set(position, first)
      const stored = store.replayed.has(position) || store.rows.some(row => row.position === position)
      if (first !== message || stored) duplicates.set(message, first)
    }
    return duplicates
  }

  return {
    ...sinkOf(logNumber, write),
    store,
    async positions(partitions) {
      const known = partitions.filter(partition => store.nextOffsets.has(key(partition)))
      return new Map(known.map(partition => [partition, store.nextOffsets.get(key(partition))!]))
    },
  }
}

/** A sink without positions whose batches are written by `write`. Closing waits for the write under way. */
export function sinkOf(
  logNumber: number,
  write: (encoded: FakeEncoded, reject: Reject) => Promise<readonly MessageCounts[]>,
): Sink<FakeEncoded> {
  let underWay: Promise<unknown> = Promise.resolve()
  return {
    logNumber,
    encode: batch => ({ batch, rejected: new Map(), acknowledged: new Set() }),
    async write(encoded, reject, signal) {
      signal.throwIfAborted()
      const writing = write(encoded, reject)
      underWay = writing.catch(() => undefined)
      return await writing
    },
    classify: error => (error instanceof SinkError ? error.errorClass : 'systemic'),
    async close() {
      await underWay
    },
  }
}

export function failed({ errorClass }: FakeFailure): SinkError {
  return new SinkError(errorClass, `the fake store fails: ${errorClass}`)
}

/** The number of the log in the store, which belongs to one writer. */
export function register(store: FakeStore, options: FakeSinkOptions): number {
  const { logName = 'messages', logId = 'id-1', writer = 'writer-1', acceptNewLog = false } = options
  const current = store.logs.findLast(({ name }) => name === logName)
  if (current !== undefined && current.writer !== writer)
    throw new SinkError('systemic', `"${logName}" belongs to "${current.writer}", not to "${writer}"`)
  if (current !== undefined && current.id !== logId && !acceptNewLog) {
    throw new SinkError('systemic', `"${logName}" has the id ${logId}, the store knows ${current.id}: --accept-new-log`)
  }
  if (current?.id !== logId) store.logs.push({ name: logName, id: logId, writer })
  return store.logs.findLastIndex(({ name }) => name === logName) + 1
}

export function refusalOf(store: FakeStore, row: StoredRow): Omit<Rejection, 'message'> | undefined {
  const reason = store.refuses(row)
  if (reason !== undefined) return { rule: 'store-refused', reason }
  if (row.createdNs !== undefined && BigInt.asIntN(64, row.createdNs) !== row.createdNs)
    return { rule: 'store-refused', reason: 'the time' }
  if (row.table === 'messages' || store.formats.has(row.table)) return undefined
  const ofChannel = [...store.formats.values()].filter(channel => channel === row.channel).length
  if (ofChannel >= store.formatsPerChannelMax || store.formats.size >= store.formatsMax) {
    return { rule: 'format-limit', reason: 'no more formats' }
  }
  store.formats.set(row.table, row.channel)
  return undefined
}

export function* rowsOf(batch: RecordBatch, logNumber: number): Generator<[message: number, row: StoredRow]> {
  const { messages, records, documents } = batch
  const origin = (message: number) => {
    const log = batch.originals?.get(message)?.log ?? logNumber
    const { partition, offset } = batch.originals?.get(message) ?? {
      partition: messages.partition[message]!,
      offset: messages.offset[message]!,
    }
    return {
      channel: messages.channel[message]!,
      subtopic: messages.subtopic[message]!,
      publisher: messages.publisher[message]!,
      protocol: messages.protocol[message]!,
      position: (BigInt(positionHigh(log, partition, offset)) << 32n) | BigInt(positionLow(offset)),
    }
  }
  const finite = (number: number) => (Number.isNaN(number) ? undefined : number)
  for (let at = 0; at < records.length; at++) {
    const message = records.message[at]!
    const kind = records.valueKind[at]
    const content = records.content[at]
    yield [
      message,
      {
        table: 'messages',
        ...origin(message),
        index: records.index[at]!,
        name: records.name[at],
        unit: records.unit[at],
        timeUs: records.timeUs[at],
        value: kind === ValueKind.number ? records.number[at] : undefined,
        stringValue: typeof content === 'string' ? content : undefined,
        boolValue: kind === ValueKind.boolean ? records.number[at] === 1 : undefined,
        dataValue: typeof content === 'object' ? content : undefined,
        sum: finite(records.sum[at]!),
        updateTime: finite(records.updateTime[at]!),
      },
    ]
  }
  for (let at = 0; at < documents.length; at++) {
    const message = documents.message[at]!
    const createdNs = BigInt(documents.createdUs[at]!) * 1000n + BigInt(documents.createdRestNs[at]!)
    const payload = documents.payload[at]!
    yield [message, { table: documents.format[at]!, ...origin(message), index: documents.index[at]!, createdNs, payload }]
  }
}
