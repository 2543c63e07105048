// A sink in memory, by the same protocol as the real ones: for tests of what calls a sink. It passes test/conformance/sink/index.ts.

import { countMessages } from '../../sinks/counts.ts'
import { checkNumbers, type LogTable, openLogRegistry, openLogs, type RegisteredLog } from '../../sinks/logs.ts'
import {
  type ErrorClass,
  type LogNumbers,
  type MessageCounts,
  positionHighAt,
  positionLow,
  type Reject,
  type Rejection,
  type Sink,
} from '../../sinks/sink.ts'
import { SinkError } from '../../sinks/sink-error.ts'
import { type LogPartition, logOf, partitionName, partitionOf } from '../../transformers/log-partition.ts'
import { type RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import { logsOf, type SinkIdentity, type StoredRow } from '../conformance/sink/fixture.ts'

/** What the next write fails with, at its beginning or with its rows ready and its rejections acknowledged. */
export interface FakeFailure {
  errorClass: ErrorClass
  when?: 'before' | 'commit'
}

/** Outlives the sinks that write to it. */
export interface FakeStore {
  readonly rows: StoredRow[]
  /** By log number and partition, `1/0`. */
  readonly nextOffsets: Map<string, number>
  readonly logs: RegisteredLog[]
  readonly formats: Map<string, string>
  /** Positions of messages that were replayed and stored. */
  readonly replayed: Set<bigint>
  /** The notes of erasures by their ids. */
  readonly erasures: Map<string, string>
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
  /** What `unnumbered` returns next. */
  unnumbered: number
}

export function createFakeStore(): FakeStore {
  return {
    rows: [],
    nextOffsets: new Map(),
    logs: [],
    formats: new Map(),
    replayed: new Set(),
    erasures: new Map(),
    failures: [],
    cut: false,
    writes: 0,
    refuses: () => undefined,
    gate: Promise.resolve(),
    formatsMax: 1000,
    formatsPerChannelMax: 32,
    unnumbered: 0,
  }
}

export interface FakeEncoded {
  readonly batch: RecordBatch
  readonly rejected: Map<number, Rejection>
  readonly acknowledged: Set<number>
}

export interface FakeSinkOptions extends SinkIdentity {
  store?: FakeStore
}

export async function openFakeSink(options: FakeSinkOptions = {}): Promise<Sink<FakeEncoded> & { readonly store: FakeStore }> {
  const { store = createFakeStore() } = options
  const logs = await openLogs(logsOf(options), openLogRegistry(logTable(store)))
  const { logNumbers } = logs
  if (options.unnumbered !== true) await logs.takeNumbers(logNumbers.keys())
  const key = (at: LogPartition) => `${logNumbers[logOf(at)]}/${partitionOf(at)}`

  async function write({ batch, rejected, acknowledged }: FakeEncoded, reject: (some: readonly Rejection[]) => Promise<void>) {
    store.writes++
    const failure = store.failures.shift()
    await store.gate
    if (failure !== undefined && failure.when !== 'commit') throw failed(failure)
    const next = new Map<LogPartition, number>()
    const kept = batch.ranges.filter(({ at }) => logNumbers[logOf(at)] !== undefined)
    for (const { at, from } of kept) {
      const settled = store.nextOffsets.get(key(at)) ?? from
      if (from > settled)
        throw new SinkError('fenced', `${partitionName(at)}: the batch starts at offset ${from}, but the store expects offset ${settled}`)
      next.set(at, settled)
    }
    const isSettled = (message: number) => batch.messages.offset[message]! < (next.get(batch.messages.at[message]!) ?? 0)
    const rows = new Map<number, StoredRow[]>()
    for (const [message, row] of rowsOf(batch, logNumbers)) {
      if (isSettled(message)) continue
      const refusal = refusalOf(store, row)
      if (refusal !== undefined && !rejected.has(message)) rejected.set(message, { message, record: row.index, ...refusal })
      rows.set(message, [...(rows.get(message) ?? []), row])
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
    }
    for (const { at, to } of kept) store.nextOffsets.set(key(at), Math.max(to, next.get(at)!))
    return countMessages(batch.messages, batch.ranges, rejected, next)
  }

  return {
    ...sinkOf(logs, write),
    store,
    async positions(of) {
      logs.lookUp(store.logs)
      const known = of.filter(at => store.nextOffsets.has(key(at)))
      return new Map(known.map(at => [at, store.nextOffsets.get(key(at))!]))
    },
    unnumbered() {
      const { unnumbered } = store
      store.unnumbered = 0
      return unnumbered
    },
  }
}

/** A sink without positions whose batches are written by `write`. Closing waits for the write under way. */
export function sinkOf(
  { logNumbers, takeNumbers }: Pick<Sink, 'logNumbers' | 'takeNumbers'>,
  write: (encoded: FakeEncoded, reject: Reject) => Promise<readonly MessageCounts[]>,
): Sink<FakeEncoded> {
  let underWay: Promise<unknown> = Promise.resolve()
  return {
    logNumbers,
    takeNumbers,
    encode(batch) {
      checkNumbers(logNumbers, batch)
      return { batch, rejected: new Map(), acknowledged: new Set() }
    },
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

export function logTable({ logs, replayed, nextOffsets }: FakeStore): LogTable {
  const put = (log: RegisteredLog, isThere: boolean): boolean => {
    const at = logs.findIndex(({ number }) => number === log.number)
    if (at >= 0 !== isThere) return false
    logs.splice(isThere ? at : logs.length, isThere ? 1 : 0, log)
    return true
  }
  return {
    read: async () => [...logs],
    add: async log => put(log, false),
    update: async log => put(log, true),
    async remove({ number }) {
      logs.splice(logs.findIndex(log => log.number === number) >>> 0, 1)
      for (const position of replayed) if (Number(position >> 56n) === number) replayed.delete(position)
      for (const key of nextOffsets.keys()) if (key.startsWith(`${number}/`)) nextOffsets.delete(key)
    },
  }
}

export function refusalOf(store: FakeStore, row: StoredRow): Omit<Rejection, 'message'> | undefined {
  const reason = store.refuses(row)
  if (reason !== undefined) return { rule: 'store-refused', reason }
  if (row.createdNs !== undefined && BigInt.asIntN(64, row.createdNs) !== row.createdNs)
    return { rule: 'store-refused', reason: 'the time' }
  if (row.table === 'messages' || store.formats.has(row.table)) return undefined
  const channelFormats = [...store.formats.values()].filter(channel => channel === row.channel).length
  if (channelFormats >= store.formatsPerChannelMax || store.formats.size >= store.formatsMax) {
    return { rule: 'format-limit', reason: 'no more formats' }
  }
  store.formats.set(row.table, row.channel)
  return undefined
}

export function* rowsOf(batch: RecordBatch, logNumbers: LogNumbers): Generator<[message: number, row: StoredRow]> {
  const { messages, records, documents } = batch
  const origin = (message: number) => {
    const offset = messages.offset[message]!
    return {
      channel: messages.channel[message]!,
      subtopic: messages.subtopic[message]!,
      publisher: messages.publisher[message]!,
      protocol: messages.protocol[message]!,
      position: (BigInt(positionHighAt(logNumbers, messages.at[message]!, offset)) << 32n) | BigInt(positionLow(offset)),
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
