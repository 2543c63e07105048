// What the store keeps besides its rows: logs, JSON formats and replays, as points in a bucket without retention.

import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { type AddFormats, admitFormats, type RegisteredFormat } from '../formats.ts'
import type { KeyedReplays } from '../keyed-replay.ts'
import { chooseLog, currentFirst, type LogTable, type RegisteredLog } from '../logs.ts'
import { SinkError } from '../sink-error.ts'
import {
  type Connection,
  cell,
  exactText,
  fluxFrom,
  fluxOf,
  fluxWhere,
  nsOf,
  ownColumns,
  type Row,
  typeOf,
  unescaped,
} from './connection.ts'
import { physicalName } from './encode.ts'
import { stringText, tagText } from './line-protocol.ts'
import type { SinkOptions } from './options.ts'

const compress = promisify(gzip)

/** The time of every point except those of `replayed`, so that writing it again overwrites it. One second after the beginning of 1970. */
export const registryNs = 1_000_000_000n
const registryTimes = { start: '1970-01-01T00:00:01Z', stop: '1970-01-01T00:00:01Z' } as const

export async function writeRegistry(connection: Connection, lines: readonly string[], signal?: AbortSignal): Promise<void> {
  await connection.write(connection.registryBucket, await compress(`${lines.join('\n')}\n`), signal)
}

/** Writes a point that is surely valid and that nothing reads, to see whether the server accepts points at all. */
export function writeProof(connection: Connection, signal: AbortSignal): Promise<void> {
  return writeRegistry(connection, [`proofs taken=true ${registryNs}`], signal)
}

export function readRegistry(connection: Connection, measurements: readonly string[], signal?: AbortSignal): Promise<StoredPoint[]> {
  const source = fluxFrom(connection.registryBucket, { startNs: registryNs, stopNs: registryNs + 1n })
  return readPoints(connection, source + fluxOf(measurements), signal)
}

function textField(point: StoredPoint, key: string): string {
  const value = point.fields.get(key)
  return typeof value === 'string' ? value : ''
}

export type FieldValue = number | bigint | boolean | string

/** A stored point: every field with its type, exact. */
export interface StoredPoint {
  readonly measurement: string
  readonly tags: ReadonlyMap<string, string>
  /** Nanoseconds since 1970. */
  readonly ns: bigint
  readonly fields: Map<string, FieldValue>
}

/**
 * Reads all points of a source, `from |> range |> filter`, into memory: for few points, or those of one time. If a source has several shards, the
 * server leaves out values of a field whose type differs from that in the first shard, and in a series an empty text that comes right after equal
 * ones.
 */
export async function readPoints(connection: Connection, source: string, signal?: AbortSignal): Promise<StoredPoint[]> {
  const points = new Map<string, StoredPoint>()
  for await (const rows of connection.query(`import "strings"\n${source}${exactText}`, signal)) for (const row of rows) add(points, row)
  return [...points.values()]
}

function add(points: Map<string, StoredPoint>, row: Row): void {
  const measurement = cell(row, '_measurement')!
  const tags = new Map<string, string>()
  for (const { label, index } of row.tableMeta.columns)
    if (!ownColumns.has(label) && label !== '_measurement' && label !== 'exact') tags.set(label, row.values[index]!)
  const ns = nsOf(cell(row, '_time')!)
  const key = JSON.stringify([measurement, [...tags], String(ns)])
  let point = points.get(key)
  if (point === undefined) points.set(key, (point = { measurement, tags, ns, fields: new Map() }))
  point.fields.set(cell(row, '_field')!, valueOf(row))
}

/** The value of a field, with its type. A text comes from the column `exact`, if the row has that (`exactText`). */
export function valueOf(row: Row): FieldValue {
  const text = cell(row, '_value')!
  const type = typeOf(row, '_value')
  if (type === 'double') return Number(text)
  if (type === 'long' || type === 'unsignedLong') return BigInt(text)
  if (type === 'boolean') return text === 'true'
  const exact = cell(row, 'exact')
  return exact === undefined ? text : unescaped(exact)
}

const formatsMeasurement = 'formats'

/**
 * Registers missing formats. A measurement need not be created, so a point in the registry is enough. InfluxDB has no transaction in which formats
 * could be counted and one added: workers that register at the same time may exceed the limit together, by at most one format each.
 */
