// The formats of a channel: the storage knows the newest point of each measurement and subtopic, and one row says how far the newest rows reach.

import { cell } from '../../sinks/influxdb/annotated-csv.ts'
import { formatsOf } from '../formats.ts'
import type { FormatsQuery } from '../query.ts'
import { type FoundFormat, openGroupLimit, senmlFormat, timeNsOf } from '../reader.ts'
import type { Asking } from './asking.ts'
import type { Paces } from './paces.ts'
import { readPage } from './page.ts'
import { microsecondOfLine, tagsOfLine } from './places.ts'
import { measurementOf, selectSubtopics } from './select.ts'
import { boundsOf, microsecondOf } from './span.ts'

export async function findFormats(asking: Asking, query: FormatsQuery, paces: Paces): Promise<FoundFormat[]> {
  const { rowsMax, fromUs } = query
  const found = await newestOfSubtopics(asking, query, fromUs)
  return await formatsOf(found.keys(), query, async selection => {
    const lastUs = found.get(selection.format) ?? new Map<string, number>()
    if (lastUs.size === 0) return { lastUs, hasMore: false }
    const page = { ...selection, direction: 'desc', offset: rowsMax - 1, limit: 1, after: undefined } as const
    const [last] = await readPage(asking, page, paces)
    if (last === undefined) return { lastUs, hasMore: false }
    const reachedUs = microsecondOf(timeNsOf(last))
    return { lastUs: new Map([...lastUs].filter(([, us]) => us >= reachedUs)), hasMore: true }
  })
}

/** By format and subtopic. @throws QueryTooLargeError */
async function newestOfSubtopics(asking: Asking, query: FormatsQuery, fromUs: number): Promise<Map<string, Map<string, number>>> {
  const { all } = boundsOf({ format: senmlFormat, fromNs: BigInt(fromUs) * 1000n, toNs: undefined })
  const newest = new Map<string, Map<string, number>>()
  const enter = openGroupLimit('subtopics')
  for await (const lines of asking.query(selectSubtopics(asking.bucket, query, all))) {
    for (const line of lines) {
      const { subtopic } = tagsOfLine(line)
      enter(subtopic.length)
      const format = formatOf(cell(line, '_measurement')!, subtopic)
      if (format === undefined) continue
      const lastUs = newest.get(format) ?? new Map<string, number>()
      newest.set(format, lastUs.set(subtopic, microsecondOfLine(line)))
    }
  }
  return newest
}

/**
 * A measurement is called as its format, or with a hash of it: then the subtopics name the format, which is their last part. undefined where
 * neither does.
 */
function formatOf(measurement: string, subtopic: string): string | undefined {
  return [measurement, subtopic.slice(subtopic.lastIndexOf('.') + 1)].find(format => measurementOf(format) === measurement)
}
