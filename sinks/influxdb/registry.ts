// What the store keeps besides its rows: logs, JSON formats and replays, as points in a bucket without retention.

import { randomUUID } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { type AddFormats, admitFormats, type RegisteredFormat } from '../formats.ts'
import type { KeyedReplays } from '../keyed-replay.ts'
import { currentFirst, type LogTable, type RegisteredLog } from '../logs.ts'
import { limits } from '../sink.ts'
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

interface Entry extends RegisteredLog {
  readonly claimant: string
}

/** A claimant is one attempt to add a log, not a process. */
export interface Claim extends Entry {
  /** Undefined in claims of the release before this one, which settled without a vote. */
  readonly ballot: number | undefined
  /** The claimant whose log this one has voted for. */
  readonly vote: string | undefined
  /** Both written by the release before this one only: a live claimant of it counts its attempts. */
  readonly withdrawn: boolean
  readonly attempt: number
}

/** After this many looks without a change, the number that a process of the release before claims is left unused. */
const deadAfterLooks = 12

/** What `claims` and `logs` hold. */
export interface Registered {
  readonly claims: readonly Claim[]
  readonly settled: readonly Entry[]
}

/**
 * InfluxDB has no compare-and-set, so writers elect the log of a number (Disk Paxos, Gafni and Lamport 2003). The measurement `claims` has a point for
 * each number and claimant, a random id; `logs` has the settled ones, under the same two tags. To add a log:
 * 1. Claim its number, with a ballot above all others, and look: with the highest ballot still, continue; otherwise begin again.
 * 2. Vote for the log that the highest ballot with a vote has voted for, or if there is none for the own one. Look again: with the highest ballot
 *    still, that log is elected, forever.
 * 3. Settle the elected log: write it to `logs`.
 *
 * Each process writes before it looks, and a look sees every write that was acknowledged before. So if the second look finds no higher ballot, a process
 * that claims one later finds this vote in its first look, and votes for the same log. A claim is never changed or withdrawn, so it does not matter how late
 * a write is stored, or how long a process is paused between any two steps; there are no clocks and no time limits. A process that dies leaves a claim
 * that blocks neither its number nor its name. If it had voted, the next to claim the number may settle its log for it, as if it had died after that.
 *
 * Processes of the release before this one may run at the same time. They withdraw claims, and settle theirs unless they see another claim of the
 * number. So a number that one of them claims is waited for, and left unused if that one seems dead. Of two settled logs of a number the one whose
 * claim was not withdrawn has it.
 */
export function openLogTable(connection: Connection): LogTable {
  /** The claims of the number and those above it, as last seen before claiming it. */
  let seen = '[]'
  let looksAlike = 0

  return {
    read: () => readLogs(connection),
    async add(wanted) {
      const before = await readRegistered(connection)
      const rivals = before.claims.filter(({ number }) => number >= wanted.number)
      const seenNow = JSON.stringify(rivals)
      looksAlike = seenNow === seen ? looksAlike + 1 : 0
      seen = seenNow
      // Others are at it: a higher ballot would only make them begin again.
      if (looksAlike < (rivals.some(claim => isOfOldRival(claim, wanted)) ? deadAfterLooks : 1)) return false
      let log = wanted
      while (rivals.some(claim => isOfOldRival(claim, log))) log = { ...log, number: log.number + 1 }
      if (log.number > limits.log || isSettled(log, before)) return false
      const ballot = 1 + Math.max(0, ...rivals.map(claim => claim.ballot ?? 0))
      const own: Claim = { ...log, claimant: randomUUID(), ballot, vote: undefined, withdrawn: false, attempt: 0 }
      await writeRegistry(connection, [claimLine(own)])
      const elected = electedLog(own, await readRegistered(connection))
      if (elected === undefined) return false
      await writeRegistry(connection, [voteLine(own, elected)])
      if (electedLog(own, await readRegistered(connection))?.claimant !== elected.claimant) return false
      await writeRegistry(connection, [settledLine(elected)])
      return isSameLog(elected, wanted)
    },
    async update({ number, acceptedMs, contentTypes }) {
      const known = registeredLogs(await readRegistered(connection)).find(log => log.number === number)
      if (known === undefined) return false
      await writeRegistry(connection, [settledLine({ ...known, acceptedMs, contentTypes })])
      return true
    },
    async remove({ number }) {
      await connection.remove(connection.registryBucket, replayedTimes, `"_measurement"="${replayed}" AND "log"="${number}"`)
      // The claims first: votes without a settled log would have the freed one settled again.
      for (const measurement of ['claims', 'logs']) {
        await connection.remove(connection.registryBucket, registryTimes, `"_measurement"="${measurement}" AND "number"="${number}"`)
      }
    },
  }
}

/**
 * The log that the own claim votes for and, if it did, settles; undefined if it may not, because the number is settled, or another claim has a higher
 * ballot.
 */
