// What the store keeps besides its rows: logs, JSON formats and replays, as points in a bucket without retention.

import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { type AddFormats, admitFormats, type FormatRefusal, type RegisteredFormat } from '../formats.ts'
import type { KeyedReplays } from '../keyed-replay.ts'
import { currentFirst, currentLogs, type LogTable, overlap, type RegisteredLog } from '../logs.ts'
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

function valueOf(row: Row): FieldValue {
  const text = cell(row, '_value')!
  const type = typeOf(row, '_value')
  if (type === 'double') return Number(text)
  if (type === 'long' || type === 'unsignedLong') return BigInt(text)
  if (type === 'boolean') return text === 'true'
  return unescaped(cell(row, 'exact')!)
}

const formatsMeasurement = 'formats'

/**
 * Registers missing formats. A measurement need not be created, so a point in the registry is enough. InfluxDB has no transaction in which formats
 * could be counted and one added: workers that register at the same time may exceed the limit together, by at most one format each.
 */
export function formatAdder(connection: Connection, options: SinkOptions): AddFormats {
  return async (missing, signal) => {
    const writable = missing.filter(({ format }) => stringText(format) !== undefined)
    const { added, refused } = admitFormats(await readFormats(connection, signal), writable, options)
    if (added.length > 0) await writeRegistry(connection, added.map(formatLine), signal)
    const unwritable = missing.filter(({ format }) => stringText(format) === undefined)
    return new Map([...refused, ...unwritable.map(({ format }) => [format, notText] as const)])
  }
}

const notText: FormatRefusal = {
  rule: 'store-refused',
  reason: 'the format contains a NUL or half a surrogate pair, which InfluxDB cannot store',
  hint: 'use letters, digits, "-" and "_" in the last part of the subtopic',
}

/** The channel only counts here; if it cannot be written, its messages are refused elsewhere. */
function formatLine({ format, channel }: RegisteredFormat): string {
  const channelText = stringText(channel) ?? '""'
  const created = `created_at="${new Date().toISOString()}"`
  return `${formatsMeasurement},name=${tagText(physicalName(format))} format=${stringText(format)},channel=${channelText},${created} ${registryNs}`
}

