// Takes away the points of a message of which another point was refused, and no point of any other message.
//
// A delete names an instant and tags, and cannot ask for a tag that is absent: `unit=""` finds nothing. So it might also find points that have more
// tags than ours, at the same nanosecond. Those are looked for before, by their position, and written again afterwards. It takes two
// messages of one channel in one microsecond, whose offsets are a multiple of 1,000 apart, for there to be any. From the instant at which the
// delete is sent until they are there again nothing ends it early: neither the signal nor a delete that fails, which may yet be done.

import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { eachAtOnce } from './bodies.ts'
import type { Connection } from './connection.ts'
import { fluxFrom, fluxWhere, instantOf } from './flux.ts'
import type { LineKey } from './line-protocol.ts'
import { lineOf, readPoints } from './stored-points.ts'

const compress = promisify(gzip)

const timesMax = 4
const waitMs = 100

interface Removing {
  /** Positions of all messages that are being taken away. */
  readonly going: ReadonlySet<bigint>
  /** Lines that were deleted with others and are not there again yet; each is taken out when it is. */
  readonly owed: Set<string>
  /** So many instants are worked on at once. */
  readonly atOnce: number
  readonly signal: AbortSignal
}

/** Those of one instant in turn: each may find points that the other is writing again. */
export async function removePoints(connection: Connection, keys: readonly LineKey[], removing: Removing): Promise<void> {
  const instants = Map.groupBy(distinct(keys), ({ ns }) => ns)
  await eachAtOnce([...instants.values()], removing.atOnce, async ofInstant => {
    for (const key of ofInstant) await removePoint(connection, key, removing)
  })
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

async function removePoint(connection: Connection, { measurement, tags, ns }: LineKey, { going, owed, signal }: Removing): Promise<void> {
  const { bucket } = connection
  const named = { _measurement: measurement, ...Object.fromEntries(tags) }
  const points = await readPoints(connection, fluxFrom(bucket, { startNs: ns, stopNs: ns + 1n }) + fluxWhere(named), signal)
  const foreign = points.filter(point => !going.has(point.fields.get('/position') as bigint))
  // It may have gone with another one, which has fewer tags.
  if (foreign.length === points.length) return
  const instant = instantOf(ns)
  const predicate = predicateOf(named)
  if (foreign.length === 0) return await connection.remove(bucket, instant, instant, predicate, signal)
  signal.throwIfAborted()
  const again = foreign.map(lineOf)
  for (const line of again) owed.add(line)
  try {
    await connection.remove(bucket, instant, instant, predicate)
  } finally {
    await writeOwed(connection, owed, again)
  }
}

/** Some times, since without it they are lost. What fails all the same stays owed, for the next write of the batch. */
export async function writeOwed(connection: Connection, owed: Set<string>, lines: readonly string[] = [...owed]): Promise<void> {
  if (lines.length === 0) return
  const body = await compress(lines.join(''))
  for (let times = 1; ; times++) {
    try {
      await connection.write(connection.bucket, body)
      break
    } catch (error) {
      if (times === timesMax) throw error
      await wait(waitMs * 2 ** times)
    }
  }
  for (const line of lines) owed.delete(line)
}

/** In the words of InfluxQL, where a value stands in double quotes as a name does. No tag holds a line end. */
export function predicateOf(columns: Readonly<Record<string, string>>): string {
  const quoted = (text: string): string => `"${text.replaceAll(/["\\]/g, '\\$&')}"`
  return Object.entries(columns)
    .map(([name, value]) => `${quoted(name)}=${quoted(value)}`)
    .join(' and ')
}