export function formatAdder(connection: Connection, options: SinkOptions): AddFormats {
  return async (missing, signal) => {
    const { added, refused } = admitFormats(await readFormats(connection, signal), missing, options)
    if (added.length > 0) await writeRegistry(connection, added.map(formatLine), signal)
    return refused
  }
}

function formatLine({ format, channel }: RegisteredFormat): string {
  const created = `created_at="${new Date().toISOString()}"`
  return `${formatsMeasurement},name=${tagText(physicalName(format))} format=${stringText(format)},channel=${stringText(channel)},${created} ${registryNs}`
}

export async function readFormats(connection: Connection, signal?: AbortSignal): Promise<RegisteredFormat[]> {
  const points = await readRegistry(connection, [formatsMeasurement], signal)
  return points.map(point => ({ format: textField(point, 'format'), channel: textField(point, 'channel') }))
}

/** The measurement of messages that a replay stored: a point for each, by log and partition, whose time is the offset in nanoseconds. */
const replayed = 'replayed'
/** Offsets have at most 44 bits: 4.9 hours of nanoseconds. */
const replayedTimes = { start: '1970-01-01T00:00:00Z', stop: '1970-01-01T05:00:00Z' } as const

/** What a replay needs besides the writes: records what was replayed, and deletes the points of a position. */
export function openReplays(connection: Connection): KeyedReplays {
  return {
    async noteReplays(positions, signal) {
      const lines = Array.from(positions, position => {
        const [log, partition, offset] = [position >> 56n, (position >> 44n) & 0xfffn, position & 0xfff_ffff_ffffn]
        return `${replayed},log=${log},partition=${partition} stored=true ${offset}`
      })
      await writeRegistry(connection, lines, signal)
    },

    async deleteRows(position, channel, signal) {
      const where = fluxWhere({ _field: '/position', ...(channel === '' ? {} : { channel }) })
      const isIt = ` |> filter(fn: (r) => r._value == ${position})`
      const found: Row[] = []
      for await (const rows of connection.query(fluxFrom(connection.bucket) + where + isIt, signal)) found.push(...rows)
      for (const row of found) {
        const at = cell(row, '_time')!
        await connection.remove(connection.bucket, { start: at, stop: at }, predicateOf(row), signal)
      }
    },
  }
}

/** Names the measurement and every tag of a row. */
function predicateOf({ tableMeta, values }: Row): string {
  const tags = tableMeta.columns.map(({ label, index }) => [label, values[index]!] as const)
  return tagsPredicate(Object.fromEntries(tags.filter(([name, value]) => !ownColumns.has(name) && value !== '')))
}

/** `"_measurement"="messages" AND "name"="a"`. Quoted, since `name` is a keyword of the language. */
export function tagsPredicate(tags: Readonly<Record<string, string>>): string {
  return Object.entries(tags)
    .map(([name, value]) => `"${name}"="${value.replaceAll(/["\\]/g, '\\$&')}"`)
    .join(' AND ')
}

const erasuresMeasurement = 'erasures'

/** The notes of erasures, as texts. */
export async function readErasures(connection: Connection): Promise<string[]> {
  return (await readRegistry(connection, [erasuresMeasurement])).map(point => textField(point, 'erasure'))
}

export async function noteErasure(connection: Connection, id: string, erasure: string): Promise<void> {
  const text = stringText(erasure)
  if (text === undefined) throw new SinkError('systemic', 'InfluxDB cannot store the note of the erasure: it has more than 64 KB')
  await writeRegistry(connection, [`${erasuresMeasurement},id=${id} erasure=${text} ${registryNs}`])
}

/** The offsets in `[from, to)` of messages that were stored by a replay. */
export async function replayedOffsets(
  connection: Connection,
  log: number,
  partition: number,
  from: number,
  to: number,
  signal?: AbortSignal,
): Promise<Set<number>> {
  const offsets = new Set<number>()
  const source = fluxFrom(connection.registryBucket, { startNs: BigInt(from), stopNs: BigInt(to) })
  const where = fluxWhere({ _measurement: replayed, log: String(log), partition: String(partition) })
  for await (const rows of connection.query(source + where, signal)) for (const row of rows) offsets.add(Number(nsOf(cell(row, '_time')!)))
  return offsets
}

