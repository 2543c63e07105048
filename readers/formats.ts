// Which formats a channel has, and by which subtopics they came: the newest rows of one format after another are looked at, so that a channel costs
// the same however much it has.

import { byBytes } from './groups.ts'
import { unitsDown } from './instants.ts'
import { type FormatsQuery, noFilters, type Selection } from './query.ts'
import { type FoundFormat, QueryTooLargeError, type Reader, type Row, senmlFormat } from './reader.ts'

/** What the rows of a format say that were looked at. */
export interface Seen {
  /** By subtopic, the microsecond of its newest row. Those that came last are enough. */
  readonly lastUs: ReadonlyMap<string, number>
  /** As many rows were looked at as may be. */
  readonly hasMore: boolean
}

/** @param rows newest first */
export async function seeRows(rows: AsyncIterable<Row>, rowsMax: number): Promise<Seen> {
  const lastUs = new Map<string, number>()
  let left = rowsMax
  for await (const row of rows) {
    if (!lastUs.has(row.subtopic)) {
      lastUs.set(row.subtopic, row.kind === 'senml' ? row.timeUs : Number(unitsDown(row.createdNs, 1000n)))
    }
    if (--left === 0) break
  }
  return { lastUs, hasMore: left === 0 }
}

/**
 * Looks at SenML and then at the other formats in their order, until as many as are wanted have rows.
 *
 * @param names of the formats that may have rows, in any order
 */
export async function formatsOf(
  names: Iterable<string>,
  { channel, publisher, fromUs, formatsMax, subtopicsMax }: FormatsQuery,
  look: (selection: Selection) => Promise<Seen>,
): Promise<FoundFormat[]> {
  const found: FoundFormat[] = []
  for (const format of new Set([senmlFormat, ...[...names].sort(byBytes)])) {
    if (found.length === formatsMax) break
    const { lastUs, hasMore } = await look({ ...noFilters, channel, publisher, format, fromNs: BigInt(fromUs) * 1000n })
    if (lastUs.size === 0) continue
    const subtopics = [...lastUs].map(([subtopic, us]) => ({ subtopic, lastUs: us }))
    subtopics.sort((one, other) => other.lastUs - one.lastUs || byBytes(one.subtopic, other.subtopic))
    found.push({ format, subtopics: subtopics.slice(0, subtopicsMax), hasMore: hasMore || subtopics.length > subtopicsMax })
  }
  return found
}

/** Of an answer. */
const formatsMax = 100
const subtopicsMax = 100
/** Of each format. PostgreSQL looks at them in some 15 ms, in which the embedded one does nothing else. */
const rowsMax = 10_000
const daySeconds = 86_400

/**
 * The answer as JSON text.
 *
 * @param publisher whose messages alone the asker may see
 * @param days so far back
 */
export async function formatsAnswer(
  reader: Pick<Reader, 'formats'>,
  channel: string,
  publisher: string | undefined,
  days: number,
  signal: AbortSignal,
): Promise<string> {
  const since = Math.floor(Date.now() / 1000) - days * daySeconds
  const limits = { rowsMax, subtopicsMax, formatsMax: formatsMax + 1 }
  const found = await reader.formats({ channel, publisher, fromUs: since * 1e6, ...limits }, signal).catch((error: unknown) => {
    if (!(error instanceof QueryTooLargeError)) throw error
    throw new QueryTooLargeError('the store took longer than one query may: give fewer days', { cause: error })
  })
  const formats = found.slice(0, formatsMax).map(({ format, subtopics, hasMore }) => ({
    format,
    subtopics: subtopics.map(({ subtopic, lastUs }) => ({ subtopic, last: lastUs / 1e6 })),
    more: hasMore,
  }))
  return JSON.stringify({ formats, more: found.length > formatsMax, since })
}
