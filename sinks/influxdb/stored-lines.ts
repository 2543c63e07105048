// Which lines are in the bucket already: what was stored once stays stored, though it is too old by now, or would be refused today.

import { cell, type Row } from './annotated-csv.ts'
import { textOf } from './bodies.ts'
import type { Connection } from './connection.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import { fluxFrom, fluxOf, nsOf } from './flux.ts'
import { keyOfLine } from './line-protocol.ts'
import { packedPosition } from './position-text.ts'

/** So many are named in the query; of more, all are looked through. */
const measurementsMax = 100
/** What every table of an answer has, beside its tags. */
const ownColumns = new Set(['', 'result', 'table', '_start', '_stop', '_time', '_value', '_field', '_measurement'])

/** Where a message lay at first. */
export function positionOf({ messages, originals }: EncodedBatch, logNumber: number, message: number): bigint {
  const original = originals?.get(message)
  if (original !== undefined) return packedPosition(original.log, original.partition, original.offset)
  return packedPosition(logNumber, messages.partition[message]!, messages.offset[message]!)
}

/**
 * Looks for all of them by one query over their times. What it answers is no more than the batch has rows, in the ordinary flow: of a batch of
 * replays also what lies between their positions, of which nothing is kept.
 *
 * @returns those of the lines whose point is there: of the same series and nanosecond, and of the same message
 */
export async function storedLines(
  connection: Connection,
  encoded: EncodedBatch,
  lines: readonly number[],
  { logNumber, signal }: { logNumber: number; signal: AbortSignal },
): Promise<Set<number>> {
  const found = new Set<number>()
  if (lines.length === 0) return found
  const wanted = new Map<string, number>()
  const measurements = new Set<string>()
  const spans = new Map<bigint, { first: bigint; last: bigint }>()
  let [startNs, lastNs] = [1n << 63n, -(1n << 63n)]
  for (const line of lines) {
    const { measurement, tags, ns } = keyOfLine(textOf(encoded.lines, line))
    const position = positionOf(encoded, logNumber, encoded.lines.message[line]!)
    wanted.set(keyOf(measurement, [...tags], ns, position), line)
    measurements.add(measurement)
    if (ns < startNs) startNs = ns
    if (ns > lastNs) lastNs = ns
    const span = spans.get(position >> 44n)
    if (span === undefined) spans.set(position >> 44n, { first: position, last: position })
    else if (position < span.first) span.first = position
    else if (position > span.last) span.last = position
  }
  const ofMeasurements = measurements.size > measurementsMax ? '' : fluxOf([...measurements])
  const between = [...spans.values()].map(({ first, last }) => `(r._value >= ${first} and r._value <= ${last})`)
  const ofPositions = ` |> filter(fn: (r) => r._field == "/position" and (${between.join(' or ')}))`
  const range = { startNs, stopNs: lastNs + 1n }
  for await (const rows of connection.query(fluxFrom(connection.bucket, range) + ofMeasurements + ofPositions, signal)) {
    for (const row of rows) {
      const line = wanted.get(keyOfRow(row))
      if (line !== undefined) found.add(line)
    }
  }
  return found
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
