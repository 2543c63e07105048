// Which lines are in the bucket already: what was stored once stays stored, though it is too old by now, or would be refused today.
//
// Lines are looked for by their times. Those that lie apart are asked for apart: a query over all the time between two of them would read whatever else
// the bucket holds of it.

import { cell, type Row } from './annotated-csv.ts'
import { eachAtOnce, textOf } from './bodies.ts'
import type { Connection } from './connection.ts'
import { type EncodedBatch, placeOf } from './encoded-batch.ts'
import { fluxFrom, fluxOf, nsOf } from './flux.ts'
import { keyOfLine, type LineKey } from './line-protocol.ts'
import { packedPosition } from './position-text.ts'

/** So many measurements, and so many channels, are named for a piece; of more, all are looked through. */
const namesMax = 100
/** Lines that are further apart are asked for apart: 1 s. */
const apartNs = 1_000_000_000n
/** So many pieces are asked for by one query: a third of the time that a query for each takes (400 pieces). */
const piecesAtOnce = 50
/** What every table of an answer has, beside its tags. */
const ownColumns = new Set(['', 'result', 'table', '_start', '_stop', '_time', '_value', '_field', '_measurement'])

interface Looking {
  readonly logNumber: number
  /** So many queries are under way at once. */
  readonly atOnce: number
  readonly signal: AbortSignal
}

interface Wanted extends LineKey {
  readonly line: number
  readonly position: bigint
}

/** Where a message lay at first, packed. */
export function positionOf(encoded: EncodedBatch, logNumber: number, message: number): bigint {
  const { log, partition, offset } = placeOf(encoded, logNumber, message)
  return packedPosition(log, partition, offset)
}

/**
 * What is answered is no more than the batch has rows, in the ordinary flow: of a batch of replays also what lies between their positions, of which
 * nothing is kept.
 *
 * @returns those of the lines whose point is there: of the same series and nanosecond, and of the same message
 */
export async function storedLines(
  connection: Connection,
  encoded: EncodedBatch,
  lines: readonly number[],
  { logNumber, atOnce, signal }: Looking,
): Promise<Set<number>> {
  const wanted = lines.map((line): Wanted => {
    const position = positionOf(encoded, logNumber, encoded.lines.message[line]!)
    return { ...keyOfLine(textOf(encoded.lines, line)), line, position }
  })
  // One message may be there twice, where it was replayed twice.
  const byKey = Map.groupBy(wanted, ({ measurement, tags, ns, position }) => keyOf(measurement, [...tags], ns, position))
  const pieces = piecesOf(wanted)
  const queries = Array.from({ length: Math.ceil(pieces.length / piecesAtOnce) }, (_, nth) =>
    queryOf(connection.bucket, pieces.slice(nth * piecesAtOnce, (nth + 1) * piecesAtOnce)),
  )
  const found = new Set<number>()
  await eachAtOnce(queries, atOnce, async query => {
    for await (const rows of connection.query(query, signal)) {
      for (const row of rows) for (const { line } of byKey.get(keyOfRow(row)) ?? []) found.add(line)
    }
  })
  return found
}

/** Pieces of what is wanted, each in the order of its times, with more than a second between them. */
function piecesOf(wanted: readonly Wanted[]): Wanted[][] {
  const pieces: Wanted[][] = []
  let lastNs: bigint | undefined
  for (const one of wanted.toSorted((one, other) => (one.ns < other.ns ? -1 : one.ns > other.ns ? 1 : 0))) {
    if (lastNs === undefined || one.ns - lastNs > apartNs) pieces.push([one])
    else pieces.at(-1)!.push(one)
    lastNs = one.ns
  }
  return pieces
}

function queryOf(bucket: string, pieces: readonly (readonly Wanted[])[]): string {
  const sources = pieces.map(piece => sourceOf(bucket, piece))
  return sources.length === 1 ? sources[0]! : `union(tables: [${sources.join(',\n')}])`
}

/** @param piece in the order of its times */
function sourceOf(bucket: string, piece: readonly Wanted[]): string {
  const measurements = new Set(piece.map(({ measurement }) => measurement))
  const channels = new Set(piece.map(({ tags }) => tags.get('channel')))
  const spans = new Map<bigint, { first: bigint; last: bigint }>()
  for (const { position } of piece) {
    const span = spans.get(position >> 44n)
    if (span === undefined) spans.set(position >> 44n, { first: position, last: position })
    else if (position < span.first) span.first = position
    else if (position > span.last) span.last = position
  }
  const between = [...spans.values()].map(({ first, last }) => `(r._value >= ${first} and r._value <= ${last})`)
  const ofMeasurements = measurements.size > namesMax ? '' : fluxOf([...measurements])
  // A point without a channel has no such tag, and none can be asked for that is absent.
  const isNamed = !channels.has(undefined) && channels.size <= namesMax
  const ofChannels = isNamed ? fluxOf([...channels] as string[], 'channel') : ''
  const ofPositions = ` |> filter(fn: (r) => r._field == "/position" and (${between.join(' or ')}))`
  return fluxFrom(bucket, { startNs: piece[0]!.ns, stopNs: piece.at(-1)!.ns + 1n }) + ofMeasurements + ofChannels + ofPositions
}

function keyOfRow(row: Row): string {
  const tags: [string, string][] = []
  for (const [name, place] of row.columns.places) if (!ownColumns.has(name)) tags.push([name, row.cells[place]!])
  return keyOf(cell(row, '_measurement')!, tags, nsOf(cell(row, '_time')!), BigInt(cell(row, '_value')!))
}

function keyOf(measurement: string, tags: readonly (readonly [string, string])[], ns: bigint, position: bigint): string {
  const sorted = tags.toSorted(([one], [other]) => (one < other ? -1 : 1))
  return JSON.stringify([measurement, sorted, String(ns), String(position)])
}
