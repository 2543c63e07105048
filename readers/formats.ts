// Lists the formats of a channel and their subtopics from the newest rows of each format, so that the cost does not depend on the size of the
// channel.

import { unitsDown } from '../transformers/time-units.ts'
import { byBytes } from './groups.ts'
import {
  type Filter,
  type FormatsQuery,
  type FoundFormat,
  noFilters,
  QueryTooLargeError,
  type Reader,
  type Row,
  senmlFormat,
} from './reader.ts'

/** The result of examining the newest rows of a format. */
export interface Seen {
  /** The time of the newest row by subtopic, in microseconds. Only the most recent subtopics are needed. */
  readonly lastUs: ReadonlyMap<string, number>
  /** True if the limit of examined rows was reached. */
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
 * Examines SenML and then the other formats in order, until enough formats with rows are found.
 *
 * @param names formats that may have rows, in any order
 */
export async function formatsOf(
  names: Iterable<string>,
  { channel, publisher, fromUs, formatsMax, subtopicsMax }: FormatsQuery,
  look: (filter: Filter) => Promise<Seen>,
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

/** Formats per response. */
const formatsMax = 100
const subtopicsMax = 100
/** Rows per format. PostgreSQL examines them in about 15 ms; the embedded one does nothing else during that time. */
const rowsMax = 10_000
const daySeconds = 86_400

/**
 * The response as JSON text.
 *
 * @param publisher the thing whose messages the caller may read; undefined: the whole channel
 * @param days how far back to look
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
    throw new QueryTooLargeError('the query exceeded the time limit of the store: give fewer days', { cause: error })
  })
  const formats = found.slice(0, formatsMax).map(({ format, subtopics, hasMore }) => ({
    format,
    subtopics: subtopics.map(({ subtopic, lastUs }) => ({ subtopic, last: lastUs / 1e6 })),
    more: hasMore,
  }))
  return JSON.stringify({ formats, more: found.length > formatsMax, since })
}