async function readFormats(connection: Connection, signal?: AbortSignal): Promise<RegisteredFormat[]> {
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

/** Names the measurement and every tag: `"_measurement"="messages" AND "name"="a"`. Quoted, since `name` is a keyword of the language. */
function predicateOf({ tableMeta, values }: Row): string {
  const terms: string[] = []
  for (const { label: name, index } of tableMeta.columns) {
    const value = values[index]!
    if (!ownColumns.has(name) && value !== '') terms.push(`"${name}"="${value.replaceAll(/["\\]/g, '\\$&')}"`)
  }
  return terms.join(' AND ')
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
 * After this many rounds in which a claim does not change, its claimant is considered dead. A live claimant rewrites its claim in each of its rounds.
 */
const deadAfterRounds = 12

interface Entry extends Omit<RegisteredLog, 'acceptedMs'> {
  readonly claimant: string
}

interface Claim extends Entry {
  readonly withdrawn: boolean
  /** Increases with each attempt of its claimant. */
  readonly attempt: number
}

type Settled = Entry & RegisteredLog

interface Registered {
  readonly claims: readonly Claim[]
  /** All entries of `logs`. */
  readonly settled: readonly Settled[]
  /** Those whose claim stands, each number once; the one that is written from now comes first. */
  readonly logs: readonly Settled[]
}

/**
 * InfluxDB has no compare-and-set, so a log is claimed before it is settled. The measurement `claims` has a point for each
 * number and claimant, a random id; `logs` has the settled ones, under the same two tags. To add a log:
 * 1. Wait while a claim that stands conflicts. Then write a claim of the next number.
 * 2. Read all claims. If none conflicts, write the log to `logs`; it is added if the claim still stands after that.
 * 3. If one conflicts, withdraw the own claim, unless its id is the smallest of all, and read again.
 *
 * A claim conflicts if it stands and has the same number but another log or writer, or the same name but another id, or another writer that takes
 * some of the same content types. Each process writes before it reads, and every later query sees what was acknowledged: of two that conflict, at
 * most one does not see the other, however late a write
 * is stored. Workers of one writer claim and settle the same.
 *
 * The claim of a process that died before it settled stays. A claim that has conflicted for some rounds, and has not changed, is considered dead and
 * withdrawn. If its process was only paused, it finds its claim withdrawn after it has settled, and begins again; until then no process considers a
 * log settled whose claim is withdrawn. And if it settled at the same moment, the process that withdrew the claim sees that, and restores it.
 */
export function openLogTable(connection: Connection): LogTable {
  const claimant = randomUUID()
  const deaths = deathWatch(connection)
  let own: Claim | undefined
  let attempt = 0

  async function withdrawOwn(): Promise<void> {
    if (own !== undefined) await writeRegistry(connection, [claimLine({ ...own, withdrawn: true })])
    own = undefined
  }

  return {
    read: () => readLogs(connection),
    async add(log) {
      if (own !== undefined && own.number !== log.number) await withdrawOwn()
      const wanted: Claim = { ...log, claimant, attempt: ++attempt, withdrawn: false }
      let rivals = own === undefined ? rivalsOf(wanted, await readRegistered(connection)) : []
      if (rivals.length === 0) {
        own = wanted
        await writeRegistry(connection, [claimLine(own)])
        rivals = rivalsOf(own, await readRegistered(connection))
      }
      if (rivals.length > 0) {
        if (rivals.some(rival => rival.claimant < claimant)) await withdrawOwn()
        await deaths.see(rivals)
        return false
      }
      await writeRegistry(connection, [settledLine({ ...log, claimant })])
      const { claims } = await readRegistered(connection)
      // Settled or not, it is no longer this registration's to withdraw: the next one may be of another log.
      own = undefined
      return claims.some(claim => isSame(claim, wanted) && !claim.withdrawn)
    },
    async update({ number, acceptedMs, contentTypes }) {
      const { logs } = await readRegistered(connection)
      const known = logs.find(log => log.number === number)
      if (known === undefined) return false
      await writeRegistry(connection, [settledLine({ ...known, acceptedMs, contentTypes })])
      return true
    },
    async remove({ number }) {
      await connection.remove(connection.registryBucket, replayedTimes, `"_measurement"="${replayed}" AND "log"="${number}"`)
      for (const measurement of ['logs', 'claims']) {
        await connection.remove(connection.registryBucket, registryTimes, `"_measurement"="${measurement}" AND "number"="${number}"`)
      }
    },
  }
}

/** Withdraws claims that have conflicted for some rounds without a sign of life of their claimants. */
function deathWatch(connection: Connection) {
  const rounds = new Map<string, number>()
  return {
    async see(rivals: readonly Claim[]): Promise<void> {
      for (const rival of rivals) {
        const seen = `${rival.number} ${rival.claimant} ${rival.attempt}`
        const times = (rounds.get(seen) ?? 0) + 1
        rounds.set(seen, times)
        if (times >= deadAfterRounds) await withdraw(connection, rival)
      }
    },
  }
}

/** The claims that conflict with ours. Not those that are settled, were known when our number was chosen, and have another number. */
function rivalsOf(own: Claim, { claims, logs }: Registered): Claim[] {
  const current = currentLogs(logs)
  return claims.filter(claim => {
    const settler = logs.find(({ number }) => number === claim.number)
    // Another claim got this number: its claimant withdraws it, or is dead.
    if (claim.withdrawn || (settler !== undefined && !isSame(settler, claim))) return false
    if (claim.name === own.name && claim.id === own.id && claim.writer === own.writer) return false
    if (claim.number === own.number) return true
    if (claim.name !== own.name) return false
    if (claim.writer === own.writer) return settler === undefined
    // A writer may have taken other types of an earlier log of the name.
    return settler === undefined || current.includes(settler) ? overlap((settler ?? claim).contentTypes, own.contentTypes) : false
  })
}

async function withdraw(connection: Connection, rival: Claim): Promise<void> {
  await writeRegistry(connection, [claimLine({ ...rival, withdrawn: true })])
  const { settled } = await readRegistered(connection)
  if (settled.some(log => isSame(log, rival))) await writeRegistry(connection, [claimLine(rival)])
}

function isSame(one: Entry, other: Entry): boolean {
  return one.number === other.number && one.claimant === other.claimant
}

export async function readLogs(connection: Connection): Promise<readonly RegisteredLog[]> {
  const { logs } = await readRegistered(connection)
  return logs
}

async function readRegistered(connection: Connection): Promise<Registered> {
  const points = await readRegistry(connection, ['claims', 'logs'])
  const claims = points.filter(({ measurement }) => measurement === 'claims').map(claimOf)
  const settled = currentFirst(
    points
      .filter(({ measurement }) => measurement === 'logs')
      .map(point => ({ ...entryOf(point), acceptedMs: Date.parse(textField(point, 'accepted_at')) || 0 })),
  )
  const standing = settled.filter(log => claims.some(claim => isSame(claim, log) && !claim.withdrawn))
  const logs = standing.filter((log, at) => standing.findIndex(({ number }) => number === log.number) === at)
  return { claims, settled, logs }
}

function entryOf(point: StoredPoint): Entry {
  return {
    number: Number(point.tags.get('number')),
    claimant: point.tags.get('claimant') ?? '',
    name: textField(point, 'name'),
    id: textField(point, 'id'),
    writer: textField(point, 'writer'),
    contentTypes: contentTypesOf(textField(point, 'content_types')),
  }
}

/** Absent in points of an earlier release, and empty: all. */
function contentTypesOf(text: string): readonly string[] | undefined {
  return text === '' ? undefined : (JSON.parse(text) as string[])
}

function claimOf(point: StoredPoint): Claim {
  return { ...entryOf(point), withdrawn: point.fields.get('withdrawn') === true, attempt: Number(point.fields.get('attempt') ?? 0) }
}

function claimLine(claim: Claim): string {
  return `claims,${keyOf(claim)} ${textsOf(claim)},withdrawn=${claim.withdrawn},attempt=${claim.attempt}i ${registryNs}`
}

function settledLine(log: Settled): string {
  return `logs,${keyOf(log)} ${textsOf(log)},accepted_at="${new Date(log.acceptedMs).toISOString()}" ${registryNs}`
}

function keyOf({ number, claimant }: Entry): string {
  return `claimant=${claimant},number=${number}`
}

/** @throws SinkError (systemic) for a text that the registry cannot hold */
function textsOf({ name, id, writer, contentTypes }: Entry): string {
  const texts = { name, id, writer, content_types: contentTypes === undefined ? '' : JSON.stringify(contentTypes) }
  return Object.entries(texts)
    .map(([key, value]) => {
      const text = stringText(value)
      if (text !== undefined) return `${key}=${text}`
      throw new SinkError('systemic', `InfluxDB cannot store the ${key} of the log: it contains a NUL or half a surrogate pair`)
    })
    .join(',')
}