/**
 * InfluxDB has no compare-and-set, with which writers could choose different numbers: an option numbers the logs, and the registry remembers them.
 * To add a log, a process claims its number, then looks at all logs and claims. If one of them contradicts (another log of that number, another
 * number of that log, another writer of its messages), the process removes its claim and stops; otherwise it registers the log.
 *
 * Each process claims before it looks, and a look sees every write that was acknowledged before. So of two claims that contradict each other, at
 * least one process sees the other claim. A claim without contradiction is never removed, so it does not matter how late the log is registered,
 * whether the answer is lost, or when the process dies. Each attempt has a claim of its own, so none removes that of another.
 */
export function openLogTable(connection: Connection): LogTable {
  return {
    read: () => readLogs(connection),
    async add(log) {
      const { name: logName, id: logId, writer, contentTypes, number } = log
      const claimant = randomUUID()
      await writeRegistry(connection, [lineOf(`claims,claimant=${claimant}`, log)])
      const { logs, claims } = await readRegistered(connection)
      try {
        chooseLog([...logs, ...claims], { logName, logId, writer, contentTypes, number, acceptNewLog: logId })
      } catch (error) {
        await connection.remove(connection.registryBucket, registryTimes, `"_measurement"="claims" AND "claimant"="${claimant}"`)
        throw error
      }
      await writeRegistry(connection, [lineOf('logs', log)])
      return true
    },
    async update(log) {
      await writeRegistry(connection, [lineOf('logs', log)])
      return true
    },
    async remove({ number }) {
      await connection.remove(connection.registryBucket, replayedTimes, `"_measurement"="${replayed}" AND "log"="${number}"`)
      // The claims first: without its log, a claim would keep the number from other logs.
      for (const measurement of ['claims', 'logs']) {
        await connection.remove(connection.registryBucket, registryTimes, `"_measurement"="${measurement}" AND "number"="${number}"`)
      }
    },
  }
}

/** All logs; of those with the same name and writer, the one that is written from now comes first. */
export async function readLogs(connection: Connection): Promise<readonly RegisteredLog[]> {
  return currentFirst((await readRegistered(connection)).logs)
}

/** The registered logs, and the claims of numbers that none of them has. */
async function readRegistered(connection: Connection): Promise<Record<'logs' | 'claims', readonly RegisteredLog[]>> {
  const points = await readRegistry(connection, ['claims', 'logs'])
  // While a point is being written, a query may see some of its fields: it is not acknowledged, and does not count yet.
  const whole = points.filter(({ fields }) => logFields.every(field => fields.has(field)))
  const logsIn = (name: string): RegisteredLog[] => whole.filter(({ measurement }) => measurement === name).map(logOfPoint)
  const logs = logsIn('logs')
  const numbers = new Set(logs.map(({ number }) => number))
  return { logs, claims: logsIn('claims').filter(({ number }) => !numbers.has(number)) }
}

const logFields = ['name', 'id', 'writer', 'content_types', 'accepted_at']

function logOfPoint(point: StoredPoint): RegisteredLog {
  const contentTypes = textField(point, 'content_types')
  return {
    number: Number(point.tags.get('number')),
    name: textField(point, 'name'),
    id: textField(point, 'id'),
    writer: textField(point, 'writer'),
    contentTypes: contentTypes === '' ? undefined : (JSON.parse(contentTypes) as string[]),
    acceptedMs: Date.parse(textField(point, 'accepted_at')),
  }
}

/** @throws SinkError (systemic) for a text that the registry cannot hold */
function lineOf(series: string, { number, name, id, writer, contentTypes, acceptedMs }: RegisteredLog): string {
  const content_types = contentTypes === undefined ? '' : JSON.stringify(contentTypes)
  const texts = { name, id, writer, content_types, accepted_at: new Date(acceptedMs).toISOString() }
  const fields = Object.entries(texts).map(([key, value]) => {
    const text = stringText(value)
    if (text !== undefined) return `${key}=${text}`
    throw new SinkError('systemic', `InfluxDB cannot store the ${key} of the log: it contains a NUL or half a surrogate pair`)
  })
  return `${series},number=${number} ${fields.join(',')} ${registryNs}`
}
