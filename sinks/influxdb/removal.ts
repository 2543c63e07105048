// Takes away the points of a message of which another point was refused, and no point of any other message.
//
// A delete names an instant and tags, and cannot ask for a tag that is absent: `unit=""` finds nothing. So it might also find points that have more
// tags than ours, at the same nanosecond. Those are looked for before, by their position, and written again afterwards. It takes two
// messages of one channel in one microsecond, whose offsets are a multiple of 1,000 apart, for there to be any.

import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Connection } from './connection.ts'
import { fluxFrom, fluxWhere, instantOf } from './flux.ts'
import { keyOfLine, type LineKey } from './line-protocol.ts'
import { lineOf, readPoints, type StoredPoint } from './stored-points.ts'

const compress = promisify(gzip)

/** @param lines all that the message has, as they were written */
export async function removeMessage(
  connection: Connection,
  lines: readonly string[],
  position: bigint,
  signal: AbortSignal,
): Promise<void> {
  for (const key of distinct(lines.map(keyOfLine))) await removePoints(connection, key, position, signal)
}

/** A delete without `nth` finds the points with any: of several that differ in it alone, one is enough. */
function distinct(keys: readonly LineKey[]): LineKey[] {
  const found = new Map<string, LineKey>()
  for (const { measurement, tags, ns } of keys) {
    const named = new Map([...tags].filter(([name]) => name !== 'nth' && name !== '/nth'))
    found.set(JSON.stringify([measurement, [...named], String(ns)]), { measurement, tags: named, ns })
  }
  return [...found.values()]
}

async function removePoints(
  connection: Connection,
  { measurement, tags, ns }: LineKey,
  position: bigint,
  signal: AbortSignal,
): Promise<void> {
  const { bucket } = connection
  const named = { _measurement: measurement, ...Object.fromEntries(tags) }
  const points = await readPoints(connection, fluxFrom(bucket, { startNs: ns, stopNs: ns + 1n }) + fluxWhere(named), signal)
  const foreign = points.filter(point => point.fields.get('/position') !== position)
  // A delete takes the server long, and mostly there is nothing: the culprit was sent before the others.
  if (foreign.length === points.length) return
  const instant = instantOf(ns)
  await connection.remove(bucket, instant, instant, predicateOf(named), signal)
  if (foreign.length > 0) await writeAgain(connection, foreign, signal)
}

async function writeAgain(connection: Connection, points: readonly StoredPoint[], signal: AbortSignal): Promise<void> {
  await connection.write(connection.bucket, await compress(points.map(lineOf).join('')), signal)
}

/** In the words of InfluxQL, where a value stands in double quotes as a name does. No tag holds a line end. */
export function predicateOf(columns: Readonly<Record<string, string>>): string {
  const quoted = (text: string): string => `"${text.replaceAll(/["\\]/g, '\\$&')}"`
  return Object.entries(columns)
    .map(([name, value]) => `${quoted(name)}=${quoted(value)}`)
    .join(' and ')
}