export function electedLog(own: Claim, registered: Registered): Claim | undefined {
  const { claims } = registered
  if (isSettled(own, registered)) return undefined
  const ballots = claims.filter(({ number, ballot }) => number === own.number && ballot !== undefined).toSorted(highestFirst)
  if (ballots[0]?.claimant !== own.claimant) return undefined
  const vote = ballots.find(claim => claim.vote !== undefined)?.vote ?? own.claimant
  const elected = ballots.find(({ claimant }) => claimant === vote)
  return elected === undefined || claims.some(claim => isOfOldRival(claim, elected)) ? undefined : elected
}

function isSettled(log: RegisteredLog, { settled }: Registered): boolean {
  return settled.some(({ number }) => number === log.number)
}

function highestFirst(one: Claim, other: Claim): number {
  return other.ballot! - one.ballot! || (one.claimant < other.claimant ? 1 : -1)
}

/** Whether a process of the release before this one may settle another log under the number. */
function isOfOldRival(claim: Claim, log: RegisteredLog): boolean {
  return claim.ballot === undefined && !claim.withdrawn && claim.number === log.number && !isSameLog(claim, log)
}

function isSameLog(one: RegisteredLog, other: RegisteredLog): boolean {
  return one.name === other.name && one.id === other.id && one.writer === other.writer
}

/** The settled logs, each number once; the one that is written from now comes first. */
export function registeredLogs({ claims, settled }: Registered): Entry[] {
  const standing = new Set(claims.filter(({ withdrawn }) => !withdrawn).map(keyOf))
  const rank = (log: Entry): number => (standing.has(keyOf(log)) ? 0 : 1)
  const order = settled.toSorted(
    (one, other) => rank(one) - rank(other) || other.acceptedMs - one.acceptedMs || (one.claimant < other.claimant ? -1 : 1),
  )
  return currentFirst(order.filter((log, at) => order.findIndex(({ number }) => number === log.number) === at))
}

export async function readLogs(connection: Connection): Promise<readonly RegisteredLog[]> {
  return registeredLogs(await readRegistered(connection))
}

async function readRegistered(connection: Connection): Promise<Registered> {
  const points = await readRegistry(connection, ['claims', 'logs'])
  // While a point is being written, a query may see some of its fields: it is not acknowledged, and does not count yet.
  const whole = points.filter(({ measurement, fields }) => {
    const others = fields.has('ballot') ? ['content_types', 'accepted_at'] : [measurement === 'logs' ? 'accepted_at' : 'attempt']
    return ['name', 'id', 'writer', ...others].every(field => fields.has(field))
  })
  return {
    claims: whole.filter(({ measurement }) => measurement === 'claims').map(claimOf),
    settled: whole.filter(({ measurement }) => measurement === 'logs').map(entryOf),
  }
}

function entryOf(point: StoredPoint): Entry {
  return {
    number: Number(point.tags.get('number')),
    claimant: point.tags.get('claimant') ?? '',
    name: textField(point, 'name'),
    id: textField(point, 'id'),
    writer: textField(point, 'writer'),
    contentTypes: contentTypesOf(textField(point, 'content_types')),
    acceptedMs: Date.parse(textField(point, 'accepted_at')) || 0,
  }
}

/** Absent in points of an earlier release, and empty: all. */
function contentTypesOf(text: string): readonly string[] | undefined {
  return text === '' ? undefined : (JSON.parse(text) as string[])
}

function claimOf(point: StoredPoint): Claim {
  const { fields } = point
  return {
    ...entryOf(point),
    ballot: fields.has('ballot') ? Number(fields.get('ballot')) : undefined,
    vote: fields.has('vote') ? textField(point, 'vote') : undefined,
    withdrawn: fields.get('withdrawn') === true,
    attempt: Number(fields.get('attempt') ?? 0),
  }
}

function claimLine(claim: Claim): string {
  return `claims,${keyOf(claim)} ${fieldsOf(claim)},ballot=${claim.ballot}i ${registryNs}`
}

/** Adds a field to the point of the claim. */
function voteLine(own: Claim, elected: Claim): string {
  return `claims,${keyOf(own)} vote="${elected.claimant}" ${registryNs}`
}

function settledLine(log: Entry): string {
  return `logs,${keyOf(log)} ${fieldsOf(log)} ${registryNs}`
}

function keyOf({ number, claimant }: Entry): string {
  return `claimant=${claimant},number=${number}`
}

/** @throws SinkError (systemic) for a text that the registry cannot hold */
function fieldsOf({ name, id, writer, contentTypes, acceptedMs }: Entry): string {
  const content_types = contentTypes === undefined ? '' : JSON.stringify(contentTypes)
  const texts = { name, id, writer, content_types, accepted_at: new Date(acceptedMs).toISOString() }
  return Object.entries(texts)
    .map(([key, value]) => {
      const text = stringText(value)
      if (text !== undefined) return `${key}=${text}`
      throw new SinkError('systemic', `InfluxDB cannot store the ${key} of the log: it contains a NUL or half a surrogate pair`)
    })
    .join(',')
}
